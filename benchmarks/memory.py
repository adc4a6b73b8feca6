"""One product in a process of its own: seconds, and memory beyond what was there before. Prints a JSON object.

python -m benchmarks.memory KIND NODES EDGES RANK      KIND: cpp, torch, mul or sum
"""

from __future__ import annotations

import json
import sys
import time

import torch

from benchmarks.graphs import uniform
from benchmarks.measure import forget_peak, peak, resident
from benchmarks.product import pyg, tgnn


def main() -> None:
    kind, (nodes, edge_count, rank) = sys.argv[1], map(int, sys.argv[2:])
    edges = uniform(nodes, edge_count)
    z, grad = torch.randn(nodes, rank).requires_grad_(), torch.randn(nodes, rank)
    product = pyg(edges, kind) if kind in ("mul", "sum") else tgnn(edges, kind)
    start = time.perf_counter()
    if kind in ("cpp", "torch"):  # checking and grouping the graph: once in its life
        warm = torch.ones(nodes, 1).requires_grad_()
        product(warm).sum().backward()
    grouped = time.perf_counter()
    whole = peak()
    forget_peak()
    before = resident()
    out = product(z)
    forward = time.perf_counter()
    out.backward(grad)
    done = time.perf_counter()
    results = {
        "group": grouped - start,
        "forward": forward - grouped,
        "backward": done - forward,
        "extra_gib": peak() - before,
        "peak_gib": max(whole, peak()),
        "finite": bool(torch.isfinite(z.grad).all()) if z.grad is not None else False,
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
