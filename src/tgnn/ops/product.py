"""Public operators ``neighbor_product`` and ``segment_product``: they check the input and call the backend."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tgnn.ops.checks import INTEGERS, check_device, check_edges, check_mode, check_rows, describe, graph_args, is_tanh
from tgnn.ops.dispatch import product
from tgnn.ops.graph import VOLATILE


def neighbor_product(
    z: Tensor,
    graph: Any,
    *,
    activation: str | None = None,
    size: tuple[int, int] | None = None,
    edge_addend: Tensor | None = None,
    edge_weight: Tensor | None = None,
    self_loops: bool = False,
) -> Tensor:
    r"""Multiply the factors of each node's neighbors (the product in the CP layer, Definition 1 of the paper).

    .. math::
        \mathrm{out}_v = \sigma\Big(\prod_{(u, v) \in E} f_{uv}\Big), \qquad
        f_{uv} = w_{uv} \, (z_u + y_{uv}) + (1 - w_{uv})

    with :math:`y = 0` and :math:`w = 1` by default. The neutral element of a product is 1. So a node without neighbors
    has the product 1 (before the activation), and a weight below 1 moves a factor toward 1. Duplicate edges multiply
    twice. Intermediate products do not overflow at any degree. The gradient of a zero factor is the product of the
    other factors; with two or more zeros it is 0. With ``activation="tanh"`` the result and all gradients are finite
    for every finite input. The operator needs :math:`O(N R)` memory: it never materializes the messages.

    Args:
        z: Factors of the source nodes.
        graph: An ``edge_index`` ``[2, E]`` (row 0: sources), a PyG :class:`~torch_geometric.EdgeIndex`, or a sparse
            ``adj_t`` (torch CSR, or a ``SparseTensor``) with destinations as rows. Its indices are checked and sorted
            once. The result is cached while the tensor lives and does not change. Changes through ``.numpy()``,
            ``.data`` or a collective of ``torch.distributed`` are not noticed: create a new tensor instead.
        activation: ``None`` or ``"tanh"``, fused into the product.
        size: ``(N_src, N_dst)`` of a bipartite graph. By default the size of the graph if it stores one, else
            ``(N, N)``.
        edge_addend: :math:`y`, one row per edge, added to the factor of the neighbor (for edge features).
        edge_weight: :math:`w`, one weight in ``[0, 1]`` per edge. 0 removes the edge (for finite factors).
        self_loops: Whether to add a self-loop to every node that has none. Cannot be combined with ``edge_addend`` or
            ``edge_weight``: use :func:`edges_with_self_loops` there.

    Shapes:
        - **input:** ``z`` ``[N_src, R]``, ``edge_addend`` ``[E, R]``, ``edge_weight`` ``[E]``
        - **output:** ``[N_dst, R]``

    Example:
        >>> z = torch.tensor([[2.0], [3.0], [5.0]])
        >>> edge_index = torch.tensor([[0, 1, 2], [2, 2, 0]])
        >>> neighbor_product(z, edge_index).flatten().tolist()
        [5.0, 1.0, 6.0]
    """
    check_rows(z, "z")
    check_mode(z, edge_addend, edge_weight)
    if self_loops and (edge_addend is not None or edge_weight is not None):
        raise ValueError(
            "self_loops=True cannot be combined with edge_addend or edge_weight; "
            "add the loops with edges_with_self_loops()."
        )
    args, num_edges = graph_args(graph, z, size, self_loops)
    check_edges(z, edge_addend, "edge_addend", (num_edges, z.size(1)))
    check_edges(z, edge_weight, "edge_weight", (num_edges,))
    return product(z, edge_addend, edge_weight, args, is_tanh(activation))


def segment_product(
    x: Tensor,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    dim_size: int | None = None,
    *,
    activation: str | None = None,
) -> Tensor:
    r"""Multiply the rows of each group.

    .. math::
        \mathrm{out}_i = \sigma\Big(\prod_{e:\, \mathrm{index}_e = i} x_e\Big)

    The guarantees of :func:`neighbor_product` hold. An empty group has the product 1 (before the activation).

    Args:
        x: Rows to multiply. All dimensions after the first are kept.
        index: Group of each row; need not be sorted.
        ptr: Pass it instead of ``index`` for sorted groups: group ``i`` is ``x[ptr[i]:ptr[i + 1]]``.
        dim_size: Number of groups; by default inferred from ``index`` or ``ptr``.
        activation: ``None`` or ``"tanh"``, fused into the product.

    Shapes:
        - **input:** ``x`` ``[E, *]``, ``index`` ``[E]`` or ``ptr`` ``[groups + 1]``
        - **output:** ``[groups, *]``

    Example:
        >>> segment_product(torch.tensor([2.0, 3.0, 5.0]), torch.tensor([0, 2, 0])).tolist()
        [10.0, 1.0, 3.0]
    """
    if (index is None) == (ptr is None):
        raise ValueError("Pass either index or ptr" + (", not both." if index is not None else "."))
    if not isinstance(x, Tensor) or x.dim() == 0:
        raise TypeError(f"x must be a tensor with at least one dimension, got {describe(x)}.")
    rows = x.reshape(x.size(0), math.prod(x.shape[1:]))
    check_rows(rows, "x")
    check_mode(x)
    groups = index if index is not None else ptr
    assert groups is not None
    name = "index" if index is not None else "ptr"
    if not isinstance(groups, Tensor) or groups.dtype not in INTEGERS or groups.dim() != 1:
        raise TypeError(f"{name} must be a one-dimensional int64 or int32 tensor, got {describe(groups)}.")
    check_device(groups, x, name, "x")
    if index is not None:
        if index.numel() != x.size(0):
            raise ValueError(f"index has {index.numel()} entries, but x has {x.size(0)} rows.")
        if dim_size is None:
            dim_size = int(index.max()) + 1 if index.numel() else 0
    else:
        if groups.numel() == 0:
            raise ValueError("ptr is empty, but must start with 0.")
        if dim_size is not None and dim_size != groups.numel() - 1:
            raise ValueError(f"dim_size is {dim_size}, but ptr describes {groups.numel() - 1} groups.")
        dim_size = groups.numel() - 1
    if dim_size < 0:
        raise ValueError(f"dim_size is {dim_size}, but must not be negative.")
    format = name + (VOLATILE if torch.compiler.is_compiling() else "")
    out = product(rows, None, None, (groups, None, format, x.size(0), dim_size), is_tanh(activation))
    return out.reshape(dim_size, *x.shape[1:])
