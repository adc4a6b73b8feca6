"""PNA's layer without a linear map for each edge."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import DegreeScalerAggregation, MessagePassing, PNAConv
from torch_geometric.nn.models import PNA

from tgnn.ops.cache import remembered
from tgnn.ops.eager import nothing_watches

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

    def __init__(self, in_channels: int, out_channels: int, deg: Tensor, **settings: Any) -> None:
        super().__init__(in_channels, out_channels, list(POOLINGS), list(SCALERS), deg, **settings)

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor | None = None) -> Tensor:
        if not self._is_usual(edge_index):
            out: Tensor = super().forward(x, edge_index, edge_attr)
            return out
        rows = x.view(-1, self.towers, self.F_in) if self.divide_input else x.unsqueeze(1).expand(-1, self.towers, -1)
        pooled, degree = self._pool(rows, edge_index, edge_attr)
        log, mean_log = torch.log(degree + 1), self.aggr_module.avg_deg_log
        scales = torch.stack([torch.ones_like(log), log / mean_log, mean_log / log.clamp(min=math.log(2))], dim=1)
        weight, bias = _stacked(self.post_nns)
        own, other = weight[..., : self.F_in], weight[..., self.F_in :]
        by_scaler = torch.cat(other.chunk(len(SCALERS), dim=2), dim=1)  # [towers, scalers * out, 4 * width]
        scaled = torch.stack(_by_tower(pooled, by_scaler).chunk(len(SCALERS), dim=2), dim=2)
        out = _by_tower(rows, own) + (scaled * scales[:, None, :, None]).sum(2) + bias
        mixed: Tensor = self.lin(out.flatten(1))
        return mixed

    def _is_usual(self, edge_index: Any) -> bool:
        """Whether the poolings are PNA's still, and nothing looks at messages."""
        return (
            isinstance(self.aggr_module, DegreeScalerAggregation)
            and not self.explain
            and self.flow == "source_to_target"
            and isinstance(edge_index, Tensor)
            and edge_index.layout == torch.strided
            and nothing_watches(edge_index)
        )

    def _pool(self, rows: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean, min, max and std of the messages, ``[N, towers, 4 * width]``, and how many there are, ``[N]``."""
        edges = remembered(("by target", len(rows)), (edge_index,), lambda: _by_target(edge_index, len(rows)))
        weight, bias = _stacked(self.pre_nns)
        own, other, *of_edge = weight.chunk(weight.size(2) // self.F_in, dim=2)
        message = _by_tower(rows, other).flatten(1).index_select(0, edges.source)
        if edge_attr is not None:
            encoded = self.edge_encoder(edge_attr).unsqueeze(1).expand(-1, self.towers, -1)
            message = message + _by_tower(encoded, of_edge[0]).flatten(1).index_select(0, edges.order)
        both = torch.cat([message, -message], dim=1)
        chosen = torch.cat([message * message, both * _shares_of_largest(both.detach(), edges)], dim=1)
        sums = torch.segment_reduce(torch.cat([message, chosen], dim=1), "sum", offsets=edges.ends)
        total, square, most, least = sums.chunk(4, dim=1)
        degree = edges.ends.diff()
        count = degree.clamp(min=1).unsqueeze(1)
        mean = total / count
        std = (square / count - mean * mean).clamp(min=1e-5).sqrt()  # PyG's, which takes what is smaller for none
        std = std.masked_fill(std <= math.sqrt(1e-5), 0.0)
        shift = ((_by_tower(rows, own) + bias).flatten(1)).masked_fill((degree == 0).unsqueeze(1), 0.0)
        parts = [part.view(len(rows), self.towers, -1) for part in (mean + shift, shift - least, most + shift, std)]
        return torch.cat(parts, dim=-1), degree.to(rows.dtype)


class _Edges(NamedTuple):
    """Edges in the order of their targets."""

    order: Tensor
    """Places in the caller's order."""
    source: Tensor
    target: Tensor
    ends: Tensor
    """Where the edges of each target begin, and behind the last."""


def _by_target(edge_index: Tensor, nodes: int) -> _Edges:
    target, order = torch.sort(edge_index[1], stable=True)
    ends = torch.searchsorted(target, torch.arange(nodes + 1, device=target.device))
    return _Edges(order, edge_index[0][order], target, ends)


def _shares_of_largest(values: Tensor, edges: _Edges) -> Tensor:
    """1 where a value is the largest of its target, a half where two are, and so on; else 0.

    Their sum is the largest value, and its gradient is shared among equals, as PyG's is. That of torch's
    ``segment_reduce`` is not where it is negative.
    """
    largest = torch.segment_reduce(values, "max", offsets=edges.ends).index_select(0, edges.target)
    is_largest = (values == largest).to(values.dtype)
    return is_largest / torch.segment_reduce(is_largest, "sum", offsets=edges.ends).index_select(0, edges.target)


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
