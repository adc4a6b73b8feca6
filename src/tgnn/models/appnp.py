"""APPNP (Gasteiger et al., 2019): MLP followed by personalized PageRank propagation."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import APPNP
from torch_geometric.nn.models import MLP

from tgnn.models.data_shape import DataShape
from tgnn.models.node_network import NodeNetwork, encode_input
from tgnn.models.propagation import PLAIN_PROPAGATE, can_propagate, propagate
from tgnn.models.registration import register_model
from tgnn.models.sparse_input import accept_sparse


class PredictThenPropagate(torch.nn.Module):
    """Predictions of an MLP for each node, propagated along the edges.

    Args:
        mlp: MLP of the node features, which may be sparse.
        propagation: Propagation that is called as ``propagation(x, edge_index, edge_weight)``.
        dropout: Dropout probability between the two.
    """

    def __init__(self, mlp: torch.nn.Module, propagation: torch.nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.mlp, self.propagation, self.dropout = mlp, propagation, torch.nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        out: Tensor = self.propagation(self.dropout(self.mlp(x)), edge_index, edge_weight)
        return out


class PersonalizedPageRank(APPNP):
    r"""PyG's ``APPNP``, Eq. (4) of Gasteiger et al., computed by :func:`~tgnn.models.propagation.propagate`:
    :math:`Z^{(k+1)} = (1 - \alpha) \tilde{A}_{\mathrm{sym}} Z^{(k)} + \alpha H`.

    Args:
        K: Number of propagation steps.
        alpha: Teleport probability, the weight of the input in each step.

    Shapes:
        - **input:** ``x`` ``[N, F]``, ``edge_index`` ``[2, E]``, ``edge_weight`` ``[E]``
        - **output:** ``[N, F]``

    Example:
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> PersonalizedPageRank(2, 0.1)(torch.eye(2), edge_index).sum(1).round(decimals=3).tolist()
        [1.0, 1.0]
    """

    propagate = PLAIN_PROPAGATE

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if self.dropout or not can_propagate(self, x, edge_index, edge_weight):
            out: Tensor = super().forward(x, edge_index, edge_weight)
            return out
        out = x
        for _ in range(self.K):
            out = (1 - self.alpha) * propagate(out, edge_index, edge_weight) + self.alpha * x
        return out


@register_model(
    "appnp",
    "node",
    summary="MLP followed by personalized PageRank propagation",
    paper="Gasteiger et al. 2019, arXiv:1810.05997",
    uses=("edge weights",),
    search_space={"model.alpha": (0.05, 0.1, 0.2, 0.5)},
    hops=lambda num_layers, hyperparameters: max(hyperparameters["steps"], 1),
)
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
    """Build :class:`PersonalizedPageRank` after an MLP of ``num_layers`` layers.

    The paper also drops edges. This is left out because PyG's ``APPNP`` drops more edges in every step, until few are
    left.
    """
    encoder, in_channels = encode_input(shape, hidden_channels)
    mlp = MLP([in_channels, *[hidden_channels] * (num_layers - 1), shape.outputs], dropout=dropout, norm=None)
    gnn = PredictThenPropagate(accept_sparse(mlp, in_channels), PersonalizedPageRank(steps, alpha))
    return NodeNetwork(gnn, encoder, uses_weights=True, input_dropout=input_dropout)
