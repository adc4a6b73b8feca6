"""PNA's layer without a linear map for each edge."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import DegreeScalerAggregation, MessagePassing, PNAConv
from torch_geometric.nn.models import PNA
from torch_geometric.utils import degree

from tgnn.models.propagation import PLAIN_PROPAGATE, messages_are_seen

POOLINGS = ("mean", "min", "max", "std")
SCALERS = ("identity", "amplification", "attenuation")


class NodewisePNAConv(PNAConv):
    r"""PyG's ``PNAConv`` with one map before its four poolings, which is made of each node rather than of each edge.

    A message to :math:`i` is linear, :math:`W_1 x_i + W_2 x_j + W_3 e_{ji}`, and :math:`W_1 x_i` is the same in all of
    them: it shifts mean, min and max, and leaves std as it is. Weights are those of PyG's layer, and so is the result.

    Args:
        in_channels: Width of a row.
        out_channels: Of a row of the output.
        deg: How many nodes there are of each degree, as PyG's layer has it.
        settings: Others of PyG's layer: ``edge_dim``, ``towers``, ``divide_input``.

    Shapes:
        - x ``[N, in_channels]``, edge_index ``[2, E]``, edge_attr ``[E, edge_dim]``; output ``[N, out_channels]``

    Example:
        >>> layer = NodewisePNAConv(4, 6, torch.tensor([0, 2]), towers=2, divide_input=True)
        >>> layer(torch.ones(2, 4), torch.tensor([[0, 1], [1, 0]])).shape
        torch.Size([2, 6])
    """

    propagate = PLAIN_PROPAGATE

    def __init__(self, in_channels: int, out_channels: int, deg: Tensor, **settings: Any) -> None:
        super().__init__(in_channels, out_channels, list(POOLINGS), list(SCALERS), deg, **settings)

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor | None = None) -> Tensor:
        if not self._is_usual(edge_index, edge_attr):
            out: Tensor = super().forward(x, edge_index, edge_attr)
            return out
        rows = x.view(-1, self.towers, self.F_in) if self.divide_input else x.unsqueeze(1).expand(-1, self.towers, -1)
        pooled, count = self._pool(rows, edge_index, edge_attr)
        log, mean_log = torch.log(count + 1), self.aggr_module.avg_deg_log
        scales = torch.stack([torch.ones_like(log), log / mean_log, mean_log / log.clamp(min=math.log(2))], dim=1)
        weight, bias = _stacked(self.post_nns)
        own, other = weight[..., : self.F_in], weight[..., self.F_in :]
        by_scaler = torch.cat(other.chunk(len(SCALERS), dim=2), dim=1)  # [towers, scalers * out, 4 * width]
        scaled = torch.stack(_by_tower(pooled, by_scaler).chunk(len(SCALERS), dim=2), dim=2)
        out = _by_tower(rows, own) + (scaled * scales.to(rows.dtype)[:, None, :, None]).sum(2) + bias
        mixed: Tensor = self.lin(out.flatten(1))
        return mixed

    def _is_usual(self, edge_index: Any, edge_attr: Tensor | None) -> bool:
        """Whether the layer is PNA's as it is made here, and nothing looks at messages."""
        return (
            isinstance(self.aggr_module, DegreeScalerAggregation)
            and not messages_are_seen(self)
            and self.flow == "source_to_target"
            and isinstance(edge_index, Tensor)
            and edge_index.layout == torch.strided
            and (self.edge_dim is None) == (edge_attr is None)
            and all(len(maps) == 1 for maps in (*self.pre_nns, *self.post_nns))
        )

    def _pool(self, rows: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean, min, max and std of the messages, ``[N, towers, 4 * width]``, and how many there are, ``[N]``."""
        source, target = edge_index[0], edge_index[1]
        weight, bias = _stacked(self.pre_nns)
        own, other, *of_edge = weight.chunk(weight.size(2) // self.F_in, dim=2)
        message = _by_tower(rows, other).flatten(1).index_select(0, source)
        if edge_attr is not None:
            encoded = self.edge_encoder(edge_attr).unsqueeze(1).expand(-1, self.towers, -1)
            message = message + _by_tower(encoded, of_edge[0]).flatten(1)
        message = message.to(torch.promote_types(message.dtype, torch.float32))  # half of it sums badly
        both = torch.cat([message, -message], dim=1)
        largest = both * _shares_of_largest(both.detach(), target, len(rows))
        sums = _sums(torch.cat([message, message * message, largest], dim=1), target, len(rows))
        total, square, most, least = sums.chunk(4, dim=1)
        count = degree(target, len(rows), dtype=message.dtype)
        share = 1 / count.clamp(min=1).unsqueeze(1)
        mean = total * share
        std = (square * share - mean * mean).clamp(min=1e-5).sqrt()  # PyG's, which takes what is smaller for none
        std = std.masked_fill(std <= math.sqrt(1e-5), 0.0)
        shift = (_by_tower(rows, own) + bias).flatten(1).masked_fill((count == 0).unsqueeze(1), 0.0)
        parts = [part.view(-1, self.towers, self.F_in) for part in (mean + shift, shift - least, most + shift, std)]
        return torch.cat(parts, dim=-1).to(rows.dtype), count


def _sums(values: Tensor, target: Tensor, nodes: int) -> Tensor:
    return values.new_zeros(nodes, values.size(1)).index_add(0, target, values)


def _shares_of_largest(values: Tensor, target: Tensor, nodes: int) -> Tensor:
    """1 where a value is the largest of its target, a half where two are, and so on; else 0.

    The sum of values times these is the largest, and its gradient is shared among equals, as PyG's is.
    """
    places = target.unsqueeze(1).expand_as(values)
    largest = values.new_zeros(nodes, values.size(1)).scatter_reduce(0, places, values, "amax", include_self=False)
    is_largest = (values == largest.index_select(0, target)).to(values.dtype)
    return is_largest / _sums(is_largest, target, nodes).index_select(0, target)


def _stacked(maps: Any) -> tuple[Tensor, Tensor]:
    """Weights ``[towers, out, in]`` and biases ``[towers, out]`` of one linear map for each tower."""
    return torch.stack([one[0].weight for one in maps]), torch.stack([one[0].bias for one in maps])


def _by_tower(rows: Tensor, weight: Tensor) -> Tensor:
    """``[n, towers, in]`` and ``[towers, out, in]``: each tower's rows times its own weights."""
    return torch.einsum("nti,toi->nto", rows, weight)


class NodewisePNA(PNA):
    """PyG's ``PNA``, of these layers."""

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> MessagePassing:
        return NodewisePNAConv(in_channels, out_channels, **kwargs)
