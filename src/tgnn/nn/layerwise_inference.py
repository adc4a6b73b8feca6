"""Layer-wise inference for graphs larger than memory: exact outputs of all nodes, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn.norm import BatchNorm, LayerNorm

from tgnn.nn.block import TGNNBlock
from tgnn.nn.conv import TGNNConv
from tgnn.nn.models.tgnn import TGNN
from tgnn.nn.neighborhood import Messages, Neighborhood, inv_sqrt
from tgnn.ops.graph import CompressedEdges
from tgnn.utils.memory_map import as_tensor, create_memmap

EDGES_AT_ONCE = 2**22
NODES_AT_ONCE = 2**16

ReadRows = Callable[[int, int], Tensor]
"""Reads the rows ``begin`` to ``end - 1`` of a matrix of node features: ``read(begin, end)``."""


@torch.no_grad()
def infer_layerwise(
    gnn: TGNN,
    read: ReadRows,
    in_edges: CompressedEdges,
    scratch: Path,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    edges_at_once: int = EDGES_AT_ONCE,
) -> np.memmap:
    r"""Compute ``gnn.eval()(x, edge_index)`` with full neighborhoods, from files on disk into a file on disk.

    Each layer runs in two passes. The first computes the messages of every node, its CP factors and summands, and
    writes them to a file. The second aggregates them over the in-edges of each node. The memory needed depends on the
    size of a block, not on the size of the graph.

    Args:
        gnn: Model in evaluation mode.
        read: Reads the input features of a range of nodes.
        in_edges: Edges grouped by destination (CSC). The arrays may be memory-mapped files.
        scratch: Empty folder for intermediate results. The output file is in this folder, too.
        on_progress: Called with the number of finished nodes and the total number, both counted over all layers.
        edges_at_once: Maximum number of edges per block. A node with more in-edges gets a block to itself.

    Shapes:
        - **output:** ``[N, out_channels]``, float32, a memory-mapped file

    Example:
        >>> from tgnn.ops.graph import group
        >>> gnn, x = TGNN(4, 8, num_layers=2, out_channels=3, rank=8).eval(), torch.randn(5, 4)
        >>> source, target = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> folder = getfixture("tmp_path")
        >>> out = infer_layerwise(gnn, lambda a, b: x[a:b], group(target, source, 5, torch.int32), folder)
        >>> bool(torch.allclose(torch.from_numpy(out), gnn(x, torch.stack([source, target])), atol=1e-6))
        True
    """
    if gnn.update_edges:
        raise ValueError("update_edges=True does not support layer-wise inference, which stores no edge states.")
    _check_norms(gnn)
    num_nodes, num_layers = in_edges.num_groups, len(gnn.convs)
    blocks = list(_blocks(in_edges.ptr, edges_at_once))
    has_loop = _has_self_loop(in_edges, blocks)
    read_layers: list[ReadRows] = []  # outputs of all layers, for jumping knowledge
    uses_jk = gnn.jk_mode is not None
    for number, layer in enumerate(gnn.convs):
        conv = layer.conv if isinstance(layer, TGNNBlock) else layer
        is_last = number == num_layers - 1 and not uses_jk
        out = _create_matrix(scratch / f"layer-{number}.npy", num_nodes, conv.out_channels)
        for begin, end, rows in _infer_layer(conv, read, in_edges, blocks, has_loop, scratch):
            if isinstance(layer, TGNNBlock):
                rows = layer.update(rows, read(begin, end) if layer.residual else None)
            out[begin:end] = rows.numpy() if is_last else _norm_and_act(gnn, number, rows).numpy()
            on_progress(number * num_nodes + end, num_layers * num_nodes)
        read = _reader(out)
        read_layers.append(read)
    if not hasattr(gnn, "lin"):
        return out
    final = _create_matrix(scratch / "outputs.npy", num_nodes, gnn.out_channels)
    for begin, end in _node_ranges(num_nodes):
        xs = [read_layer(begin, end) for read_layer in read_layers]
        final[begin:end] = gnn.lin(gnn.jk(xs) if hasattr(gnn, "jk") else xs[-1]).numpy()
    return final


def _infer_layer(
    conv: TGNNConv,
    read: ReadRows,
    in_edges: CompressedEdges,
    blocks: list[tuple[int, int]],
    has_loop: Tensor,
    scratch: Path,
) -> Iterator[tuple[int, int, Tensor]]:
    """Compute the outputs of one layer, block by block."""
    num_nodes = in_edges.num_groups
    deg_inv_sqrt = None
    if conv._uses_degrees:
        degree = in_edges.ptr.diff() + (~has_loop if conv.uses_self_loops else 0)
        deg_inv_sqrt = inv_sqrt(degree.to(torch.float32))
    messages = Messages(
        _create_tensor(scratch / "factors.npy", num_nodes, conv.rank) if conv.rank else None,
        _create_tensor(scratch / "summands.npy", num_nodes, conv.out_channels) if conv.low_order is not None else None,
        _create_tensor(scratch / "gates.npy", num_nodes, conv.out_channels) if conv.gate is not None else None,
    )
    for begin, end in _node_ranges(num_nodes):
        of_range = conv._transform(read(begin, end), None if deg_inv_sqrt is None else deg_inv_sqrt[begin:end])
        for stored, computed in zip(messages, of_range):
            if stored is not None and computed is not None:
                stored[begin:end] = computed
    for begin, end in blocks:
        x_dst = read(begin, end) if conv._uses_destinations else None
        neighborhood = _neighborhood(in_edges, begin, end, has_loop if conv.uses_self_loops else None)
        of_block = None if deg_inv_sqrt is None else (deg_inv_sqrt, deg_inv_sqrt[begin:end])
        yield begin, end, conv._aggregate(messages, neighborhood, of_block, x_dst)[0]


def _neighborhood(in_edges: CompressedEdges, begin: int, end: int, has_loop: Tensor | None) -> Neighborhood:
    """Return the neighborhoods of the nodes ``begin`` to ``end - 1``, with self-loops if ``has_loop`` is given."""
    ptr = in_edges.ptr[begin : end + 1]
    source = in_edges.index[int(ptr[0]) : int(ptr[-1])]
    target = torch.arange(end - begin, dtype=source.dtype).repeat_interleave(ptr.diff(), output_size=source.numel())
    if has_loop is not None:
        missing = (~has_loop[begin:end]).nonzero().squeeze(1).to(source.dtype)
        source, target = torch.cat([source, missing + begin]), torch.cat([target, missing])
    edge_index = torch.stack([source, target])
    return Neighborhood(source, edge_index, (in_edges.num_groups, end - begin), False, None, None)


def _has_self_loop(in_edges: CompressedEdges, blocks: list[tuple[int, int]]) -> Tensor:
    """Return a mask of the nodes that have a self-loop."""
    has_loop = torch.zeros(in_edges.num_groups, dtype=torch.bool)
    for begin, end in blocks:
        source, target = _neighborhood(in_edges, begin, end, None).graph
        has_loop[source[source == target + begin].long()] = True
    return has_loop


def _check_norms(gnn: TGNN) -> None:
    of_blocks = [norm for block in gnn.convs if isinstance(block, TGNNBlock) for norm in (block.norm, block.norm_ffn)]
    for norm in [*gnn.norms, *(norm for norm in of_blocks if norm is not None)]:
        is_per_node = isinstance(norm, (torch.nn.Identity, BatchNorm, torch.nn.BatchNorm1d, torch.nn.LayerNorm))
        if not is_per_node and not (isinstance(norm, LayerNorm) and norm.mode == "node"):
            raise ValueError(
                f"{norm} normalizes over all nodes at once, so it does not support inference in blocks; use batch_norm."
            )


def _norm_and_act(gnn: TGNN, number: int, x: Tensor) -> Tensor:
    """Apply normalization and activation after a layer, as PyG's ``BasicGNN`` does in evaluation mode."""
    act, norm = gnn.act, gnn.norms[number]
    if act is not None and gnn.act_first:
        x = act(x)
    x = norm(x)
    return x if act is None or gnn.act_first else act(x)


def _blocks(ptr: Tensor, edges_at_once: int) -> Iterator[tuple[int, int]]:
    """Split the nodes into ranges with at most ``edges_at_once`` in-edges and at most as many nodes."""
    begin, num_nodes = 0, ptr.numel() - 1
    while begin < num_nodes:
        end = int(torch.searchsorted(ptr, int(ptr[begin]) + edges_at_once, right=True)) - 1
        end = min(max(end, begin + 1), begin + edges_at_once, num_nodes)
        yield begin, end
        begin = end


def _node_ranges(num_nodes: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, num_nodes, NODES_AT_ONCE):
        yield begin, min(begin + NODES_AT_ONCE, num_nodes)


def _create_matrix(path: Path, rows: int, columns: int) -> np.memmap:
    return create_memmap(path, np.float32, (rows, columns))


def _create_tensor(path: Path, rows: int, columns: int) -> Tensor:
    return as_tensor(_create_matrix(path, rows, columns))


def _reader(array: np.memmap) -> ReadRows:
    tensor = as_tensor(array)
    return lambda begin, end: tensor[begin:end]
