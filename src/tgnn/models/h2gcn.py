"""H2GCN (Zhu et al., 2020): concatenation of one-hop and two-hop neighborhoods."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import coalesce, degree, remove_self_loops

from tgnn.models.node_network import NodeNetwork, encode_input
from tgnn.models.registration import ModelSize, Probability, register_model
from tgnn.nn.feature_maps import FeatureDropout, FeatureLinear
from tgnn.ops import neighbor_sum
from tgnn.ops.graph_cache import cached_on

_MAX_PATHS = 2**26  # paths of two edges; finding the pairs of nodes that they connect takes several GB


class H2GCN(torch.nn.Module):
    r"""The three stages of Zhu et al., Section 3.2, without biases.

    S1 embeds the features, :math:`r^{(0)} = \sigma(X W_e)`. S2 aggregates in each round

    .. math::
        r_v^{(k)} = \Big\Vert_{i \in \{1, 2\}} \sum_{u \in \bar{N}_i(v)} \frac{r_u^{(k-1)}}{\sqrt{d_{v,i} d_{u,i}}}

    where :math:`\bar{N}_i(v)` are the nodes at a distance of exactly :math:`i`, without :math:`v`, and
    :math:`d_{v,i}` is their number. S3 classifies, :math:`(r^{(0)} \Vert \dots \Vert r^{(K)}) W_c`.

    Args:
        size: Sizes of the network. The number of layers is the number of rounds :math:`K`. Each round doubles the
            number of channels.
    """

    def __init__(self, size: ModelSize) -> None:
        super().__init__()
        self.rounds = size.num_layers
        self.embed = FeatureLinear(size.in_channels, size.hidden_channels)
        self.last = torch.nn.Linear(size.hidden_channels * (2 ** (self.rounds + 1) - 1), size.out_channels, bias=False)
        self.dropout = FeatureDropout(size.dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        rounds = [self.embed(x).relu()]
        num_nodes = x.size(0)
        hops = cached_on(("two hops", num_nodes), (edge_index,), lambda: two_hops(edge_index, num_nodes))
        for _ in range(self.rounds):
            rounds.append(torch.cat([neighbor_sum(rounds[-1], edges, edge_weight=w) for edges, w in hops], dim=1))
        out: Tensor = self.last(self.dropout(torch.cat(rounds, dim=1)))
        return out


@torch.no_grad()
def two_hops(edge_index: Tensor, num_nodes: int) -> list[tuple[Tensor, Tensor]]:
    """Return the edges between nodes at distance one and at distance two, each with symmetrically normalized weights.

    Self-loops and duplicates are ignored.

    Example:
        >>> (one, _), (two, _) = two_hops(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3)
        >>> one.tolist(), two.tolist()
        ([[0, 1, 2], [1, 2, 0]], [[0, 1, 2], [2, 0, 1]])
    """
    one = coalesce(remove_self_loops(edge_index)[0], num_nodes=num_nodes)
    in_degree, out_degree = degree(one[1], num_nodes), degree(one[0], num_nodes)
    paths = int(in_degree.double() @ out_degree.double())
    if paths > _MAX_PATHS:
        raise ValueError(
            f"h2gcn needs all pairs of nodes at distance two, but this graph has {paths:,} paths of two edges, more "
            f"than {_MAX_PATHS:,}. Use mixhop, gprgnn or appnp, which reach as far without forming pairs."
        )
    ones, size = torch.ones(one.size(1), device=one.device), (num_nodes, num_nodes)
    adjacency = torch.sparse_coo_tensor(one, ones, size, check_invariants=False, is_coalesced=True)
    two = torch.sparse.mm(adjacency, adjacency).coalesce().indices()
    is_neighbor = torch.isin(two[0] * num_nodes + two[1], one[0] * num_nodes + one[1])
    two = two[:, ~is_neighbor & (two[0] != two[1])].contiguous()
    return [(edges, _normalized_weights(edges, num_nodes)) for edges in (one, two)]


def _normalized_weights(edges: Tensor, num_nodes: int) -> Tensor:
    """Return ``1 / sqrt(d_u d_v)`` for each edge. In-degrees of 0, in a directed graph, count as 1."""
    inverse_root: Tensor = degree(edges[1], num_nodes).clamp(min=1).rsqrt()
    return inverse_root[edges[0]] * inverse_root[edges[1]]


@register_model(
    "h2gcn",
    "node",
    summary="Concatenation of a node, its one-hop and its two-hop neighborhood",
    paper="Zhu et al. 2020, arXiv:2006.11468",
    search_space={"model.num_layers": (1, 2)},
    hops=lambda num_layers, hyperparameters: 2 * num_layers,
)
def build_h2gcn(size: ModelSize, *, input_dropout: Probability = 0.0) -> NodeNetwork:
    """Build :class:`H2GCN` with ``num_layers`` rounds."""
    encoder = encode_input(size)
    return NodeNetwork(H2GCN(size), encoder, input_dropout=input_dropout)
