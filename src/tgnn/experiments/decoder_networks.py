"""Networks of the decoding experiment: any aggregation at the parity checks, with the same number of weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation, DegreeScalerAggregation
from torch_geometric.utils import softmax

from tgnn.data.codes import ParityCheckCode
from tgnn.nn import FactorGraphNet


def make_network(options: Mapping[str, Any], code: ParityCheckCode, seed: int) -> FactorGraphNet:
    """Build a network with any aggregation at the checks, and with as many weights as the product network.

    The largest number of hidden channels is chosen that has no more weights than the product network. The hidden
    channels of the two MLPs are then increased until the numbers of weights are closest.
    """
    channels, rounds, aggr = options["hidden_channels"], options["rounds"], options["aggr"]

    def build(hidden_channels: int, mlp_channels: int) -> FactorGraphNet:
        aggregation, num_outputs = _aggregation(aggr, hidden_channels, code)
        return FactorGraphNet(
            1,
            hidden_channels,
            rounds,
            mlp_channels=mlp_channels,
            aggr=aggregation,
            aggr_channels=num_outputs * hidden_channels,
        )

    with torch.random.fork_rng([]):
        target = _num_weights(FactorGraphNet(1, channels, rounds))
        hidden = max(
            size for size in range(1, channels + 1) if size == 1 or _num_weights(build(size, 2 * size)) <= target
        )
        mlp = min(range(2 * hidden, 4 * hidden), key=lambda size: abs(_num_weights(build(hidden, size)) - target))
        torch.default_generator.manual_seed(seed)
        return build(hidden, mlp)


def _num_weights(net: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


def _aggregation(name: str, channels: int, code: ParityCheckCode) -> tuple[str | Aggregation, int]:
    """Return an aggregation, and the number of outputs for each input channel."""
    if name == "pna":
        degrees = torch.bincount(code.parity_check.sum(1))
        aggregations, scalers = ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"]
        return DegreeScalerAggregation(aggregations, scalers, degrees), len(aggregations) * len(scalers)
    if name in ("gat", "gated"):
        return WeightedMean(channels, attention=name == "gat"), 1
    return name, 1


class WeightedMean(Aggregation):
    r"""Mean with learned weights for each channel, the aggregation of GAT or of GatedGCN.

    The score of a member is :math:`s_e = W_1 x_e + W_2 \bar{x}`, with the mean :math:`\bar{x}` of its set. The weights
    are :math:`\mathrm{softmax}(\mathrm{LeakyReLU}(s))` in GAT and :math:`\sigma(s_e) / \sum_{e'} \sigma(s_{e'})` in
    GatedGCN.

    Args:
        channels: Number of channels.
        attention: Whether to compute the weights of GAT, else those of GatedGCN.
    """

    def __init__(self, channels: int, attention: bool) -> None:
        super().__init__()
        self.lin_member = torch.nn.Linear(channels, channels)
        self.lin_set = torch.nn.Linear(channels, channels, bias=False)
        self.attention = attention

    def reset_parameters(self) -> None:
        self.lin_member.reset_parameters()
        self.lin_set.reset_parameters()

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        assert index is not None
        mean = self.reduce(x, index, ptr, dim_size, dim, reduce="mean")
        score = self.lin_member(x) + self.lin_set(mean).index_select(dim, index)
        if self.attention:
            weight = softmax(torch.nn.functional.leaky_relu(score, 0.2), index, num_nodes=dim_size, dim=dim)
        else:
            weight = score.sigmoid()
            total: Tensor = self.reduce(weight, index, ptr, dim_size, dim, reduce="sum")
            weight = weight / (total.index_select(dim, index) + 1e-6)
        out: Tensor = self.reduce(weight * x, index, ptr, dim_size, dim, reduce="sum")
        return out
