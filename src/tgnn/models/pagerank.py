"""MLP followed by PageRank propagation: APPNP (Gasteiger et al., 2019) and GPR-GNN (Chien et al., 2021)."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import APPNP

from tgnn.models.node_network import NodeNetwork, encode_input, make_mlp
from tgnn.models.propagation import PLAIN_PROPAGATE, can_propagate, propagate
from tgnn.models.registration import ModelSize, Probability, register_model
from tgnn.nn.feature_maps import FeatureDropout

Steps = Annotated[int, Field(ge=0)]
Teleport = Annotated[float, Field(ge=0, le=1)]
Start = Literal["ppr", "nppr", "random", "sgc"]


class PredictThenPropagate(torch.nn.Module):
    """Predictions of an MLP for each node, propagated along the edges, with dropout between the two."""

    def __init__(self, mlp: torch.nn.Module, propagation: torch.nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.mlp, self.propagation, self.dropout = mlp, propagation, FeatureDropout(dropout)

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


class GeneralizedPageRank(torch.nn.Module):
    r"""Propagation with learned weights :math:`\gamma`, Eq. (1) of Chien et al.:

    .. math::
        Z = \sum_{k=0}^{K} \gamma_k \tilde{A}_{\mathrm{sym}}^k H, \quad
        \tilde{A}_{\mathrm{sym}} = \tilde{D}^{-1/2} (A + I) \tilde{D}^{-1/2}

    Args:
        steps: Number of propagation steps :math:`K`.
        alpha: Parameter :math:`\alpha` of the initial weights.
        start: Initial weights. ``"ppr"`` is personalized PageRank, :math:`\alpha (1 - \alpha)^k` with the rest on the
            last step; ``"nppr"`` is :math:`\alpha^k`, normalized to sum to 1; ``"sgc"`` is 1 on the last step;
            ``"random"`` is uniform, normalized to sum to 1 in absolute value.

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
    size: ModelSize, *, steps: Steps = 10, alpha: Teleport = 0.1, input_dropout: Probability = 0.0
) -> NodeNetwork:
    """Build :class:`PersonalizedPageRank` after an MLP of ``num_layers`` layers.

    The paper also drops edges. This is left out because PyG's ``APPNP`` drops more edges in every step, until few are
    left.
    """
    encoder = encode_input(size)
    gnn = PredictThenPropagate(make_mlp(size), PersonalizedPageRank(steps, alpha))
    return NodeNetwork(gnn, encoder, uses_weights=True, input_dropout=input_dropout)


@register_model(
    "gprgnn",
    "node",
    summary="MLP followed by generalized PageRank propagation with learned weights",
    paper="Chien et al. 2021, arXiv:2006.07988",
    uses=("edge weights",),
    search_space={"model.alpha": (0.1, 0.2, 0.5, 0.9)},
    hops=lambda num_layers, hyperparameters: max(hyperparameters["steps"], 1),
)
def build_gprgnn(
    size: ModelSize,
    *,
    steps: Steps = 10,
    alpha: Teleport = 0.1,
    start: Start = "ppr",
    propagation_dropout: Probability = 0.0,
    input_dropout: Probability = 0.0,
) -> NodeNetwork:
    """Build :class:`GeneralizedPageRank` after an MLP of ``num_layers`` layers.

    ``propagation_dropout`` is the dropout probability before the first propagation step.
    """
    encoder = encode_input(size)
    gnn = PredictThenPropagate(make_mlp(size), GeneralizedPageRank(steps, alpha, start), propagation_dropout)
    return NodeNetwork(gnn, encoder, uses_weights=True, input_dropout=input_dropout)
