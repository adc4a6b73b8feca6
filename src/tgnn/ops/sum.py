"""Sums over neighborhoods, degrees, self-loops and products of sparse features with dense weights."""

from __future__ import annotations

from typing import Any, Literal, overload

import torch
from torch import Tensor

from tgnn.ops.checks import check_edge_terms, check_mode, check_operand, check_rows, describe, graph_args
from tgnn.ops.edge_operators import edge_rows, exclusive_rows_sum
from tgnn.ops.edge_operators import gated_sum as gated_sum_operator
from tgnn.ops.graph import VOLATILE
from tgnn.ops.weighted_sum import in_degrees, weighted_sum


def neighbor_sum(
    x: Tensor,
    graph: Any,
    *,
    size: tuple[int, int] | None = None,
    edge_weight: Tensor | None = None,
    self_loops: bool = False,
) -> Tensor:
    r"""Sum the rows of each node's neighbors, with the same arguments as :func:`neighbor_product`.

    .. math::
        \mathrm{out}_v = \sum_{(u, v) \in E} w_{uv} \, x_u

    Args:
        x: Features of the source nodes.
        graph: Graph in any format that :func:`neighbor_product` accepts.
        size: ``(N_src, N_dst)`` of a bipartite graph.
        edge_weight: :math:`w`, one weight per edge; by default 1.
        self_loops: Whether to add a self-loop to every node that has none. Cannot be combined with ``edge_weight``.

    Shapes:
        - **input:** ``x`` ``[N_src, F]``, ``edge_weight`` ``[E]``
        - **output:** ``[N_dst, F]``

    Example:
        >>> x = torch.tensor([[2.0], [3.0], [5.0]])
        >>> neighbor_sum(x, torch.tensor([[0, 1, 2], [2, 2, 0]])).flatten().tolist()
        [5.0, 0.0, 5.0]
    """
    check_rows(x, "x")
    check_mode(x, edge_weight)
    if self_loops and edge_weight is not None:
        raise ValueError(
            "self_loops=True cannot be combined with edge_weight; add the loops with edges_with_self_loops()."
        )
    args, num_edges = graph_args(graph, x, size, self_loops)
    check_operand(edge_weight, x, "edge_weight", (num_edges,))
    return weighted_sum(x, edge_weight, args)


def exclusive_sum(
    x: Tensor | None,
    graph: Any,
    *,
    size: tuple[int, int] | None = None,
    edge_addend: Tensor | None = None,
    edge_weight: Tensor | None = None,
) -> Tensor:
    r"""Sum, for each edge, the rows of the *other* edges into the same destination (leave-one-out).

    .. math::
        \mathrm{out}_{uv} = \sum_{(u', v) \in E, \, u'v \neq uv} w_{u'v} \, (x_{u'} + y_{u'v})

    The operator does not subtract, so a large row causes no rounding errors in the sums that leave it out.

    Args:
        x: Features of the source nodes. ``None`` if only ``edge_addend`` is used.
        graph: Graph in any format that :func:`neighbor_product` accepts.
        size: ``(N_src, N_dst)`` of a bipartite graph.
        edge_addend: :math:`y`, one row per edge. Default: 0.
        edge_weight: :math:`w`, one weight per edge. Default: 1.

    Shapes:
        - **input:** ``x`` ``[N_src, F]``, ``edge_addend`` ``[E, F]``, ``edge_weight`` ``[E]``
        - **output:** ``[E, F]``, in the order of the edges; for ``adj_t``, in the order of its entries

    Example:
        >>> x = torch.tensor([[2.0], [3.0], [5.0]])
        >>> exclusive_sum(x, torch.tensor([[0, 1, 2], [2, 2, 2]])).flatten().tolist()
        [8.0, 7.0, 5.0]
    """
    example = edge_addend if x is None else x
    if example is None:
        raise ValueError("x is None, so edge_addend must be given.")
    check_rows(example, "x" if x is not None else "edge_addend")
    check_mode(x, edge_addend, edge_weight)
    args, num_edges = graph_args(graph, x, size, False, example)
    check_operand(edge_addend, example, "edge_addend", (num_edges, example.size(1)))
    check_operand(edge_weight, example, "edge_weight", (num_edges,))
    rows = edge_addend if x is None else edge_rows(x, None, edge_addend, None, *args)
    assert rows is not None
    if edge_weight is not None:
        rows = rows * edge_weight.to(rows.dtype).unsqueeze(1)
    return exclusive_rows_sum(rows, None, *args)


