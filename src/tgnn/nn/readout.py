"""Readouts: pool the node embeddings of each graph to one graph embedding."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation, MaxAggregation, MeanAggregation, SumAggregation

from tgnn.nn.aggr import CPAggregation

_SIMPLE = {"sum": SumAggregation, "mean": MeanAggregation, "max": MaxAggregation}


class GatedAggregation(Aggregation):
    r"""Sum the node embeddings with a learned gate for each entry: :math:`\sum_v \sigma(W x_v + b) \odot x_v`.

    Args:
        channels: Size of the node embeddings.

    Example:
        >>> GatedAggregation(4)(torch.randn(3, 4), torch.tensor([0, 0, 1])).shape
        torch.Size([2, 4])
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(channels, channels)

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

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


def make_readouts(
    name: str, channels: int, rank: int, scaled: bool = True, smallest_start: float = 1.0
) -> list[Aggregation]:
    """Create the aggregations of a :class:`Readout`; ``rank`` and the arguments after it are those of ``"cp"``."""
    readouts: list[Aggregation] = []
    for part in name.split("+"):
        if part in _SIMPLE:
            readouts.append(_SIMPLE[part]())
        elif part == "gated":
            readouts.append(GatedAggregation(channels))
        elif part == "cp":
            readouts.append(
                CPAggregation(channels, rank=rank, act_out="relu", scaled=scaled, smallest_start=smallest_start)
            )
        else:
            raise ValueError(
                f"readout is {name!r}, but must be 'sum', 'mean', 'max', 'gated', 'cp', or several of them joined by "
                "'+', such as 'sum+cp'."
            )
    return readouts


def concat_readouts(readouts: Iterable[torch.nn.Module], x: Tensor, batch: Tensor, batch_size: int | None) -> Tensor:
    """Apply every readout to the node embeddings ``[N, *, channels]`` and concatenate the results."""
    pooled: list[Tensor] = [readout(x, batch, dim_size=batch_size, dim=0) for readout in readouts]
    return pooled[0] if len(pooled) == 1 else torch.cat(pooled, dim=-1)


class Readout(torch.nn.Module):
    """Pool the node embeddings of each graph by one or more aggregations and concatenate the results.

    Args:
        name: ``"sum"``, ``"mean"``, ``"max"``, ``"gated"``, ``"cp"``, or several of them joined by ``+``.
        channels: Size of the node embeddings.
        rank: Rank of ``"cp"``. Its factors are scaled by the number of nodes, as in :class:`tgnn.GraphTGNN`.

    Shapes:
        - **input:** ``x`` ``[N, channels]``; ``batch`` ``[N]``, the graph of each node; the number of graphs
        - **output:** ``[graphs, width]``, where ``width`` is the number of aggregations times ``channels``

    Example:
        >>> readout = Readout("sum+cp", 4, rank=8)
        >>> readout(torch.randn(3, 4), torch.tensor([0, 0, 1]), 2).shape
        torch.Size([2, 8])
    """

    def __init__(self, name: str, channels: int, rank: int = 32) -> None:
        super().__init__()
        self.poolings = torch.nn.ModuleList(make_readouts(name, channels, rank))
        self.width = len(self.poolings) * channels

    def forward(self, x: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        return concat_readouts(self.poolings, x, batch, batch_size)


class ReadoutNorm(torch.nn.BatchNorm1d):
    """Batch normalization of graph embeddings, with an error message for batches of one graph.

    Example:
        >>> ReadoutNorm(8)(torch.randn(4, 8)).shape
        torch.Size([4, 8])
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.size(0) == 1:
            raise ValueError(
                "readout_norm=True cannot normalize a training batch of one graph; "
                "use batches of two or more graphs, or readout_norm=False."
            )
        out: Tensor = super().forward(x)
        return out
