"""Outputs of all nodes of a graph that is too large to be in memory: exact, layer by layer, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn.norm import BatchNorm, LayerNorm

from tgnn.nn.conv import TGNNConv
from tgnn.nn.conv.tgnn_conv import _Messages
from tgnn.nn.models.tgnn import TGNN
from tgnn.nn.neighborhood import Neighborhood, inverse_root
from tgnn.ops.graph import CompressedEdges
from tgnn.utils.memory_map import as_tensor, create_memmap

EDGES_AT_ONCE = 2**22
NODES_AT_ONCE = 2**16

Rows = Callable[[int, int], Tensor]
"""Rows from one node to before another."""


@torch.no_grad()
def infer_layerwise(
    gnn: TGNN,
    read: Rows,
    in_edges: CompressedEdges,
    scratch: Path,
    tell: Callable[[int, int], None] = lambda done, all_nodes: None,
    edges_at_once: int = EDGES_AT_ONCE,
) -> np.memmap:
    r"""What ``gnn.eval()(x, edge_index)`` says, with every neighbor of every node, from files into a file.

    Each layer is done in two halves (:class:`~tgnn.nn.TGNNConv`): factor and summand of every node, once, into a file;
    then their product and sum over the in-edges of each node. Memory is that of a block, whatever the graph.

    Args:
        gnn: The model.
        read: Features of the nodes from one to before another.
        in_edges: The edges grouped by destination; both arrays may be mapped from files.
        scratch: An empty folder for what is between; the result lies there, too.
        tell: Called with how many nodes of how many are done, counted over all layers.
        edges_at_once: Size of a block; a node of more in-edges is a block of its own.

    Shapes:
        - **output:** ``[N, out_channels]``, float32, mapped from a file

    Example:
        >>> from tgnn.ops.graph import group
        >>> gnn, x = TGNN(4, 8, num_layers=2, out_channels=3, rank=8).eval(), torch.randn(5, 4)
        >>> source, target = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> folder = getfixture("tmp_path")
        >>> out = infer_layerwise(gnn, lambda a, b: x[a:b], group(target, source, 5, torch.int32), folder)
        >>> bool(torch.allclose(torch.from_numpy(out), gnn(x, torch.stack([source, target])), atol=1e-6))
        True
    """
    _check_norms(gnn)
    nodes, layers = in_edges.num_groups, len(gnn.convs)
    blocks = list(_blocks(in_edges.ptr, edges_at_once))
    loops = _own_loops(in_edges, blocks)
    kept: list[Rows] = []  # of the layers, for jumping knowledge
    jumps = gnn.jk_mode is not None
    for number, conv in enumerate(gnn.convs):
        last = number == layers - 1 and not jumps
        width = conv.out_channels
        out = _file(scratch / f"layer-{number}.npy", nodes, width)
        for begin, end, rows in _layer(conv, read, in_edges, blocks, loops, scratch):
            out[begin:end] = rows.numpy() if last else _after(gnn, number, rows).numpy()
            tell(number * nodes + end, layers * nodes)
        read = _rows_of(out)
        kept.append(read)
    if not hasattr(gnn, "lin"):
        return out
    final = _file(scratch / "outputs.npy", nodes, gnn.out_channels)
    for begin, end in _steps(nodes):
        xs = [rows(begin, end) for rows in kept]
        final[begin:end] = gnn.lin(gnn.jk(xs) if hasattr(gnn, "jk") else xs[-1]).numpy()
    return final


def _layer(
    conv: TGNNConv,
    read: Rows,
    in_edges: CompressedEdges,
    blocks: list[tuple[int, int]],
    loops: Tensor,
    scratch: Path,
) -> Iterator[tuple[int, int, Tensor]]:
    """The rows of one layer, block by block."""
    nodes = in_edges.num_groups
    roots = None
    if conv.needs_roots:
        degree = in_edges.ptr.diff() + (~loops if conv.closed else 0)
        roots = inverse_root(degree.to(torch.float32))
    told = _Messages(
        _tensor(scratch / "factors.npy", nodes, conv.rank) if conv.rank else None,
        _tensor(scratch / "summands.npy", nodes, conv.out_channels) if conv.low_order is not None else None,
    )
    for begin, end in _steps(nodes):
        some = conv.tell(read(begin, end), None if roots is None else roots[begin:end])
        for whole, part in zip(told, some):
            if whole is not None and part is not None:
                whole[begin:end] = part
    for begin, end in blocks:
        own = read(begin, end) if conv.lin_root is not None else None
        near = _near(in_edges, begin, end, loops if conv.closed else None)
        yield begin, end, conv.hear(told, near, None if roots is None else (roots, roots[begin:end]), own)


def _near(in_edges: CompressedEdges, begin: int, end: int, loops: Tensor | None) -> Neighborhood:
    """The neighborhoods of some nodes, among all."""
    ptr = in_edges.ptr[begin : end + 1]
    source = in_edges.index[int(ptr[0]) : int(ptr[-1])]
    target = torch.arange(end - begin, dtype=source.dtype).repeat_interleave(ptr.diff(), output_size=source.numel())
    if loops is not None:
        missing = (~loops[begin:end]).nonzero().squeeze(1).to(source.dtype)
        source, target = torch.cat([source, missing + begin]), torch.cat([target, missing])
    edge_index = torch.stack([source, target])
    return Neighborhood(source, edge_index, (in_edges.num_groups, end - begin), False, None, None)


def _own_loops(in_edges: CompressedEdges, blocks: list[tuple[int, int]]) -> Tensor:
    """Which nodes have an edge to themselves."""
    found = torch.zeros(in_edges.num_groups, dtype=torch.bool)
    for begin, end in blocks:
        source, target = _near(in_edges, begin, end, None).graph
        found[source[source == target + begin].long()] = True
    return found


def _check_norms(gnn: TGNN) -> None:
    for norm in gnn.norms:
        alone = isinstance(norm, (torch.nn.Identity, BatchNorm, torch.nn.BatchNorm1d, torch.nn.LayerNorm))
        if not alone and not (isinstance(norm, LayerNorm) and norm.mode == "node"):
            raise ValueError(f"{norm} looks at all nodes at once, which does not go block by block; batch_norm does")


def _after(gnn: TGNN, number: int, x: Tensor) -> Tensor:
    """What PyG's ``BasicGNN`` does between layers, where nothing is dropped."""
    act, norm = gnn.act, gnn.norms[number]
    if act is not None and gnn.act_first:
        x = act(x)
    x = norm(x)
    return x if act is None or gnn.act_first else act(x)


def _blocks(ptr: Tensor, edges_at_once: int) -> Iterator[tuple[int, int]]:
    """Nodes of about so many in-edges, and no more nodes than edges."""
    begin, nodes = 0, ptr.numel() - 1
    while begin < nodes:
        end = int(torch.searchsorted(ptr, int(ptr[begin]) + edges_at_once, right=True)) - 1
        end = min(max(end, begin + 1), begin + edges_at_once, nodes)
        yield begin, end
        begin = end


def _steps(nodes: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, nodes, NODES_AT_ONCE):
        yield begin, min(begin + NODES_AT_ONCE, nodes)


def _file(path: Path, rows: int, width: int) -> np.memmap:
    return create_memmap(path, np.float32, (rows, width))


def _tensor(path: Path, rows: int, width: int) -> Tensor:
    return as_tensor(_file(path, rows, width))


def _rows_of(array: np.memmap) -> Rows:
    whole = as_tensor(array)
    return lambda begin, end: whole[begin:end]