@overload
def gated_sum(
    x: Tensor,
    graph: Any,
    *,
    gate_src: Tensor | None = ...,
    gate_dst: Tensor | None = ...,
    gate_edge: Tensor | None = ...,
    edge_type: Tensor | None = ...,
    edge_weight: Tensor | None = ...,
    normalize: bool = ...,
    eps: float = ...,
    size: tuple[int, int] | None = ...,
    return_edge_state: Literal[False] = ...,
) -> Tensor: ...


@overload
def gated_sum(
    x: Tensor,
    graph: Any,
    *,
    gate_src: Tensor | None = ...,
    gate_dst: Tensor | None = ...,
    gate_edge: Tensor | None = ...,
    edge_type: Tensor | None = ...,
    edge_weight: Tensor | None = ...,
    normalize: bool = ...,
    eps: float = ...,
    size: tuple[int, int] | None = ...,
    return_edge_state: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def gated_sum(
    x: Tensor,
    graph: Any,
    *,
    gate_src: Tensor | None = None,
    gate_dst: Tensor | None = None,
    gate_edge: Tensor | None = None,
    edge_type: Tensor | None = None,
    edge_weight: Tensor | None = None,
    normalize: bool = False,
    eps: float = 1e-6,
    size: tuple[int, int] | None = None,
    return_edge_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Sum the rows of each node's neighbors, with a gate for each edge and channel (as in GatedGCN).

    .. math::
        \mathrm{out}_v = \sum_{(u, v) \in E} \eta_{uv} \odot x_u, \qquad
        \eta_{uv} = w_{uv} \, \sigma(a_v + b_u + c_{uv})

    With ``normalize=True``, the sum is divided by :math:`\sum_u \eta_{uv} + \varepsilon` (a gated mean). The gates are
    computed again in the backward pass, so no ``[E, F]`` matrix is saved except the inputs.

    Args:
        x: Features of the source nodes.
        graph: Graph in any format that :func:`neighbor_product` accepts.
        gate_src: :math:`b`, terms of the source nodes. At least one of the three terms must be given.
        gate_dst: :math:`a`, terms of the destination nodes.
        gate_edge: :math:`c`, one row per edge, or one row per type with ``edge_type``.
        edge_type: Type of each edge, a row index of ``gate_edge``.
        edge_weight: :math:`w`, one weight per edge; by default 1.
        normalize: Whether to divide by the sum of the gates.
        eps: :math:`\varepsilon`.
        size: ``(N_src, N_dst)`` of a bipartite graph.
        return_edge_state: Whether to also return :math:`a_v + b_u + c_{uv}`, ``[E, F]``, the edge state of GatedGCN.
            This matrix is then saved for the backward pass.

    Shapes:
        - **input:** ``x`` and ``gate_src`` ``[N_src, F]``, ``gate_dst`` ``[N_dst, F]``, ``gate_edge`` ``[E, F]`` or
          ``[types, F]``, ``edge_type`` and ``edge_weight`` ``[E]``
        - **output:** ``[N_dst, F]``, with ``return_edge_state=True`` also ``[E, F]``

    Example:
        >>> x, gate = torch.tensor([[2.0], [4.0], [6.0]]), torch.zeros(3, 1)
        >>> gated_sum(x, torch.tensor([[0, 1, 2], [2, 2, 0]]), gate_src=gate).flatten().tolist()
        [3.0, 0.0, 3.0]
    """
    check_rows(x, "x")
    tensors = (gate_src, gate_dst, gate_edge, x, edge_weight)
    check_mode(*tensors)
    if all(gate is None for gate in tensors[:3]):
        raise ValueError("Pass at least one of gate_src, gate_dst and gate_edge.")
    args, num_edges = graph_args(graph, x, size)
    check_operand(gate_src, x, "gate_src", (args[3], x.size(1)))
    check_operand(gate_dst, x, "gate_dst", (args[4], x.size(1)))
    edge_type = check_edge_terms(x, num_edges, "gate_edge", gate_edge, edge_type)
    check_operand(edge_weight, x, "edge_weight", (num_edges,))
    if not return_edge_state:
        return gated_sum_operator(*tensors, edge_type, *args, normalize, eps)
    state = edge_rows(gate_src, gate_dst, gate_edge, edge_type, *args)
    return gated_sum_operator(None, None, state, x, edge_weight, None, *args, normalize, eps), state


def degrees(graph: Any, num_nodes: int | tuple[int, int], *, self_loops: bool = False) -> Tensor:
    """Return the in-degree of each node, ``[N_dst]``, int64.

    Args:
        graph: Graph in any format that :func:`neighbor_product` accepts.
        num_nodes: Number of nodes, or ``(N_src, N_dst)``.
        self_loops: Whether to count a self-loop at every node that has none.

    Example:
        >>> degrees(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3, self_loops=True).tolist()
        [2, 1, 3]
    """
    size = (num_nodes, num_nodes) if isinstance(num_nodes, (int, torch.SymInt)) else num_nodes
    device = graph.device() if callable(graph.device) else graph.device
    args, _ = graph_args(graph, torch.empty(size[0], 0, device=device), size, self_loops)
    return in_degrees(args)


def edges_with_self_loops(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Append a self-loop to every node, and return a weight for each added loop.

    The weight is 0 if the node already has a self-loop, else 1. An edge of weight 0 has no effect in the operators of
    this package. So no node gets a second loop, although the number of edges does not depend on the data.

    Shapes:
        - **input:** ``edge_index`` ``[2, E]``
        - **output:** ``[2, E + N]`` and ``[N]``

    Example:
        >>> edges, weight = edges_with_self_loops(torch.tensor([[0, 1], [1, 1]]), 2)
        >>> edges.tolist(), weight.tolist()
        ([[0, 1, 0, 1], [1, 1, 0, 1]], [1.0, 0.0])
    """
    src, dst = edge_index
    loops = torch.arange(num_nodes, dtype=edge_index.dtype, device=edge_index.device)
    has_loop = torch.zeros(num_nodes, dtype=torch.float32, device=edge_index.device).index_add(
        0, dst, (src == dst).float()
    )
    return torch.cat([edge_index, loops.expand(2, -1)], dim=1), (has_loop == 0).float()


def sparse_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """Compute ``x @ weight`` for a sparse CSR matrix ``x``, with gradients for ``weight`` and for the stored values.

    The backward pass needs the transpose of ``x``, which is computed once per sparsity pattern and cached.

    Shapes:
        - **input:** ``x`` ``[N, F]`` sparse CSR, ``weight`` ``[F, R]``
        - **output:** ``[N, R]``

    Example:
        >>> sparse_matmul(torch.eye(2).to_sparse_csr(), torch.tensor([[1.0], [2.0]])).tolist()
        [[1.0], [2.0]]
    """
    if not isinstance(x, Tensor) or x.layout != torch.sparse_csr or x.dim() != 2:
        raise TypeError(f"x must be a sparse CSR matrix, got {describe(x)}; convert it with .to_sparse_csr().")
    check_rows(weight, "weight")
    check_mode(weight)  # first: under torch.func, the values of a sparse matrix cannot be read
    check_mode(x.values())
    if x.size(1) != weight.size(0):
        raise ValueError(f"x has {x.size(1)} columns, but weight has {weight.size(0)} rows.")
    format = "csr" + (VOLATILE if torch.compiler.is_compiling() else "")
    args = (x.crow_indices(), x.col_indices(), format, x.size(1), x.size(0))
    return weighted_sum(weight, x.values(), args)
