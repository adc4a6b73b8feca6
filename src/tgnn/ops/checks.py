"""What the operators accept: graphs in every form, and errors that say what is wrong with anything else."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch_geometric import EdgeIndex

from tgnn.ops.graph import CLOSED, DOUBTFUL, from_edge_index, graph_of

_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32)
_INT = (int, torch.SymInt)
Layout = tuple[Tensor, Tensor | None, str, int, int]
"""See ``graph.py``."""


def layout_of(graph: Any, z: Tensor, size: tuple[int, int] | None, self_loops: bool = False) -> tuple[Layout, int]:
    """The layout of a graph and its number of edges; with ``self_loops``, of the graph closed by them."""
    if size is not None:
        if not isinstance(size, (tuple, list)) or len(size) != 2 or not all(isinstance(n, _INT) for n in size):
            raise TypeError(f"size must be (N_src, N_dst), two integers, got {size!r}")
        if min(size) < 0:
            raise ValueError(f"size must be (N_src, N_dst), neither of them negative, got {size!r}")
    # Compiled code reuses its buffers unseen; and whoever edits an EdgeIndex does not tell its inner tensor.
    doubtful = torch.compiler.is_compiling() or (isinstance(graph, EdgeIndex) and graph._version > 0)
    own: tuple[int | None, int | None]
    columns: Tensor | None
    if isinstance(graph, EdgeIndex):
        own = graph.sparse_size()
        index, columns, kind, num_edges = graph.as_tensor(), None, "edges", graph.size(1)
    elif isinstance(graph, Tensor) and graph.layout == torch.sparse_csr:
        own = (graph.size(1), graph.size(0))
        index, columns, kind, num_edges = graph.crow_indices(), graph.col_indices(), "csr", graph._nnz()
        _check_ones(graph.values())
    elif isinstance(graph, Tensor) and graph.layout == torch.strided:
        own = (None, None)
        if graph.dim() != 2 or graph.size(0) != 2 or graph.dtype not in INTEGERS:
            turn = "; transpose it with .t()" if graph.dim() == 2 and graph.size(1) == 2 else ""
            raise TypeError(f"edge_index must be an int64 or int32 tensor [2, E], got {describe(graph)}{turn}")
        index, columns, kind, num_edges = graph, None, "edges", graph.size(1)
    elif type(graph).__name__ == "SparseTensor" and hasattr(graph, "csr"):  # torch-sparse, where it is installed
        index, columns, value = graph.csr()
        own = (graph.size(1), graph.size(0))
        kind, num_edges = "csr", columns.numel()
        if value is not None:
            _check_ones(value)
    else:
        way_out = "; convert it with .to_sparse_csr()" if isinstance(graph, Tensor) else ""
        raise TypeError(
            "graph must be an edge_index tensor [2, E], an EdgeIndex, a torch CSR tensor adj_t or a SparseTensor, "
            f"got {describe(graph)}{way_out}"
        )
    check_device(index, z, "graph", "z")
    num_src = size[0] if size else own[0] if own[0] is not None else z.size(0)
    num_dst = size[1] if size else own[1] if own[1] is not None else z.size(0)
    for given, known, what in zip((num_src, num_dst), own, ("sources", "destinations")):
        if known is not None and given != known:
            raise ValueError(f"size says {given} {what}, but the graph has {known}")
    if z.size(0) != num_src:
        raise ValueError(f"z has {z.size(0)} rows, but the graph has {num_src} sources")
    if self_loops or doubtful:
        if self_loops and num_src != num_dst:
            raise ValueError(
                f"self_loops needs one set of nodes, but there are {num_src} sources, {num_dst} destinations"
            )
        kind += (CLOSED if self_loops else "") + (DOUBTFUL if doubtful else "")
        return (index, columns, kind, num_src, num_dst), num_edges
    if isinstance(graph, EdgeIndex) and _has_caches(graph):  # they are used; the operator finds what is made of them
        graph_of("edges", index, None, num_src, num_dst, build=partial(from_edge_index, graph))
    return (index, columns, kind, num_src, num_dst), num_edges


def _has_caches(graph: EdgeIndex) -> bool:
    # Making them would settle a size that the EdgeIndex does not know.
    return bool(graph.is_sorted and None not in graph.sparse_size() and not graph.is_inference())


# ---- checks ----------------------------------------------------------------------------------------------------


def is_tanh(activation: str | None) -> bool:
    if activation not in (None, "tanh"):
        raise ValueError(f"activation must be None or 'tanh', got {activation!r}")
    return activation == "tanh"


def check_rows(x: Any, what: str) -> None:
    if not isinstance(x, Tensor) or x.layout != torch.strided or x.dim() != 2:
        raise TypeError(f"{what} must be a dense tensor of two dimensions, got {describe(x)}")
    if x.dtype not in _FLOATS:
        raise TypeError(f"{what} must be float32, float64, bfloat16 or float16, got {x.dtype}")


def _dual_level() -> bool:
    return forward_ad._current_level >= 0


def check_mode(*tensors: Tensor | None) -> None:
    """Forward-mode derivatives would be lost without a word: refuse them."""
    if torch.compiler.is_compiling() or not (_dual_level() or torch._C._functorch.peek_interpreter_stack()):
        return
    for tensor in tensors:
        if tensor is not None and (
            torch._C._functorch.is_functorch_wrapped_tensor(tensor)
            or torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]
        ):
            raise RuntimeError(
                "the product has no forward-mode derivative and does not work under torch.func (grad, jvp, vmap, ...); "
                "use torch.autograd.grad, with create_graph=True for higher derivatives"
            )


def check_edges(z: Tensor, x: Tensor | None, what: str, shape: tuple[int, ...]) -> None:
    if x is None:
        return
    if not isinstance(x, Tensor) or x.dtype not in _FLOATS:
        raise TypeError(f"{what} must be a tensor of floats, got {describe(x)}")
    if tuple(x.shape) != shape:
        raise ValueError(f"{what} must have shape {list(shape)}, got {list(x.shape)}")
    check_device(x, z, what, "z")


def check_device(x: Tensor, z: Tensor, what: str, other: str) -> None:
    if x.device != z.device:
        raise ValueError(f"{what} is on {x.device}, but {other} is on {z.device}")


def _check_ones(values: Tensor) -> None:
    if values.numel() and not bool((values == 1).all()):
        raise ValueError(
            "adj_t stores values other than 1; the product takes only its structure. Set them to 1, and pass them as "
            "edge_weight if they are weights in [0, 1] that move a factor towards 1"
        )


def describe(x: Any) -> str:
    if not isinstance(x, Tensor):
        return type(x).__name__
    layout = "" if x.layout == torch.strided else f" {str(x.layout).removeprefix('torch.')}"
    return f"a{layout} tensor {list(x.shape)} of {x.dtype}"
