"""Measure time and extra memory of one product in a separate process. Prints a JSON object.

python -m benchmarks.memory METHOD NODES EDGES RANK      METHOD: cpp, torch, mul or sum
"""

from __future__ import annotations

import json
import sys
import time

import torch

from benchmarks.graphs import uniform
from benchmarks.measure import peak, reset_peak, resident
from benchmarks.product import pyg, tgnn


def main() -> None:
    method, (nodes, edge_count, rank) = sys.argv[1], map(int, sys.argv[2:])
    edges = uniform(nodes, edge_count)
    z, grad = torch.randn(nodes, rank).requires_grad_(), torch.randn(nodes, rank)
    product = pyg(edges, method) if method in ("mul", "sum") else tgnn(edges, method)
    start = time.perf_counter()
    if method in ("cpp", "torch"):  # check and sort the graph, once
        warm = torch.ones(nodes, 1).requires_grad_()
        product(warm).sum().backward()
    sorted_at = time.perf_counter()
    peak_before = peak()
    reset_peak()
    before = resident()
    out = product(z)
    forward = time.perf_counter()
    out.backward(grad)
    done = time.perf_counter()
    results = {
        "group": sorted_at - start,
        "forward": forward - sorted_at,
        "backward": done - forward,
        "extra_gib": peak() - before,
        "peak_gib": max(peak_before, peak()),
        "finite": bool(torch.isfinite(z.grad).all()) if z.grad is not None else False,
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
