"""The two operators that users call: they check what they are given, say what is wrong with it, and compute."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from .dispatch import product
from .graph import from_edge_index, graph_of

_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_INTEGERS = (torch.int64, torch.int32)
_INT = (int, torch.SymInt)
Layout = tuple[Tensor, Tensor | None, str, int, int]


def neighbor_product(
    z: Tensor,
    graph: Any,
    *,
    activation: str | None = None,
    size: tuple[int, int] | None = None,
    edge_addend: Tensor | None = None,
    edge_weight: Tensor | None = None,
) -> Tensor:
    r"""Multiplies the factors of each node's neighbours: the heart of the CP layer (Definition 1 of the paper).

    .. math::
        \mathrm{out}_v = \sigma\Big(\prod_{(u, v) \in E} f_{uv}\Big), \qquad
        f_{uv} = w_{uv} \, (z_u + y_{uv}) + (1 - w_{uv})

    with :math:`y = 0` and :math:`w = 1` where they are not given. The neutral element of a product is 1: a node
    without neighbours gets 1 (before the activation), and a weight below 1 moves a factor towards 1. Duplicate edges
    multiply twice. Nothing overflows on the way, whatever the degree, and the gradient of a zero factor is the
    product of the others. With ``activation="tanh"`` the value and all gradients are finite for every finite input.
    Memory beyond inputs and result is :math:`O(N R)`; there is no message matrix.

    Args:
        z: Factors of the source nodes.
        graph: An ``edge_index`` ``[2, E]`` (row 0: sources), a PyG :class:`~torch_geometric.EdgeIndex`, or a sparse
            ``adj_t`` (torch CSR, or a ``SparseTensor``) with destinations as rows. Its indices are checked and grouped
            once and remembered while the tensor lives unchanged (a change through ``.numpy()`` is not seen).
        activation: ``None`` or ``"tanh"``, fused into the product.
        size: ``(N_src, N_dst)`` of a bipartite graph; by default the graph's own size, else ``(N, N)``.
        edge_addend: :math:`y`, one row per edge, added to the neighbour's factor (edge features).
        edge_weight: :math:`w`, one number in ``[0, 1]`` per edge; 0: as if the edge were not there, for finite factors.

    Shapes:
        - **input:** ``z`` ``[N_src, R]``, ``edge_addend`` ``[E, R]``, ``edge_weight`` ``[E]``
        - **output:** ``[N_dst, R]``

    Example:
        >>> z = torch.tensor([[2.0], [3.0], [5.0]])
        >>> edge_index = torch.tensor([[0, 1, 2], [2, 2, 0]])
        >>> neighbor_product(z, edge_index).flatten().tolist()
        [5.0, 1.0, 6.0]
    """
    _check_factors(z, "z")
    _check_mode(z, edge_addend, edge_weight)
    layout, num_edges = _layout(graph, z, size)
    _check_edges(z, edge_addend, "edge_addend", (num_edges, z.size(1)))
    _check_edges(z, edge_weight, "edge_weight", (num_edges,))
    return product(z, edge_addend, edge_weight, layout, _is_tanh(activation))


def segment_product(
    x: Tensor,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    dim_size: int | None = None,
    *,
    activation: str | None = None,
) -> Tensor:
    r"""Multiplies the rows of each group.

    .. math::
        \mathrm{out}_i = \sigma\Big(\prod_{e:\, \mathrm{index}_e = i} x_e\Big)

    The same numerics as :func:`neighbor_product`; an empty group gives 1 (before the activation).

    Args:
        x: Rows to multiply; dimensions after the first are kept.
        index: Group of each row, sorted or not.
        ptr: Instead of ``index``: group ``i`` is ``x[ptr[i]:ptr[i + 1]]``.
        dim_size: Number of groups; by default as many as ``index`` or ``ptr`` needs.
        activation: ``None`` or ``"tanh"``.

    Shapes:
        - **input:** ``x`` ``[E, *]``, ``index`` ``[E]`` or ``ptr`` ``[groups + 1]``
        - **output:** ``[groups, *]``

    Example:
        >>> segment_product(torch.tensor([2.0, 3.0, 5.0]), torch.tensor([0, 2, 0])).tolist()
        [10.0, 1.0, 3.0]
    """
    if (index is None) == (ptr is None):
        raise ValueError("give either index or ptr" + (", not both" if index is not None else ""))
    if not isinstance(x, Tensor) or x.dim() == 0:
        raise TypeError(f"x must be a tensor with at least one dimension, got {_describe(x)}")
    rows = x.reshape(x.size(0), math.prod(x.shape[1:]))
    _check_factors(rows, "x")
    _check_mode(x)
    groups = index if index is not None else ptr
    assert groups is not None
    what = "index" if index is not None else "ptr"
    if not isinstance(groups, Tensor) or groups.dtype not in _INTEGERS or groups.dim() != 1:
        raise TypeError(f"{what} must be a one-dimensional int64 or int32 tensor, got {_describe(groups)}")
    _check_device(groups, x, what, "x")
    if index is not None:
        if index.numel() != x.size(0):
            raise ValueError(f"index has {index.numel()} entries, but x has {x.size(0)} rows")
        if dim_size is None:
            dim_size = int(index.max()) + 1 if index.numel() else 0
    else:
        if groups.numel() == 0:
            raise ValueError("ptr is empty; it must start with 0")
        if dim_size is not None and dim_size != groups.numel() - 1:
            raise ValueError(f"dim_size is {dim_size}, but ptr describes {groups.numel() - 1} groups")
        dim_size = groups.numel() - 1
    if dim_size < 0:
        raise ValueError(f"dim_size is {dim_size}, but must not be negative")
    out = product(rows, None, None, (groups, None, what, x.size(0), dim_size), _is_tanh(activation))
    return out.reshape(dim_size, *x.shape[1:])


# ---- graphs ----------------------------------------------------------------------------------------------------


def _layout(graph: Any, z: Tensor, size: tuple[int, int] | None) -> tuple[Layout, int]:
    """The layout of a graph (see ``graph.py``) and its number of edges."""
    if size is not None:
        if not isinstance(size, (tuple, list)) or len(size) != 2 or not all(isinstance(n, _INT) for n in size):
            raise TypeError(f"size must be (N_src, N_dst), two integers, got {size!r}")
        if min(size) < 0:
            raise ValueError(f"size must be (N_src, N_dst), neither of them negative, got {size!r}")
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
        if graph.dim() != 2 or graph.size(0) != 2 or graph.dtype not in _INTEGERS:
            raise TypeError(f"edge_index must be an int64 or int32 tensor [2, E], got {_describe(graph)}")
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
            f"got {_describe(graph)}{way_out}"
        )
    _check_device(index, z, "graph", "z")
    num_src = size[0] if size else own[0] if own[0] is not None else z.size(0)
    num_dst = size[1] if size else own[1] if own[1] is not None else z.size(0)
    for given, known, what in zip((num_src, num_dst), own, ("sources", "destinations")):
        if known is not None and given != known:
            raise ValueError(f"size says {given} {what}, but the graph has {known}")
    if z.size(0) != num_src:
        raise ValueError(f"z has {z.size(0)} rows, but the graph has {num_src} sources")
    if isinstance(graph, EdgeIndex) and _has_caches(graph):  # they are used; the operator finds what is made of them
        graph_of("edges", index, None, num_src, num_dst, build=partial(from_edge_index, graph))
    return (index, columns, kind, num_src, num_dst), num_edges


def _has_caches(graph: EdgeIndex) -> bool:
    # They cannot be traced by the compiler, and making them would settle a size that the EdgeIndex does not know.
    known = graph.is_sorted and None not in graph.sparse_size()
    return known and not torch.compiler.is_compiling() and not graph.is_inference()


# ---- checks ----------------------------------------------------------------------------------------------------


def _is_tanh(activation: str | None) -> bool:
    if activation not in (None, "tanh"):
        raise ValueError(f"activation must be None or 'tanh', got {activation!r}")
    return activation == "tanh"


def _check_factors(x: Any, what: str) -> None:
    if not isinstance(x, Tensor) or x.layout != torch.strided or x.dim() != 2:
        raise TypeError(f"{what} must be a dense tensor of two dimensions, got {_describe(x)}")
    if x.dtype not in _FLOATS:
        raise TypeError(f"{what} must be float32, float64, bfloat16 or float16, got {x.dtype}")


def _check_mode(*tensors: Tensor | None) -> None:
    """Forward-mode derivatives would be lost without a word: refuse them."""
    if torch.compiler.is_compiling():
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


def _check_edges(z: Tensor, x: Tensor | None, what: str, shape: tuple[int, ...]) -> None:
    if x is None:
        return
    if not isinstance(x, Tensor) or x.dtype not in _FLOATS:
        raise TypeError(f"{what} must be a tensor of floats, got {_describe(x)}")
    if tuple(x.shape) != shape:
        raise ValueError(f"{what} must have shape {list(shape)}, got {list(x.shape)}")
    _check_device(x, z, what, "z")


def _check_device(x: Tensor, z: Tensor, what: str, other: str) -> None:
    if x.device != z.device:
        raise ValueError(f"{what} is on {x.device}, but {other} is on {z.device}")


def _check_ones(values: Tensor) -> None:
    if values.numel() and not bool((values == 1).all()):
        raise ValueError(
            "adj_t stores values other than 1; the product takes only its structure. Set them to 1, and pass them as "
            "edge_weight if they are weights in [0, 1] that move a factor towards 1"
        )


def _describe(x: Any) -> str:
    if not isinstance(x, Tensor):
        return type(x).__name__
    layout = "" if x.layout == torch.strided else f" {str(x.layout).removeprefix('torch.')}"
    return f"a{layout} tensor {list(x.shape)} of {x.dtype}"
