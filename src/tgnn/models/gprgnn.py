"""GPR-GNN: an MLP first, then steps along edges whose weights are learned."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn.models import MLP

from tgnn.models.appnp import PredictThenPropagate
from tgnn.models.data_shape import DataShape
from tgnn.models.network import NodeNetwork, accept_sparse, node_input
from tgnn.models.propagation import propagate

Start = Literal["ppr", "nppr", "random", "sgc"]


class GeneralizedPageRank(torch.nn.Module):
    r"""The propagation of Chien et al., Eq. (1), with weights :math:`\gamma` that are learned:

    .. math::
        Z = \sum_{k=0}^{K} \gamma_k \tilde{A}_{\mathrm{sym}}^k H, \quad
        \tilde{A}_{\mathrm{sym}} = \tilde{D}^{-1/2} (A + I) \tilde{D}^{-1/2}

    Args:
        steps: :math:`K`.
        alpha: Of the weights to begin with.
        start: Weights to begin with: ``"ppr"``, personalized PageRank :math:`\alpha (1 - \alpha)^k`, the rest on the
            last step; ``"nppr"``, :math:`\alpha^k` divided by their sum; ``"sgc"``, the last step alone; ``"random"``.

    Shapes:
        - **input:** ``h`` ``[N, F]``, ``edge_index`` ``[2, E]``, ``edge_weight`` ``[E]``
        - **output:** ``[N, F]``

    Example:
        >>> GeneralizedPageRank(2, 0.5).gamma.tolist()
        [0.5, 0.25, 0.25]
    """

    def __init__(self, steps: int, alpha: float, start: Start = "ppr") -> None:
        super().__init__()
        self.alpha, self.start = alpha, start
        self.gamma = torch.nn.Parameter(torch.empty(steps + 1))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        count, powers = self.gamma.numel(), torch.arange(self.gamma.numel())
        if self.start == "ppr":
            self.gamma.copy_(self.alpha * (1 - self.alpha) ** powers)
            self.gamma[-1] = (1 - self.alpha) ** (count - 1)
        elif self.start == "nppr":
            self.gamma.copy_(self.alpha**powers)
            self.gamma.div_(self.gamma.sum())
        elif self.start == "random":
            self.gamma.uniform_(-1, 1)
            self.gamma.div_(self.gamma.abs().sum())
        else:
            self.gamma.zero_()[-1] = 1

    def forward(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        out = self.gamma[0] * h
        for gamma in self.gamma[1:]:
            h = propagate(h, edge_index, edge_weight)
            out = out + gamma * h
        return out


def build_gprgnn(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    steps: Annotated[int, Field(ge=0)] = 10,
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.1,
    start: Start = "ppr",
    propagation_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> NodeNetwork:
    """:class:`GeneralizedPageRank` after an MLP of ``num_layers``; what goes into the first step may be dropped, too."""
    encoder, width = node_input(shape, hidden_channels)
    mlp = MLP([width, *[hidden_channels] * (num_layers - 1), shape.outputs], dropout=dropout, norm=None)
    propagation = GeneralizedPageRank(steps, alpha, start)
    gnn = PredictThenPropagate(accept_sparse(mlp, width), propagation, propagation_dropout)
    return NodeNetwork(gnn, encoder, uses_weights=True, input_dropout=input_dropout)
