"""Readout: pool the node embeddings of each graph into a graph embedding."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation, MaxAggregation, MeanAggregation, SumAggregation

from tgnn.nn import CPAggregation


class GatedAggregation(Aggregation):
    r"""Sum of the node embeddings with learned gates: :math:`\sum_v \sigma(W x_v + b) \odot x_v`.

    Args:
        width: Number of channels of the node embeddings.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(width, width)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        out: Tensor = self.reduce(self.lin(x).sigmoid() * x, index, ptr, dim_size, dim, reduce="sum")
        return out


_CLASSICAL = {"sum": SumAggregation, "mean": MeanAggregation, "max": MaxAggregation}


class Readout(torch.nn.Module):
    """One pooling of the node embeddings, or several that are concatenated.

    Args:
        name: ``"sum"``, ``"mean"``, ``"max"``, ``"gated"``, ``"cp"``, or several joined by ``+``, e.g. ``"sum+cp"``.
        width: Number of channels of the node embeddings.
        rank: Rank of ``"cp"``. Its factors are initialized close to 1, as in :class:`tgnn.GraphTGNN`.
    """

    def __init__(self, name: str, width: int, rank: int = 32) -> None:
        super().__init__()
        parts = name.split("+")
        for part in parts:
            if part not in (*_CLASSICAL, "gated", "cp"):
                raise ValueError(
                    f"model.readout is {name!r}: it is made of sum, mean, max, gated and cp, such as sum+cp"
                )
        self.poolings = torch.nn.ModuleList(self._pooling(part, width, rank) for part in parts)
        self.width = len(parts) * width

    @staticmethod
    def _pooling(name: str, width: int, rank: int) -> Aggregation:
        if name == "gated":
            return GatedAggregation(width)
        return (
            CPAggregation(width, width, rank=rank, scaled=True, smallest_start=1.0)
            if name == "cp"
            else _CLASSICAL[name]()
        )

    def forward(self, x: Tensor, batch: Tensor, size: int) -> Tensor:
        rows = [pooling(x, batch, dim_size=size) for pooling in self.poolings]
        return rows[0] if len(rows) == 1 else torch.cat(rows, dim=-1)
