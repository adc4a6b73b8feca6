"""Sums over neighborhoods, degrees, self-loops and products of sparse features with dense weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tgnn.ops.checks import check_edges, check_mode, check_rows, describe, graph_args
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
    check_edges(x, edge_weight, "edge_weight", (num_edges,))
    return weighted_sum(x, edge_weight, args)


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
    has_loop = torch.zeros(num_nodes, device=edge_index.device).index_add(0, dst, (src == dst).float())
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
    if x.size(1) != weight.size(0):
        raise ValueError(f"x has {x.size(1)} columns, but weight has {weight.size(0)} rows.")
    format = "csr" + (VOLATILE if torch.compiler.is_compiling() else "")
    args = (x.crow_indices(), x.col_indices(), format, x.size(1), x.size(0))
    return weighted_sum(weight, x.values(), args)
