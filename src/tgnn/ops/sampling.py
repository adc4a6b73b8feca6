"""Neighbor sampling: sample in-edges of the seed nodes, then of the new nodes of each hop.

The random numbers are counter-based: splitmix64 of a key, the hop, the node and a counter. So a sample depends neither
on the number of threads nor on the order of the work. The C++ kernel (``kernels/sample.h``) and the numpy version below
return the same sample, bit for bit. Change them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tgnn.ops import cpp_build
from tgnn.ops.graph import CompressedEdges


class Sample(NamedTuple):
    """A sampled subgraph, with nodes and edges in the order in which they were sampled."""

    node: Tensor
    """Node indices in the graph: the seeds, then the new nodes of each hop; int64."""
    row: Tensor
    """Source of each edge, as a position in ``node``."""
    col: Tensor
    """Destination of each edge, as a position in ``node``."""
    edge: Tensor | None
    """Edge indices in the graph, if requested."""
    nodes_per_hop: list[int]
    """Number of seeds, then the number of new nodes in each hop."""
    edges_per_hop: list[int]
    """Number of sampled edges in each hop."""


def sample_neighbors(
    in_edges: CompressedEdges,
    seeds: Tensor,
    fan_out: Sequence[int],
    *,
    replace: bool = False,
    fill_up: bool = False,
    edge_ids: bool = True,
    by_node: bool = False,
    seed: int = 0,
    epoch: int = 0,
) -> Sample:
    """Sample in-edges of the seeds, then of the new nodes, with one hop for each entry of ``fan_out``.

    A duplicate seed appears twice in the sample, with the same in-edges. Edges out of it start at its first position.

    Args:
        in_edges: Edges of the graph, grouped by destination (CSC).
        seeds: Seed nodes, ``[S]``.
        fan_out: Number of in-edges to sample per node in each hop; -1 takes all.
        replace: Whether to sample with replacement.
        fill_up: Whether nodes with fewer in-edges than ``fan_out`` get some of them repeatedly, up to ``fan_out``.
        edge_ids: Whether to return the indices of the sampled edges.
        by_node: Whether the sample of a node depends only on ``seed``, ``epoch`` and the node, and not on the other
            seeds or on the hop.
        seed: Random seed.
        epoch: Epoch number; each epoch gives another sample.

    Shapes:
        - **input:** seeds ``[S]``
        - **output:** ``node`` ``[n]``; ``row``, ``col`` and ``edge`` ``[e]``

    Example:
        >>> from tgnn.ops.graph import group
        >>> in_edges = group(torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2, 3, 3]), 4, torch.int32)
        >>> sample = sample_neighbors(in_edges, torch.tensor([0]), [-1, -1])
        >>> sample.node.tolist(), sample.row.tolist(), sample.col.tolist()
        ([0, 1, 2, 3], [1, 2, 3, 3], [0, 0, 1, 2])
        >>> sample.nodes_per_hop, sample.edges_per_hop
        ([1, 2, 1], [2, 2])
    """
    seeds = _checked_seeds(seeds, in_edges.num_groups)
    key = _key(seed, epoch, seeds[:0] if by_node else seeds)
    if lib := cpp_build.load():
        return _sample_in_cpp(lib, in_edges, seeds, fan_out, key, replace, fill_up, by_node, edge_ids)
    return _sample_in_numpy(in_edges, seeds, fan_out, key, replace, fill_up, by_node, edge_ids)


def check_num_neighbors(fan_out: Any, replace: bool, fill_up: bool) -> list[int]:
    """Check the numbers of neighbors per hop and return them as a list."""
    if not isinstance(fan_out, (list, tuple)) or not all(type(k) is int for k in fan_out):
        raise TypeError(f"fan_out must be a list of integers, one for each hop, got {fan_out!r}.")
    if not fan_out:
        raise ValueError("fan_out is empty, but must have one entry for each hop, such as [5, 5].")
    for hop, k in enumerate(fan_out):
        if k == 0 or k < -1 or k >= 2**31:
            raise ValueError(
                f"fan_out[{hop}] is {k}, but must be a number of neighbors, 1 or more, or -1 for all of them."
            )
    if replace and -1 in fan_out:
        raise ValueError(f"fan_out {list(fan_out)} contains -1 (all neighbors), which needs replace=False.")
    if replace and fill_up:
        raise ValueError("replace=True already gives every node fan_out neighbors; use either replace or fill_up.")
    return list(fan_out)


def _checked_seeds(seeds: Tensor, num_nodes: int) -> Tensor:
    if not isinstance(seeds, Tensor) or seeds.dim() != 1 or seeds.dtype not in (torch.int64, torch.int32):
        got = f"{list(seeds.shape)} of {seeds.dtype}" if isinstance(seeds, Tensor) else type(seeds).__name__
        raise TypeError(f"The seeds must be a one-dimensional tensor of int64 or int32, got {got}.")
    if seeds.numel():
        low, high = (int(value) for value in torch.aminmax(seeds))
        if low < 0 or high >= num_nodes:
            raise ValueError(
                f"Seed {low if low < 0 else high} is not in the graph, which has the nodes 0 to {num_nodes - 1}; "
                "pass num_nodes if the last nodes have no edges."
            )
    return seeds.to(torch.int64).contiguous()


def _raise_invalid(in_edges: CompressedEdges, wrong_node: int, wrong_edge: int) -> None:
    """Raise an error for an invalid graph. A graph on disk is checked only while it is sampled."""
    if wrong_node >= 0:
        low, high = in_edges.ptr[wrong_node : wrong_node + 2].tolist()
        raise ValueError(
            f"The edges into node {wrong_node} would be {low} to {high} of {in_edges.index.numel()}, but rowptr must "
            "not decrease and must end with the number of edges."
        )
    if wrong_edge >= 0:
        raise ValueError(
            f"Edge {wrong_edge} has source {int(in_edges.index[wrong_edge])}, but the graph has the nodes 0 to "
            f"{in_edges.num_groups - 1}."
        )


def _sample_in_cpp(
    lib: cpp_build.Library,
    in_edges: CompressedEdges,
    seeds: Tensor,
    fan_out: Sequence[int],
    key: int,
    replace: bool,
    fill_up: bool,
    by_node: bool,
    edge_ids: bool,
) -> Sample:
    hops = len(fan_out)
    graph = (in_edges.ptr, in_edges.index, in_edges.perm, in_edges.num_groups, in_edges.index.numel())
    report = torch.empty(5 + 2 * hops, dtype=torch.int64)
    suffix = "i32" if in_edges.index.dtype == torch.int32 else "i64"
    fan_outs = torch.tensor(fan_out, dtype=torch.int64)
    options = (key, replace, fill_up, by_node)
    lib.call(f"tgnn_sample_{suffix}", *graph, seeds, seeds.numel(), fan_outs, hops, *options, report)
    nodes, edges, wrong_node, wrong_edge, *per_hop = report.tolist()
    _raise_invalid(in_edges, wrong_node, wrong_edge)
    node, row, col = (torch.empty(size, dtype=torch.int64) for size in (nodes, edges, edges))
    edge = torch.empty(edges, dtype=torch.int64) if edge_ids else None
    lib.call("tgnn_sample_take", node, row, col, edge)
    return Sample(node, row, col, edge, per_hop[: hops + 1], per_hop[hops + 1 :])


# ---- random numbers --------------------------------------------------------------------------------------------

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ALL = 2**64 - 1
_LOW = np.uint64(2**32 - 1)


def _key(seed: int, epoch: int, seeds: Tensor) -> int:
    """Hash the seeds (in their order), the random seed and the epoch into the key of a sample."""
    positions = np.arange(1, len(seeds) + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    nodes = int(_mix(seeds.numpy().astype(np.uint64) + positions).sum(dtype=np.uint64))
    key = 0
    for part in (seed, epoch, nodes):
        key = _mix_int(key + part + _GOLDEN)
    return key


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
    x ^= x >> np.uint64(31)
    return x


def _mix_int(x: int) -> int:
    x &= _ALL
    x = (x ^ x >> 30) * _FIRST & _ALL
    x = (x ^ x >> 27) * _SECOND & _ALL
    return x ^ x >> 31


def _below(numbers: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Map random 64-bit integers to integers below a bound: the upper half of their 128-bit product."""
    (high, low), (top, bottom) = ((x >> np.uint64(32), x & _LOW) for x in (numbers, bound.astype(np.uint64)))
    middle = high * bottom + (low * bottom >> np.uint64(32))
    other = low * top + (middle & _LOW)
    product: np.ndarray = high * top + (middle >> np.uint64(32)) + (other >> np.uint64(32))
    return product.astype(np.int64)


