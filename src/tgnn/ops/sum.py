"""Sums over neighbours, beside the products: the linear branch of a layer, degrees, and sparse features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgnn.ops.checks import check_edges, check_mode, check_rows, describe, layout_of
from tgnn.ops.graph import DOUBTFUL
from tgnn.ops.weighted_sum import degrees_of, weighted_sum


def neighbor_sum(
    x: Tensor,
    graph: Any,
    *,
    size: tuple[int, int] | None = None,
    edge_weight: Tensor | None = None,
    self_loops: bool = False,
) -> Tensor:
    r"""Sums the rows of each node's neighbours, as :func:`neighbor_product` multiplies them.

    .. math::
        \mathrm{out}_v = \sum_{(u, v) \in E} w_{uv} \, x_u

    Args:
        x: Rows of the source nodes.
        graph: As for :func:`neighbor_product`.
        size: ``(N_src, N_dst)`` of a bipartite graph.
        edge_weight: :math:`w`, one number per edge.
        self_loops: Whether each node is its own neighbour as well; not together with ``edge_weight``.

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
        raise ValueError("self_loops does not go with edge_weight; add the loops with edges_with_self_loops")
    layout, num_edges = layout_of(graph, x, size, self_loops)
    check_edges(x, edge_weight, "edge_weight", (num_edges,))
    return weighted_sum(x, edge_weight, layout)


def degrees(graph: Any, num_nodes: int | tuple[int, int], *, self_loops: bool = False) -> Tensor:
    """The number of edges into each node, ``[N_dst]``, int64.

    Args:
        graph: As for :func:`neighbor_product`.
        num_nodes: Number of nodes, or ``(N_src, N_dst)``.
        self_loops: Whether to count a loop at every node that has none.

    Example:
        >>> degrees(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3, self_loops=True).tolist()
        [2, 1, 3]
    """
    size = (num_nodes, num_nodes) if isinstance(num_nodes, (int, torch.SymInt)) else num_nodes
    device = graph.device() if callable(graph.device) else graph.device
    layout, _ = layout_of(graph, torch.empty(size[0], 0, device=device), size, self_loops)
    return degrees_of(layout)


def edges_with_self_loops(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """All edges, then a loop at every node; and a weight for each loop: 0 where the node has one already, else 1.

    With that weight every operator here takes the loops of nodes that have one for absent, so that the number of edges
    does not depend on the data.

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
    has_loop = torch.zeros(num_nodes, device=edge_index.device).index_add(0, dst, (src == dst).float())
    return torch.cat([edge_index, loops.expand(2, -1)], dim=1), (has_loop == 0).float()


def sparse_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight`` for a sparse CSR matrix ``x``, with gradients for the dense ``weight`` and for stored values.

    The transpose that the backward pass needs is made once per sparsity pattern.

    Shapes:
        - **input:** ``x`` ``[N, F]`` sparse CSR, ``weight`` ``[F, R]``
        - **output:** ``[N, R]``

    Example:
        >>> sparse_matmul(torch.eye(2).to_sparse_csr(), torch.tensor([[1.0], [2.0]])).tolist()
        [[1.0], [2.0]]
    """
    if not isinstance(x, Tensor) or x.layout != torch.sparse_csr or x.dim() != 2:
        raise TypeError(f"x must be a sparse CSR matrix, got {describe(x)}; convert it with .to_sparse_csr()")
    check_rows(weight, "weight")
    if x.size(1) != weight.size(0):
        raise ValueError(f"x has {x.size(1)} columns, but weight has {weight.size(0)} rows")
    kind = "csr" + (DOUBTFUL if torch.compiler.is_compiling() else "")
    layout = (x.crow_indices(), x.col_indices(), kind, x.size(1), x.size(0))
    return weighted_sum(weight, x.values(), layout)
