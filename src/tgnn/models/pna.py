"""PNA (Corso et al., 2020): several aggregations with degree scalers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import DegreeScalerAggregation, MessagePassing, PNAConv
from torch_geometric.nn.models import PNA
from torch_geometric.utils import degree

from tgnn.models.graph_network import GraphNetwork, check_multiple
from tgnn.models.node_network import NodeNetwork, encode_input
from tgnn.models.propagation import PLAIN_PROPAGATE, messages_are_inspected
from tgnn.models.registration import DataShape, ModelSize, PositiveInt, Probability, register_model
from tgnn.nn.feature_maps import FeatureLinear

AGGREGATORS = ("mean", "min", "max", "std")
SCALERS = ("identity", "amplification", "attenuation")


class NodewisePNAConv(PNAConv):
    r"""PyG's ``PNAConv`` with four aggregators, whose linear layer before them is applied once per node.

    A message to :math:`i` is linear, :math:`W_1 x_i + W_2 x_j + W_3 e_{ji}`, and :math:`W_1 x_i` is the same in all
    messages to :math:`i`. It shifts mean, min and max, and does not change std. Weights and outputs are those of PyG's
    layer.

    Args:
        in_channels: Number of input channels.
        out_channels: Number of output channels.
        deg: Degree histogram of the training data, as in PyG's layer.
        kwargs: Other arguments of PyG's layer: ``edge_dim``, ``towers``, ``divide_input``.

    Shapes:
        - **input:** ``x`` ``[N, in_channels]``, ``edge_index`` ``[2, E]``, ``edge_attr`` ``[E, edge_dim]``
        - **output:** ``[N, out_channels]``

    Example:
        >>> layer = NodewisePNAConv(4, 6, torch.tensor([0, 2]), towers=2, divide_input=True)
        >>> layer(torch.ones(2, 4), torch.tensor([[0, 1], [1, 0]])).shape
        torch.Size([2, 6])
    """

    propagate = PLAIN_PROPAGATE

    def __init__(self, in_channels: int, out_channels: int, deg: Tensor, **kwargs: Any) -> None:
        super().__init__(in_channels, out_channels, list(AGGREGATORS), list(SCALERS), deg, **kwargs)

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor | None = None) -> Tensor:
        if not self._can_transform_nodes(edge_index, edge_attr):
            out: Tensor = super().forward(x, edge_index, edge_attr)
            return out
        x = x.view(-1, self.towers, self.F_in) if self.divide_input else x.unsqueeze(1).expand(-1, self.towers, -1)
        aggregated, count = self._aggregate(x, edge_index, edge_attr)
        log, mean_log = torch.log(count + 1), self.aggr_module.avg_deg_log
        scales = torch.stack([torch.ones_like(log), log / mean_log, mean_log / log.clamp(min=math.log(2))], dim=1)
        weight, bias = _stack_towers(self.post_nns)
        root_weight, aggregated_weight = weight[..., : self.F_in], weight[..., self.F_in :]
        by_scaler = torch.cat(aggregated_weight.chunk(len(SCALERS), dim=2), dim=1)  # [towers, scalers * out, 4 * in]
        scaled = torch.stack(_apply_towers(aggregated, by_scaler).chunk(len(SCALERS), dim=2), dim=2)
        out = _apply_towers(x, root_weight) + (scaled * scales.to(x.dtype)[:, None, :, None]).sum(2) + bias
        mixed: Tensor = self.lin(out.flatten(1))
        return mixed

    def _can_transform_nodes(self, edge_index: Any, edge_attr: Tensor | None) -> bool:
        """Return whether the layer has the usual linear layers and its messages are not inspected."""
        return (
            isinstance(self.aggr_module, DegreeScalerAggregation)
            and not messages_are_inspected(self)
            and self.flow == "source_to_target"
            and isinstance(edge_index, Tensor)
            and edge_index.layout == torch.strided
            and (self.edge_dim is None) == (edge_attr is None)
            and all(len(linears) == 1 for linears in (*self.pre_nns, *self.post_nns))
        )

    def _aggregate(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return mean, min, max and std of the messages, ``[N, towers, 4 * in]``, and their number, ``[N]``."""
        source, target = edge_index[0], edge_index[1]
        weight, bias = _stack_towers(self.pre_nns)
        root_weight, neighbor_weight, *edge_weight = weight.chunk(weight.size(2) // self.F_in, dim=2)
        message = _apply_towers(x, neighbor_weight).flatten(1).index_select(0, source)
        if edge_attr is not None:
            encoded = self.edge_encoder(edge_attr).unsqueeze(1).expand(-1, self.towers, -1)
            message = message + _apply_towers(encoded, edge_weight[0]).flatten(1)
        message = message.to(torch.promote_types(message.dtype, torch.float32))  # half precision sums are inaccurate
        both_signs = torch.cat([message, -message], dim=1)
        largest = both_signs * _fraction_of_maximum(both_signs.detach(), target, len(x))
        sums = _sum_by_target(torch.cat([message, message * message, largest], dim=1), target, len(x))
        total, square, maximum, negative_minimum = sums.chunk(4, dim=1)
        count = degree(target, len(x), dtype=message.dtype)
        inverse_count = 1 / count.clamp(min=1).unsqueeze(1)
        mean = total * inverse_count
        std = (square * inverse_count - mean * mean).clamp(min=1e-5).sqrt()  # PyG sets smaller variances to 0
        std = std.masked_fill(std <= math.sqrt(1e-5), 0.0)
        shift = (_apply_towers(x, root_weight) + bias).flatten(1).masked_fill((count == 0).unsqueeze(1), 0.0)
        results = (mean + shift, shift - negative_minimum, maximum + shift, std)
        parts = [result.view(-1, self.towers, self.F_in) for result in results]
        return torch.cat(parts, dim=-1).to(x.dtype), count


class NodewisePNA(PNA):
    """PyG's ``PNA`` with layers of :class:`NodewisePNAConv`."""

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> MessagePassing:
        return NodewisePNAConv(in_channels, out_channels, **kwargs)


def _sum_by_target(values: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    return values.new_zeros(num_nodes, values.size(1)).index_add(0, target, values)


def _fraction_of_maximum(values: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """Return ``1 / k`` for the ``k`` entries that attain the maximum of their target, and 0 for others.

    The sum of the values times these is the maximum, and its gradient is shared equally among ties, as in PyG.
    """
    index = target.unsqueeze(1).expand_as(values)
    maximum = values.new_zeros(num_nodes, values.size(1)).scatter_reduce(0, index, values, "amax", include_self=False)
    is_maximum = (values == maximum.index_select(0, target)).to(values.dtype)
    return is_maximum / _sum_by_target(is_maximum, target, num_nodes).index_select(0, target)


def _stack_towers(towers: Any) -> tuple[Tensor, Tensor]:
    """Return the weights ``[towers, out, in]`` and biases ``[towers, out]`` of the linear layers of all towers."""
    return torch.stack([tower[0].weight for tower in towers]), torch.stack([tower[0].bias for tower in towers])


def _apply_towers(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply each tower of ``x`` ``[n, towers, in]`` by its own weights ``[towers, out, in]``."""
    return torch.einsum("nti,toi->nto", x, weight)


@register_model(
    "pna",
    "node",
    summary="Mean, min, max and std of the neighbors with degree scalers",
    paper="Corso et al. 2020, arXiv:2004.05718",
)
def build_pna(size: ModelSize, *, input_dropout: Probability = 0.0) -> NodeNetwork:
    """Build PyG's ``PNA``, Eq. (8) of Corso et al., after a linear layer.

    PNA concatenates twelve aggregations, which would be very wide if the input features were aggregated.
    """
    encoder, hidden_channels = encode_input(size), size.hidden_channels
    channels = (hidden_channels, hidden_channels, size.num_layers, size.out_channels)
    gnn = NodewisePNA(*channels, dropout=size.dropout, deg=_degree_histogram(size.shape))
    encoder_or_linear = encoder or FeatureLinear(size.in_channels, hidden_channels, bias=True)
    return NodeNetwork(gnn, encoder_or_linear, input_dropout=input_dropout)


@register_model("pna", "graph", uses=("edge features",))
def build_graph_pna(
    size: ModelSize,
    *,
    towers: PositiveInt = 5,
    readout: str = "sum",
    readout_norm: bool = False,
    rank: PositiveInt = 32,
    ffn: bool = False,
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of PyG's ``PNAConv``. ``rank`` is that of a ``cp`` readout."""
    check_multiple(size, "towers", towers)
    channels, deg = size.hidden_channels, _degree_histogram(size.shape)
    options = {"edge_dim": size.edge_dim, "towers": towers, "divide_input": True}
    make_layer = partial(NodewisePNAConv, channels, channels, deg, **options)
    return GraphNetwork(size, make_layer, readout, rank, readout_norm=readout_norm, edge_inputs="features", ffn=ffn)


def _degree_histogram(shape: DataShape) -> Tensor:
    """Return the degree histogram of the training data. A trained model stores the mean degree with its weights.

    The mean degree is a divisor. If no node has an edge, the histogram has a mean of 1.
    """
    counts = shape.degrees or (0,)
    return torch.tensor(counts if any(counts[1:]) else (0, 1))
