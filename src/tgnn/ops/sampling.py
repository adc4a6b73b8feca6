"""Samples neighbourhoods: some in-edges of every node of a hop; the nodes first met on them are the next hop.

Random numbers are not drawn in turn but computed from what they are for: splitmix64 of a key, the hop, the node and a
count. So a sample depends neither on the number of threads nor on the order of the work, and the compiled kernel
(``kernels/sample.h``) and the numpy below give the same one, bit for bit: change both or neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tgnn.ops import cpp_build
from tgnn.ops.graph import Grouping


class Sample(NamedTuple):
    """A part of a graph, its nodes and edges in the order in which they were found."""

    node: Tensor
    """The seeds, then the nodes that are new in each hop, as they are called in the graph; int64."""
    row: Tensor
    """Source of each edge: its place in ``node``."""
    col: Tensor
    """Destination of each edge: its place in ``node``."""
    edge: Tensor | None
    """Each edge as it is called in the graph, if wanted."""
    nodes_per_hop: list[int]
    """How many of ``node`` are seeds, and how many are new in each hop."""
    edges_per_hop: list[int]


def sample_neighbors(
    in_edges: Grouping,
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
    """Samples in-edges of the seeds, then of the nodes that are new, one hop for each entry of ``fan_out``.

    A seed that stands twice in ``seeds`` stands twice in the sample, each time with the same in-edges; edges out of it
    come from its first place.

    Args:
        in_edges: The graph's edges, grouped by destination.
        seeds: Nodes to start from, ``[S]``.
        fan_out: How many in-edges a node gets in each hop; -1: all.
        replace: Draw with replacement.
        fill_up: Give nodes with fewer in-edges some of them again, until there are as many as ``fan_out`` says.
        edge_ids: Say which edges of the graph were sampled.
        by_node: What is drawn for a node depends on ``seed``, ``epoch`` and the node alone, not on the other seeds nor
            on the hop.
        seed: Other seeds give other samples.
        epoch: So do other epochs.

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
        return _compiled(lib, in_edges, seeds, fan_out, key, replace, fill_up, by_node, edge_ids)
    return _in_numpy(in_edges, seeds, fan_out, key, replace, fill_up, by_node, edge_ids)


def check_num_neighbors(fan_out: Any, replace: bool, fill_up: bool) -> list[int]:
    """The fan-outs as a list, if they are right."""
    if not isinstance(fan_out, (list, tuple)) or not all(type(k) is int for k in fan_out):
        raise TypeError(f"fan_out must be a list of integers, one for each hop, got {fan_out!r}")
    if not fan_out:
        raise ValueError("fan_out is empty, but must have an entry for each hop, such as [5, 5]")
    for hop, k in enumerate(fan_out):
        if k == 0 or k < -1 or k >= 2**31:
            raise ValueError(
                f"fan_out[{hop}] is {k}, but must be a number of neighbours, 1 or more, or -1 for all of them"
            )
    if replace and -1 in fan_out:
        raise ValueError(f"fan_out {list(fan_out)} has -1, all neighbours: these are not drawn; leave replace away")
    if replace and fill_up:
        raise ValueError("with replacement every node gets as many as fan_out says: leave fill_up or replace away")
    return list(fan_out)


def _checked_seeds(seeds: Tensor, num_nodes: int) -> Tensor:
    if not isinstance(seeds, Tensor) or seeds.dim() != 1 or seeds.dtype not in (torch.int64, torch.int32):
        got = f"{list(seeds.shape)} of {seeds.dtype}" if isinstance(seeds, Tensor) else type(seeds).__name__
        raise TypeError(f"the seeds must be a one-dimensional tensor of int64 or int32, got {got}")
    if seeds.numel():
        low, high = (int(value) for value in torch.aminmax(seeds))
        if low < 0 or high >= num_nodes:
            raise ValueError(
                f"seed {low if low < 0 else high} is not in the graph, which has the nodes 0 to {num_nodes - 1}; "
                "if the last ones have no edges, pass num_nodes"
            )
    return seeds.to(torch.int64).contiguous()


def _refuse(in_edges: Grouping, wrong_node: int, wrong_place: int) -> None:
    """A graph in a file is not read before it is sampled: what is wrong in it is found on the way."""
    if wrong_node >= 0:
        low, high = in_edges.ptr[wrong_node : wrong_node + 2].tolist()
        raise ValueError(
            f"the edges into node {wrong_node} would be {low} to {high} of {in_edges.other.numel()}: rowptr must never "
            "fall, and end with the number of edges"
        )
    if wrong_place >= 0:
        raise ValueError(
            f"edge {wrong_place} comes from node {int(in_edges.other[wrong_place])}, but the graph has the nodes 0 to "
            f"{in_edges.num_groups - 1}"
        )


