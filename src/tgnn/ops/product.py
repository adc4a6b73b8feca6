"""Public product operators. They check their arguments and call a backend."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tgnn.ops.checks import (
    INTEGERS,
    GraphArgs,
    check_device,
    check_edge_terms,
    check_mode,
    check_operand,
    check_rows,
    describe,
    graph_args,
    is_tanh,
)
from tgnn.ops.dispatch import product
from tgnn.ops.edge_operators import edge_product
from tgnn.ops.graph import VOLATILE
from tgnn.ops.operands import FACTOR_ACTIVATIONS


def neighbor_product(
    z: Tensor | None,
    graph: Any,
    *,
    activation: str | None = None,
    size: tuple[int, int] | None = None,
    z_dst: Tensor | None = None,
    edge_addend: Tensor | None = None,
    edge_type: Tensor | None = None,
    edge_scale: Tensor | None = None,
    edge_shift: Tensor | None = None,
    edge_weight: Tensor | None = None,
    factor_activation: str | None = None,
    bound: float = 1.0,
    degree_exponent: float = 0.0,
    self_loops: bool = False,
) -> Tensor:
    r"""Multiply the factors of the edges into each node (the product of the CP layer, Definition 1 of the paper).

    .. math::
        \mathrm{out}_v = \sigma\Big(\mathrm{sign}(P_v) |P_v|^{d_v^{-p}}\Big), \qquad P_v = \prod_{(u, v) \in E} f_{uv},
        \qquad f_{uv} = 1 + w_{uv} \, \big(s_{uv} \, \varphi(z_u + z'_v + y_{uv}) + t_{uv} - 1\big)

    By default :math:`f_{uv} = z_u` and :math:`p = 0`, so the result is :math:`\sigma(\prod z_u)`. The neutral element
    of a product is 1. A node without neighbors has the product 1 (before the activation). A duplicate edge adds a
    factor. Intermediate products do not overflow at any degree. The gradient of a zero factor is the product of the
    other factors. If a node has two or more zero factors, all their gradients are 0. With ``activation="tanh"``, the
    result and all gradients are finite for every finite input. The operator never materializes the messages. It needs
    :math:`O(N R)` memory.

    Args:
        z: Terms of the source nodes. Without other arguments, they are the factors. ``None`` if ``edge_addend`` has one
            row per edge.
        graph: An ``edge_index`` ``[2, E]`` (row 0: sources), a PyG :class:`~torch_geometric.EdgeIndex`, or a sparse
            ``adj_t`` (torch CSR, or a ``SparseTensor``) with destinations as rows. Its indices are checked and sorted
            once. The sorted graph is cached until the tensor is freed or modified. Changes through ``.numpy()``,
            ``.data``, DLPack, ``untyped_storage()``, shared memory or collectives of ``torch.distributed`` are not
            detected. Create a new tensor instead.
        activation: :math:`\sigma`, ``None`` or ``"tanh"``, fused into the product.
        size: ``(N_src, N_dst)`` of a bipartite graph. Default: the size that the graph stores, or ``(N, N)`` with the
            number of rows of ``z``. Required if ``z`` is ``None`` and the graph stores no size.
        z_dst: :math:`z'`, terms of the destination nodes.
        edge_addend: :math:`y`, one row per edge (for edge features), or one row per type with ``edge_type``.
        edge_type: Type of each edge, a row index of ``edge_addend``.
        edge_scale: :math:`s`, one number per edge, or per edge and column. Default: 1.
        edge_shift: :math:`t`, one number per edge, or per edge and column. Default: 0. The scale -1 and the shift 1
            give the factor :math:`1 - z`.
        edge_weight: :math:`w` in ``[0, 1]``, one number per edge, or per edge and column. Default: 1. A smaller weight
            moves a factor toward 1. The weight 0 removes a finite factor from the product. :math:`d_v` still counts it.
        factor_activation: :math:`\varphi`, one of ``None`` (the identity), ``"tanh"``, ``"sigmoid"``, or ``"bounded"``
            (:math:`1 + a \tanh`).
        bound: :math:`a` of ``factor_activation="bounded"``.
        degree_exponent: :math:`p` in ``[0, 8]``. The product of :math:`d_v` factors is raised to the power
            :math:`d_v^{-p}`, so it grows less with the degree. If the product is 0 and the power is below 1, all
            gradients are 0.
        self_loops: Whether to add a self-loop to every node that has none. Cannot be combined with arguments that have
            one row per edge. Use :func:`edges_with_self_loops` with them.

    Shapes:
        - **input:** ``z`` ``[N_src, R]``, ``z_dst`` ``[N_dst, R]``, ``edge_addend`` ``[E, R]`` or ``[types, R]``,
          ``edge_type`` ``[E]``, ``edge_scale``, ``edge_shift`` and ``edge_weight`` ``[E]`` or ``[E, R]``
        - **output:** ``[N_dst, R]``, with the dtype of ``z``

    Example:
        >>> z = torch.tensor([[2.0], [3.0], [5.0]])
        >>> edge_index = torch.tensor([[0, 1, 2], [2, 2, 0]])
        >>> neighbor_product(z, edge_index).flatten().tolist()
        [5.0, 1.0, 6.0]
        >>> neighbor_product(z, edge_index, z_dst=torch.ones(3, 1), degree_exponent=1).flatten().tolist()
        [6.0, 1.0, 3.46...]
    """
    edge_operands = (edge_addend, edge_type, edge_scale, edge_shift, edge_weight)
    has_edge_operands = any(operand is not None for operand in edge_operands)
    degree_exponent = _degree_exponent(degree_exponent)
    is_plain = z_dst is None and factor_activation is None and not has_edge_operands
    if z is not None and is_plain:
        check_rows(z, "z")
        check_mode(z)
        args, _ = graph_args(graph, z, size, self_loops)
        return product(z, None, args, is_tanh(activation), degree_exponent)
    if self_loops and has_edge_operands:
        raise ValueError(
            "self_loops=True cannot be combined with edge_addend, edge_type, edge_scale, edge_shift or edge_weight; "
            "add the loops with edges_with_self_loops()."
        )
    tensors, edge_type, args = _check_factors(
        z, graph, size, z_dst, edge_addend, edge_type, edge_scale, edge_shift, edge_weight, self_loops
    )
    phi = _factor_activation(factor_activation)
    tanh = is_tanh(activation)
    others = (z_dst, edge_addend, edge_scale, edge_shift)
    if all(operand is None for operand in others) and phi == "identity":
        assert z is not None
        assert edge_weight is not None
        if edge_weight.dim() == 1 and torch.float64 not in (z.dtype, edge_weight.dtype):
            return product(z, edge_weight, args, tanh, degree_exponent)
    options = (phi, bound, degree_exponent, tanh, False)
    return edge_product(*tensors, edge_type, *args, *options)


def exclusive_product(
    z: Tensor | None,
    graph: Any,
    *,
    activation: str | None = None,
    size: tuple[int, int] | None = None,
    z_dst: Tensor | None = None,
    edge_addend: Tensor | None = None,
    edge_type: Tensor | None = None,
    edge_scale: Tensor | None = None,
    edge_shift: Tensor | None = None,
    edge_weight: Tensor | None = None,
    factor_activation: str | None = None,
    bound: float = 1.0,
    degree_exponent: float = 0.0,
) -> Tensor:
    r"""Multiply, for each edge, the factors of the *other* edges into the same destination (leave-one-out).

    .. math::
        \mathrm{out}_{uv} = \sigma\Big(\mathrm{sign}(P_{uv}) |P_{uv}|^{(d_v - 1)^{-p}}\Big), \qquad
        P_{uv} = \prod_{(u', v) \in E, \, u'v \neq uv} f_{u'v}

    The factors and the guarantees are those of :func:`neighbor_product`. The operator takes linear time. It does not
    divide, so it is correct for zero factors. If there is no other edge, the product is 1 (before the activation). A
    duplicate edge counts as another edge. With ``factor_activation="tanh"``, this is the product that a check node of
    belief propagation computes.

    Args:
        z: Terms of the source nodes. :func:`neighbor_product` describes all arguments.
        graph: Graph in any format that :func:`neighbor_product` accepts.
        activation: :math:`\sigma`.
        size: ``(N_src, N_dst)``.
        z_dst: Terms of the destination nodes.
        edge_addend: Terms of the edges or of their types.
        edge_type: Type of each edge.
        edge_scale: Scale of each factor.
        edge_shift: Shift of each factor.
        edge_weight: Weight of each factor in ``[0, 1]``.
        factor_activation: Activation of each factor.
        bound: :math:`a` of ``factor_activation="bounded"``.
        degree_exponent: :math:`p` in ``[0, 8]``. The product of the :math:`d_v - 1` other factors is raised to the
            power :math:`(d_v - 1)^{-p}`. For example, :math:`p = 1` gives their geometric mean.

    Shapes:
        - **input:** as for :func:`neighbor_product`
        - **output:** ``[E, R]``, in the order of the edges; for ``adj_t``, in the order of its entries

    Example:
        >>> z = torch.tensor([[2.0], [0.0], [5.0]])
        >>> exclusive_product(z, torch.tensor([[0, 1, 2], [2, 2, 2]])).flatten().tolist()
        [0.0, 10.0, 0.0]
    """
    tensors, edge_type, args = _check_factors(
        z, graph, size, z_dst, edge_addend, edge_type, edge_scale, edge_shift, edge_weight, False
    )
    options = (_factor_activation(factor_activation), bound, _degree_exponent(degree_exponent), is_tanh(activation))
    return edge_product(*tensors, edge_type, *args, *options, True)


def _check_factors(
    z: Tensor | None,
    graph: Any,
    size: tuple[int, int] | None,
    z_dst: Tensor | None,
    edge_addend: Tensor | None,
    edge_type: Tensor | None,
    edge_scale: Tensor | None,
    edge_shift: Tensor | None,
    edge_weight: Tensor | None,
    self_loops: bool,
) -> tuple[tuple[Tensor | None, ...], Tensor | None, GraphArgs]:
    """Check the operands of the factors and convert them to the arguments of the operator."""
    example = z if z is not None else edge_addend if edge_type is None else None
    if example is None:
        raise ValueError("z is None, so edge_addend must be given, with one row per edge.")
    check_rows(example, "z" if z is not None else "edge_addend")
    tensors = (z, z_dst, edge_addend, edge_scale, edge_shift, edge_weight)
    check_mode(*tensors)
    args, num_edges = graph_args(graph, z, size, self_loops, example)
    rank = example.size(1)
    check_operand(z_dst, example, "z_dst", (args[4], rank))
    edge_type = check_edge_terms(example, num_edges, "edge_addend", edge_addend, edge_type)
    for name, operand in (("edge_scale", edge_scale), ("edge_shift", edge_shift), ("edge_weight", edge_weight)):
        check_operand(operand, example, name, (num_edges,), (num_edges, rank))
    return tensors, edge_type, args


def _factor_activation(name: str | None) -> str:
    if name not in (None, *FACTOR_ACTIVATIONS[1:]):
        raise ValueError(f"factor_activation must be None, 'tanh', 'sigmoid' or 'bounded', got {name!r}.")
    return name or "identity"


def _degree_exponent(exponent: float) -> float:
    if not 0 <= exponent <= 8:
        raise ValueError(f"degree_exponent is {exponent}, but must lie in [0, 8].")
    return exponent


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
        index: Group of each row, in any order.
        ptr: Boundaries of sorted groups, instead of ``index``. Group ``i`` is ``x[ptr[i]:ptr[i + 1]]``.
        dim_size: Number of groups. Default: inferred from ``index`` or ``ptr``.
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
    out = product(rows, None, (groups, None, format, x.size(0), dim_size), is_tanh(activation))
    return out.reshape(dim_size, *x.shape[1:])
