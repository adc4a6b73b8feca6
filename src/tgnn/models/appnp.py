"""APPNP: an MLP first, then steps of a personalized PageRank."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import APPNP
from torch_geometric.nn.models import MLP

from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, accept_sparse, node_input
from tgnn.models.propagation import PLAIN_PROPAGATE, propagate, propagates


class PredictThenPropagate(torch.nn.Module):
    """What an MLP says of each node alone, passed along edges.

    Args:
        mlp: Called with rows, dense or sparse.
        propagation: Called as ``propagation(x, edge_index, edge_weight)``.
        dropout: Share of entries dropped between the two.
    """

    def __init__(self, mlp: torch.nn.Module, propagation: torch.nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.mlp, self.propagation, self.dropout = mlp, propagation, torch.nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        out: Tensor = self.propagation(self.dropout(self.mlp(x)), edge_index, edge_weight)
        return out


class PersonalizedPageRank(APPNP):
    r"""PyG's ``APPNP``, Eq. (4) of Gasteiger et al., which steps with :func:`~tgnn.models.propagation.propagate`:
    :math:`Z^{(k+1)} = (1 - \alpha) \tilde{A}_{\mathrm{sym}} Z^{(k)} + \alpha H`.

    Args:
        K: Number of steps.
        alpha: Weight of the start.

    Shapes:
        - **input:** ``x`` ``[N, F]``, ``edge_index`` ``[2, E]``, ``edge_weight`` ``[E]``
        - **output:** ``[N, F]``

    Example:
        >>> edges = torch.tensor([[0, 1], [1, 0]])
        >>> PersonalizedPageRank(2, 0.1)(torch.eye(2), edges).sum(1).round(decimals=3).tolist()
        [1.0, 1.0]
    """

    propagate = PLAIN_PROPAGATE

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if self.dropout or not propagates(self, x, edge_index, edge_weight):
            out: Tensor = super().forward(x, edge_index, edge_weight)
            return out
        out = x
        for _ in range(self.K):
            out = (1 - self.alpha) * propagate(out, edge_index, edge_weight) + self.alpha * x
        return out


def build_appnp(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    steps: Annotated[int, Field(ge=0)] = 10,
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.1,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> NodeNetwork:
    """:class:`PersonalizedPageRank` after an MLP of ``num_layers``. The paper drops edges as well; PyG would drop more of
    them at every step until few are left, so that no edge is dropped here.
    """
    encoder, width = node_input(shape, hidden_channels)
    mlp = MLP([width, *[hidden_channels] * (num_layers - 1), shape.outputs], dropout=dropout, norm=None)
    gnn = PredictThenPropagate(accept_sparse(mlp, width), PersonalizedPageRank(steps, alpha))
    return NodeNetwork(gnn, encoder, uses_weights=True, input_dropout=input_dropout)
