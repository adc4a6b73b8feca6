"""Input validation of the operators: graphs in all supported formats, types, shapes and devices."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch_geometric import EdgeIndex

from tgnn.ops.graph import VOLATILE, WITH_SELF_LOOPS, from_edge_index, get_graph

_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32)
_INT = (int, torch.SymInt)
GraphArgs = tuple[Tensor, Tensor | None, str, int, int]
"""A graph as arguments of an operator: ``index, columns, format, num_src, num_dst``, see ``graph.py``."""


def graph_args(
    graph: Any,
    z: Tensor | None,
    size: tuple[int, int] | None,
    self_loops: bool = False,
    other: Tensor | None = None,
) -> tuple[GraphArgs, int]:
    """Convert a graph to the arguments of an operator, and return them with its number of edges.

    Args:
        graph: Graph in any supported format.
        z: Rows of the sources, or ``None`` if the operator has none.
        size: ``(N_src, N_dst)``, or ``None`` to infer it from the graph and ``z``.
        self_loops: Whether the operator adds a self-loop to every node that has none. They are not counted.
        other: Another operand, for its device, if ``z`` is ``None``.
    """
    if size is not None:
        if not isinstance(size, (tuple, list)) or len(size) != 2 or not all(isinstance(n, _INT) for n in size):
            raise TypeError(f"size must be (N_src, N_dst), two integers, got {size!r}.")
        if min(size) < 0:
            raise ValueError(f"size must be (N_src, N_dst), neither of them negative, got {size!r}.")
    # Compiled code reuses its buffers, and an in-place change of an EdgeIndex does not raise the version of its tensor.
    volatile = torch.compiler.is_compiling() or (isinstance(graph, EdgeIndex) and graph._version > 0)
    own_size: tuple[int | None, int | None]
    columns: Tensor | None
    if isinstance(graph, EdgeIndex):
        own_size = graph.sparse_size()
        index, columns, format, num_edges = graph.as_tensor(), None, "edges", graph.size(1)
    elif isinstance(graph, Tensor) and graph.layout == torch.sparse_csr:
        own_size = (graph.size(1), graph.size(0))
        index, columns, format, num_edges = graph.crow_indices(), graph.col_indices(), "csr", graph._nnz()
        _check_ones(graph.values())
    elif isinstance(graph, Tensor) and graph.layout == torch.strided:
        own_size = (None, None)
        if graph.dim() != 2 or graph.size(0) != 2 or graph.dtype not in INTEGERS:
            hint = "; transpose it with .t()" if graph.dim() == 2 and graph.size(1) == 2 else ""
            raise TypeError(f"edge_index must be an int64 or int32 tensor [2, E], got {describe(graph)}{hint}.")
        index, columns, format, num_edges = graph, None, "edges", graph.size(1)
    elif type(graph).__name__ == "SparseTensor" and hasattr(graph, "csr"):  # of torch-sparse, if it is installed
        index, columns, value = graph.csr()
        own_size = (graph.size(1), graph.size(0))
        format, num_edges = "csr", columns.numel()
        if value is not None:
            _check_ones(value)
    else:
        hint = "; convert it with .to_sparse_csr()" if isinstance(graph, Tensor) else ""
        raise TypeError(
            "graph must be an edge_index tensor [2, E], an EdgeIndex, a torch CSR tensor adj_t or a SparseTensor, "
            f"got {describe(graph)}{hint}."
        )
    operand = other if z is None else z
    assert operand is not None
    check_device(index, operand, "graph", "z" if z is not None else "the operand of the edges")
    if z is None and size is None and None in own_size:
        raise ValueError("Without z, the number of nodes is unknown; pass size=(N_src, N_dst).")
    rows = 0 if z is None else z.size(0)
    num_src = size[0] if size else own_size[0] if own_size[0] is not None else rows
    num_dst = size[1] if size else own_size[1] if own_size[1] is not None else rows
    for given, known, name in zip((num_src, num_dst), own_size, ("sources", "destinations")):
        if known is not None and given != known:
            raise ValueError(f"size has {given} {name}, but the graph has {known}.")
    if z is not None and z.size(0) != num_src:
        raise ValueError(f"z has {z.size(0)} rows, but the graph has {num_src} sources.")
    if self_loops or volatile:
        if self_loops and num_src != num_dst:
            raise ValueError(
                f"self_loops=True needs one set of nodes, but there are {num_src} sources and {num_dst} destinations."
            )
        format += (WITH_SELF_LOOPS if self_loops else "") + (VOLATILE if volatile else "")
        return (index, columns, format, num_src, num_dst), num_edges
    if isinstance(graph, EdgeIndex) and _has_caches(graph):
        # Build the graph from the CSC and CSR of the EdgeIndex. The operator then finds it in the cache.
        get_graph("edges", index, None, num_src, num_dst, build=partial(from_edge_index, graph))
    return (index, columns, format, num_src, num_dst), num_edges


def _has_caches(graph: EdgeIndex) -> bool:
    # For an EdgeIndex of unknown size, computing them would fix its size.
    return bool(graph.is_sorted and None not in graph.sparse_size() and not graph.is_inference())


# ---- checks ----------------------------------------------------------------------------------------------------


def is_tanh(activation: str | None) -> bool:
    if activation not in (None, "tanh"):
        raise ValueError(f"activation must be None or 'tanh', got {activation!r}.")
    return activation == "tanh"


def check_rows(x: Any, name: str) -> None:
    if not isinstance(x, Tensor) or x.layout != torch.strided or x.dim() != 2:
        raise TypeError(f"{name} must be a dense tensor of two dimensions, got {describe(x)}.")
    if x.dtype not in _FLOATS:
        raise TypeError(f"{name} must be float32, float64, bfloat16 or float16, got {x.dtype}.")


def _dual_level() -> bool:
    return forward_ad._current_level >= 0


def check_mode(*tensors: Tensor | None) -> None:
    """Raise an error under forward-mode differentiation, which would silently give no derivative."""
    if torch.compiler.is_compiling() or not (_dual_level() or torch._C._functorch.peek_interpreter_stack()):
        return
    for tensor in tensors:
        if tensor is not None and (
            torch._C._functorch.is_functorch_wrapped_tensor(tensor)
            or torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]
        ):
            raise RuntimeError(
                "The product has no forward-mode derivative and does not work under torch.func (grad, jvp, vmap, ...); "
                "use torch.autograd.grad, with create_graph=True for higher derivatives."
            )


def check_operand(x: Tensor | None, like: Tensor, name: str, *shapes: tuple[int, ...]) -> None:
    """Check type, shape and device of an optional operand. It must have one of the shapes."""
    if x is None:
        return
    if not isinstance(x, Tensor) or x.dtype not in _FLOATS:
        raise TypeError(f"{name} must be a tensor of floats, got {describe(x)}.")
    if tuple(x.shape) not in shapes:
        allowed = " or ".join(str(list(shape)) for shape in shapes)
        raise ValueError(f"{name} must have shape {allowed}, got {list(x.shape)}.")
    check_device(x, like, name, "z")


def check_edge_terms(
    like: Tensor, num_edges: int, name: str, edge: Tensor | None, edge_type: Tensor | None
) -> Tensor | None:
    """Check a term of the edges, ``[E, R]``, or its table ``[types, R]`` with a type per edge."""
    if edge_type is None:
        check_operand(edge, like, name, (num_edges, like.size(1)))
        return None
    if edge is None:
        raise ValueError(f"edge_type is given, but {name} is not; it is the table with one row per type.")
    check_rows(edge, name)
    check_operand(edge, like, name, (edge.size(0), like.size(1)))
    if not isinstance(edge_type, Tensor) or edge_type.dtype not in INTEGERS:
        raise TypeError(f"edge_type must be an int64 or int32 tensor, got {describe(edge_type)}.")
    if tuple(edge_type.shape) != (num_edges,):
        raise ValueError(f"edge_type must have shape [{num_edges}], got {list(edge_type.shape)}.")
    check_device(edge_type, like, "edge_type", "z")
    return edge_type


def check_device(x: Tensor, z: Tensor, name: str, other: str) -> None:
    if x.device != z.device:
        raise ValueError(f"{name} is on {x.device}, but {other} is on {z.device}.")


def _check_ones(values: Tensor) -> None:
    if values.numel() and not bool((values == 1).all()):
        raise ValueError(
            "adj_t stores values other than 1, but the product uses only its structure. Set the values to 1. "
            "If they are weights in [0, 1], pass them as edge_weight."
        )


def describe(x: Any) -> str:
    if not isinstance(x, Tensor):
        return type(x).__name__
    layout = "" if x.layout == torch.strided else f" {str(x.layout).removeprefix('torch.')}"
    return f"a{layout} tensor {list(x.shape)} of {x.dtype}"
