"""Measure neighbor samplers on one graph in a separate process. Prints a JSON object.

python -m benchmarks.sampling GRAPH NODES EDGES      GRAPH: uniform or hubs
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np
import torch
import torch_geometric.typing
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.sampler import BaseSampler, NodeSamplerInput
from torch_geometric.sampler import NeighborSampler as OfPyG

from benchmarks import graphs
from benchmarks.measure import side_by_side
from tgnn.data.sampler import NeighborSampler
from tgnn.ops import cpp_build as native

SEEDS, FAN_OUT = 1024, [5, 5]


def plain_numpy(ptr: np.ndarray, col: np.ndarray, seeds: np.ndarray, random: np.random.Generator) -> list[np.ndarray]:
    """Sample with numpy only, hop by hop: Floyd's algorithm for distinct neighbors, ``np.unique`` for new nodes."""
    node, new, rows, cols, edges = seeds, seeds, [], [], []
    for k in FAN_OUT:
        begin, degree = ptr[new], ptr[new + 1] - ptr[new]
        some = degree > k
        chosen = np.tile(np.arange(k), (len(new), 1))
        for i in range(k):
            last = degree[some] - k + i
            number = random.integers(last + 1)
            taken = (chosen[some, :i] == number[:, None]).any(axis=1)
            chosen[some, i] = np.where(taken, last, number)
        owner, place = np.nonzero(chosen < degree[:, None])
        edge = begin[owner] + chosen[owner, place]
        visited, first, inverse = np.unique(np.concatenate([node, col[edge]]), return_index=True, return_inverse=True)
        fresh = np.flatnonzero(first >= len(node))
        number = first.copy()
        number[fresh] = len(node) + np.arange(len(fresh))
        rows.append(number[inverse[len(node) :]])
        cols.append(len(node) - len(new) + owner)
        edges.append(edge)
        new = visited[fresh]
        node = np.concatenate([node, new])
    return [node, np.concatenate(rows), np.concatenate(cols), np.concatenate(edges)]


def contenders(ptr: Tensor, col: Tensor, batches: Iterator[Tensor]) -> dict[str, Callable[[], object]]:
    def next_of(sampler: BaseSampler) -> Callable[[], object]:
        return lambda: sampler.sample_from_nodes(NodeSamplerInput(None, next(batches)))

    random = np.random.default_rng(0)
    ours = next_of(NeighborSampler((ptr, col), FAN_OUT))

    def without_a_compiler() -> object:
        with mock.patch.object(native, "load", return_value=None):
            return ours()

    samplers = {
        "tgnn": ours,
        "tgnn without a compiler": without_a_compiler,
        "plain numpy": lambda: plain_numpy(ptr.numpy(), col.numpy(), next(batches).numpy(), random),
    }
    if torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE:
        owners = torch.arange(ptr.numel() - 1).repeat_interleave(ptr.diff())
        data = Data(edge_index=torch.stack([col.long(), owners]), num_nodes=ptr.numel() - 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch-sparse is deprecated
            of_pyg = OfPyG(data, FAN_OUT, is_sorted=True)
        name = "pyg-lib" if torch_geometric.typing.WITH_PYG_LIB else "torch-sparse"
        samplers[f"PyG with {name}"] = next_of(of_pyg)
    return samplers


def main() -> None:
    graph, (nodes, edges) = sys.argv[1], map(int, sys.argv[2:])
    src, dst = graphs.uniform(nodes, edges) if graph == "uniform" else graphs.power_law(nodes, edges, 100_000)
    ptr = torch.zeros(nodes + 1, dtype=torch.int64)
    ptr[1:] = torch.bincount(dst, minlength=nodes).cumsum(0)
    col = src.int()  # sources are independent of destinations, so they need not be sorted
    del src, dst
    seeds = torch.randint(nodes, (4000, SEEDS), generator=torch.Generator().manual_seed(1))
    sampler = NeighborSampler((ptr, col), FAN_OUT)
    sizes = [len(sampler.sample_from_nodes(NodeSamplerInput(None, batch)).edge) for batch in seeds[:20]]
    seconds = side_by_side(contenders(ptr, col, itertools.cycle(seeds)), 9)
    print(json.dumps({"edges in a batch": float(np.mean(sizes)), **seconds}))


if __name__ == "__main__":
    main()
