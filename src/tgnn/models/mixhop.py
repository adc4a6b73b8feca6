"""MixHop (Abu-El-Haija et al., 2019): concatenated powers of the normalized adjacency matrix in every layer."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import MixHopConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.norm import BatchNorm

from tgnn.models.node_network import NodeNetwork, accept_sparse, encode_input
from tgnn.models.propagation import PLAIN_PROPAGATE, can_propagate, propagate
from tgnn.models.registration import ModelSize, Probability, register_model
from tgnn.nn.feature_maps import FeatureDropout

_POWERS = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]


class TransformFirstMixHopConv(MixHopConv):
    r"""PyG's ``MixHopConv`` that applies the linear transformations before it propagates.

    :math:`\hat{A}^p (X W_p)` equals :math:`(\hat{A}^p X) W_p`. Propagating afterwards is cheaper because the
    transformed features are narrow, and the input features may be sparse.
    """

    propagate = PLAIN_PROPAGATE

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        fused = can_propagate(self, x, edge_index, edge_weight)
        if not fused:
            edge_index, edge_weight = gcn_norm(
                edge_index, edge_weight, x.size(0), False, self.add_self_loops, self.flow, x.dtype
            )
        outputs: list[Tensor] = []
        for power in range(max(self.powers), -1, -1):  # one step propagates all higher powers together
            if power in self.powers:
                outputs.insert(0, self.lins[power](x))
            if power > 0:
                stacked = torch.cat(outputs, dim=-1)
                if fused:
                    outputs = [propagate(stacked, edge_index, edge_weight)]
                else:
                    outputs = [self.propagate(edge_index, x=stacked, edge_weight=edge_weight)]
        out = torch.cat(outputs, dim=-1)
        return out if self.bias is None else out + self.bias


class MixHop(torch.nn.Module):
    r"""Layers of Abu-El-Haija et al., :math:`H' = \Vert_{p \in P} \sigma(\hat{A}^p H W_p)`, and their output layer.

    The output layer computes outputs for each power and averages them with learned softmax weights.

    Args:
        size: Sizes of the network, with the number of hidden channels for each power.
        powers: Powers :math:`P` in ascending order.
    """

    def __init__(self, size: ModelSize, powers: tuple[int, ...]) -> None:
        super().__init__()
        wide, num_hidden = size.hidden_channels * len(powers), size.num_layers - 1
        in_sizes = [size.in_channels, *[wide] * num_hidden]
        out_sizes = [*[size.hidden_channels] * num_hidden, size.out_channels]
        self.convs = torch.nn.ModuleList(
            TransformFirstMixHopConv(i, o, list(powers), bias=False) for i, o in zip(in_sizes, out_sizes)
        )
        self.norms = torch.nn.ModuleList(BatchNorm(wide) for _ in range(num_hidden))
        self.dropout = FeatureDropout(size.dropout)
        self.weights = torch.nn.Parameter(torch.zeros(len(powers)))
        self.bias = torch.nn.Parameter(torch.zeros(size.out_channels))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        *inner, last = self.convs
        for conv, norm in zip(inner, self.norms):
            x = self.dropout(norm(conv(x, edge_index, edge_weight)).relu())
        logits = last(x, edge_index, edge_weight).view(x.size(0), len(self.weights), -1)
        return torch.einsum("npc,p->nc", logits, self.weights.softmax(0)) + self.bias


@register_model(
    "mixhop",
    "node",
    summary="Concatenated powers of the normalized adjacency matrix in every layer",
    paper="Abu-El-Haija et al. 2019, arXiv:1905.00067",
    uses=("edge weights",),
    search_space={"model.powers": ((0, 1), (0, 1, 2), (0, 1, 2, 3))},
    hops=lambda num_layers, hyperparameters: max(num_layers * max(hyperparameters["powers"]), 1),
)
def build_mixhop(size: ModelSize, *, powers: _POWERS = (0, 1, 2), input_dropout: Probability = 0.0) -> NodeNetwork:
    """Build :class:`MixHop`, where ``hidden_channels`` is the number of channels for each power.

    Batch normalization follows each hidden layer, as in the authors' code.
    """
    encoder = encode_input(size)
    gnn = MixHop(size, tuple(sorted(set(powers))))
    return NodeNetwork(accept_sparse(gnn, size.in_channels), encoder, uses_weights=True, input_dropout=input_dropout)