# ---- the same in numpy, without a compiler ---------------------------------------------------------------------


def _sample_in_numpy(
    in_edges: CompressedEdges,
    seeds: Tensor,
    fan_out: Sequence[int],
    key: int,
    replace: bool,
    fill_up: bool,
    by_node: bool,
    edge_ids: bool,
) -> Sample:
    ptr, source = in_edges.ptr.numpy(), in_edges.index.numpy()
    node = seeds.numpy()
    rows, cols, edges = ([np.empty(0, dtype=np.int64)] for _ in range(3))
    nodes_per_hop = [len(node)]
    for hop, limit in enumerate(fan_out):
        begin = len(node) - nodes_per_hop[-1]
        low, high = ptr[node[begin:]], ptr[node[begin:] + 1]
        wrong = (low < 0) | (low > high) | (high > len(source))
        if wrong.any():
            _raise_invalid(in_edges, int(node[begin:][wrong][0]), -1)
        of_hop = _mix_int(key + (1 if by_node else hop + 1) * _GOLDEN)
        state = _mix(np.uint64(of_hop) ^ node[begin:].astype(np.uint64))
        owner, position = _select_edges(state, high - low, limit, replace, fill_up)
        position += low[owner]
        sources = source[position].astype(np.int64)
        wrong = (sources < 0) | (sources >= in_edges.num_groups)
        if wrong.any():
            _raise_invalid(in_edges, -1, int(position[wrong][0]))
        known = len(node)
        node, row = _append_new(node, sources)
        nodes_per_hop.append(len(node) - known)
        rows.append(row)
        cols.append(begin + owner)
        edges.append(position)
    nodes, row_of, col_of, edge = (torch.from_numpy(np.concatenate(parts)) for parts in ([node], rows, cols, edges))
    if in_edges.perm is not None:
        edge = in_edges.perm[edge]
    edges_per_hop = [len(part) for part in rows[1:]]
    return Sample(nodes, row_of, col_of, edge if edge_ids else None, nodes_per_hop, edges_per_hop)