def _compiled(
    lib: cpp_build.Library,
    in_edges: Grouping,
    seeds: Tensor,
    fan_out: Sequence[int],
    key: int,
    replace: bool,
    fill_up: bool,
    by_node: bool,
    edge_ids: bool,
) -> Sample:
    hops = len(fan_out)
    graph = (in_edges.ptr, in_edges.other, in_edges.edge, in_edges.num_groups, in_edges.other.numel())
    report = torch.empty(5 + 2 * hops, dtype=torch.int64)
    suffix = "i32" if in_edges.other.dtype == torch.int32 else "i64"
    fan_outs = torch.tensor(fan_out, dtype=torch.int64)
    way = (key, replace, fill_up, by_node)
    lib.call(f"tgnn_sample_{suffix}", *graph, seeds, seeds.numel(), fan_outs, hops, *way, report)
    nodes, edges, wrong_node, wrong_place, *per_hop = report.tolist()
    _refuse(in_edges, wrong_node, wrong_place)
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
    """What decides a sample: another for other nodes, and for the same in another order."""
    places = np.arange(1, len(seeds) + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    nodes = int(_mixed(seeds.numpy().astype(np.uint64) + places).sum(dtype=np.uint64))
    key = 0
    for part in (seed, epoch, nodes):
        key = _mixed_number(key + part + _GOLDEN)
    return key


def _mixed(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
    x ^= x >> np.uint64(31)
    return x


def _mixed_number(x: int) -> int:
    x &= _ALL
    x = (x ^ x >> 30) * _FIRST & _ALL
    x = (x ^ x >> 27) * _SECOND & _ALL
    return x ^ x >> 31


def _below(numbers: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Random 64 bits as numbers below a bound: the upper half of their product, which has 128 bits."""
    (high, low), (top, bottom) = ((x >> np.uint64(32), x & _LOW) for x in (numbers, bound.astype(np.uint64)))
    middle = high * bottom + (low * bottom >> np.uint64(32))
    other = low * top + (middle & _LOW)
    product: np.ndarray = high * top + (middle >> np.uint64(32)) + (other >> np.uint64(32))
    return product.astype(np.int64)


# ---- the same in numpy, where there is no compiler -------------------------------------------------------------


def _in_numpy(
    in_edges: Grouping,
    seeds: Tensor,
    fan_out: Sequence[int],
    key: int,
    replace: bool,
    fill_up: bool,
    by_node: bool,
    edge_ids: bool,
) -> Sample:
    ptr, source = in_edges.ptr.numpy(), in_edges.other.numpy()
    node = seeds.numpy()
    rows, cols, edges = ([np.empty(0, dtype=np.int64)] for _ in range(3))
    nodes_per_hop = [len(node)]
    for hop, most in enumerate(fan_out):
        begin = len(node) - nodes_per_hop[-1]
        low, high = ptr[node[begin:]], ptr[node[begin:] + 1]
        wrong = (low < 0) | (low > high) | (high > len(source))
        if wrong.any():
            _refuse(in_edges, int(node[begin:][wrong][0]), -1)
        of_hop = _mixed_number(key + (1 if by_node else hop + 1) * _GOLDEN)
        state = _mixed(np.uint64(of_hop) ^ node[begin:].astype(np.uint64))
        owner, place = _places(state, high - low, most, replace, fill_up)
        place += low[owner]
        far = source[place].astype(np.int64)
        wrong = (far < 0) | (far >= in_edges.num_groups)
        if wrong.any():
            _refuse(in_edges, -1, int(place[wrong][0]))
        known = len(node)
        node, row = _numbered(node, far)
        nodes_per_hop.append(len(node) - known)
        rows.append(row)
        cols.append(begin + owner)
        edges.append(place)
    nodes, row_of, col_of, edge = (torch.from_numpy(np.concatenate(parts)) for parts in ([node], rows, cols, edges))
    if in_edges.edge is not None:
        edge = in_edges.edge[edge]
    edges_per_hop = [len(part) for part in rows[1:]]
    return Sample(nodes, row_of, col_of, edge if edge_ids else None, nodes_per_hop, edges_per_hop)


def _places(
    state: np.ndarray, degree: np.ndarray, most: int, replace: bool, fill_up: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The in-edges that nodes of such degrees get: whose each is, and the how manieth of that node."""
    if most == -1:
        rounds, drawn = np.ones_like(degree), np.zeros_like(degree)
    elif replace:
        rounds, drawn = np.zeros_like(degree), np.full_like(degree, most)
    elif fill_up:
        rounds, drawn = np.divmod(most, np.maximum(degree, 1))
    else:
        rounds, drawn = (degree <= most).astype(np.int64), np.where(degree <= most, 0, most)
    drawn[degree == 0] = 0
    count = rounds * degree + drawn
    owner = np.repeat(np.arange(len(degree)), count)
    place = np.arange(len(owner)) - (np.cumsum(count) - count)[owner]  # first, all of them in turn
    again = place - (rounds * degree)[owner]  # then, those that are drawn
    place %= degree[owner]
    at_random = again >= 0
    place[at_random] = _drawn(state, degree, drawn, replace)[owner[at_random], again[at_random]]
    return owner, place


def _drawn(state: np.ndarray, degree: np.ndarray, count: np.ndarray, replace: bool) -> np.ndarray:
    """For each node ``count`` numbers below its degree, in the columns; distinct ones by Floyd's method."""
    numbers = np.zeros((len(count), int(count.max(initial=0))), dtype=np.int64)
    for i in range(numbers.shape[1]):
        who = np.flatnonzero(count > i)
        last = degree[who] - count[who] + i
        number = _below(_mixed(state[who] + np.uint64((i + 1) * _GOLDEN & _ALL)), degree[who] if replace else last + 1)
        if not replace:
            taken = (numbers[who, :i] == number[:, None]).any(axis=1)
            number = np.where(taken, last, number)
        numbers[who, i] = number
    return numbers


def _numbered(node: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nodes with the new ones among ``source`` after them, and the place of each ``source`` among them."""
    met = np.concatenate([node, source])
    unique, first, inverse = np.unique(met, return_index=True, return_inverse=True)
    new = np.flatnonzero(first >= len(node))
    new = new[np.argsort(first[new])]  # in the order in which they were met
    place = first
    place[new] = len(node) + np.arange(len(new))
    return np.concatenate([node, unique[new]]), place[inverse[len(node) :]]
