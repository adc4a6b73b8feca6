"""H2GCN: a node, its neighbours and their neighbours apart, from every round."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.utils import coalesce, degree, remove_self_loops

from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, node_input
from tgnn.nn.linear import FeatureLinear
from tgnn.ops import neighbor_sum
from tgnn.ops.graph_cache import cached_on

_MOST_PATHS = 2**26  # of two edges; to find which pairs they join takes some GB


class H2GCN(torch.nn.Module):
    r"""The three stages of Zhu et al., Section 3.2. S1: :math:`r^{(0)} = \sigma(X W_e)`. S2: in each round

    .. math::
        r_v^{(k)} = \Big\Vert_{i \in \{1, 2\}} \sum_{u \in \bar{N}_i(v)} \frac{r_u^{(k-1)}}{\sqrt{d_{v,i} d_{u,i}}}

    where :math:`\bar{N}_i(v)` are the nodes at a distance of exactly :math:`i`, without :math:`v`, and
    :math:`d_{v,i}` is their number. S3: :math:`(r^{(0)} \Vert \dots \Vert r^{(K)}) W_c`. There are no biases.

    Args:
        width: Of the features.
        hidden_channels: Width of the first rows; each round doubles it.
        rounds: :math:`K`.
        outputs: Width of what comes out.
        dropout: Share of entries dropped before the last map.
    """

    def __init__(self, width: int, hidden_channels: int, rounds: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.rounds = rounds
        self.embed = FeatureLinear(width, hidden_channels)
        self.last = torch.nn.Linear(hidden_channels * (2 ** (rounds + 1) - 1), outputs, bias=False)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        rows = [self.embed(x).relu()]
        count = x.size(0)
        hops = cached_on(("two hops", count), (edge_index,), lambda: two_hops(edge_index, count))
        for _ in range(self.rounds):
            rows.append(torch.cat([neighbor_sum(rows[-1], edges, edge_weight=w) for edges, w in hops], dim=1))
        out: Tensor = self.last(self.dropout(torch.cat(rows, dim=1)))
        return out


@torch.no_grad()
def two_hops(edge_index: Tensor, num_nodes: int) -> list[tuple[Tensor, Tensor]]:
    """Edges from nodes at a distance of exactly one, and of exactly two, each with weights by both degrees.

    Example:
        >>> (one, _), (two, _) = two_hops(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3)
        >>> one.tolist(), two.tolist()
        ([[0, 1, 2], [1, 2, 0]], [[0, 1, 2], [2, 0, 1]])
    """
    one = coalesce(remove_self_loops(edge_index)[0], num_nodes=num_nodes)
    into, out_of = degree(one[1], num_nodes), degree(one[0], num_nodes)
    paths = int(into.double() @ out_of.double())
    if paths > _MOST_PATHS:
        raise ValueError(
            f"h2gcn needs all neighbours of neighbours, and this graph has {paths:,} paths of two edges, more than "
            f"{_MOST_PATHS:,}: mixhop, gprgnn or appnp, which see as far and form no pairs, would do"
        )
    ones, size = torch.ones(one.size(1), device=one.device), (num_nodes, num_nodes)
    adjacency = torch.sparse_coo_tensor(one, ones, size, check_invariants=False, is_coalesced=True)
    two = torch.sparse.mm(adjacency, adjacency).coalesce().indices()
    near = torch.isin(two[0] * num_nodes + two[1], one[0] * num_nodes + one[1])
    two = two[:, ~near & (two[0] != two[1])].contiguous()
    return [(edges, _weights(edges, num_nodes)) for edges in (one, two)]


def _weights(edges: Tensor, num_nodes: int) -> Tensor:
    """By the edges into both ends; a node that none goes into, in a directed graph, counts as if there were one."""
    root: Tensor = degree(edges[1], num_nodes).clamp(min=1).rsqrt()
    return root[edges[0]] * root[edges[1]]


def build_h2gcn(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> NodeNetwork:
    """:class:`H2GCN` with ``num_layers`` rounds."""
    encoder, width = node_input(shape, hidden_channels)
    return NodeNetwork(
        H2GCN(width, hidden_channels, num_layers, shape.outputs, dropout), encoder, input_dropout=input_dropout
    )