def _select_edges(
    state: np.ndarray, degree: np.ndarray, limit: int, replace: bool, fill_up: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Select in-edges for nodes of these degrees; return the node of each edge and its position among its in-edges."""
    if limit == -1:
        rounds, drawn = np.ones_like(degree), np.zeros_like(degree)
    elif replace:
        rounds, drawn = np.zeros_like(degree), np.full_like(degree, limit)
    elif fill_up:
        rounds, drawn = np.divmod(limit, np.maximum(degree, 1))
    else:
        rounds, drawn = (degree <= limit).astype(np.int64), np.where(degree <= limit, 0, limit)
    drawn[degree == 0] = 0
    count = rounds * degree + drawn
    owner = np.repeat(np.arange(len(degree)), count)
    position = np.arange(len(owner)) - (np.cumsum(count) - count)[owner]  # first, all in-edges `rounds` times
    again = position - (rounds * degree)[owner]  # then, the random ones
    position %= degree[owner]
    at_random = again >= 0
    position[at_random] = _draw(state, degree, drawn, replace)[owner[at_random], again[at_random]]
    return owner, position


def _draw(state: np.ndarray, degree: np.ndarray, count: np.ndarray, replace: bool) -> np.ndarray:
    """Draw ``count`` numbers below the degree of each node, in columns; without replacement by Floyd's algorithm."""
    numbers = np.zeros((len(count), int(count.max(initial=0))), dtype=np.int64)
    for i in range(numbers.shape[1]):
        nodes = np.flatnonzero(count > i)
        last = degree[nodes] - count[nodes] + i
        random = _mix(state[nodes] + np.uint64((i + 1) * _GOLDEN & _ALL))
        number = _below(random, degree[nodes] if replace else last + 1)
        if not replace:
            taken = (numbers[nodes, :i] == number[:, None]).any(axis=1)
            number = np.where(taken, last, number)
        numbers[nodes, i] = number
    return numbers


def _append_new(node: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Append the new nodes of ``source`` to ``node``, and return the position of each ``source`` in the result."""
    visited = np.concatenate([node, source])
    unique, first, inverse = np.unique(visited, return_index=True, return_inverse=True)
    new = np.flatnonzero(first >= len(node))
    new = new[np.argsort(first[new])]  # in the order of their first appearance
    position = first
    position[new] = len(node) + np.arange(len(new))
    return np.concatenate([node, unique[new]]), position[inverse[len(node) :]]
