"""tGNN for tasks on whole graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation
from torch_geometric.nn.models import MLP

from tgnn.nn.aggr import CPAggregation
from tgnn.nn.checks import check_size
from tgnn.nn.init import SMALLEST_SCALE
from tgnn.nn.models.encoder import make_encoder
from tgnn.nn.models.row_norm import RowNorm
from tgnn.nn.models.tgnn import TGNN
from tgnn.nn.neighborhood import as_edge_index

_READOUTS = ("sum", "mean", "cp", "sum+cp", "mean+cp")


class GraphTGNN(torch.nn.Module):
    r"""tGNN for graphs: an encoder, :class:`~tgnn.nn.TGNN`, a readout that multiplies as well as sums, and a head.

    The paper applies CP pooling "at both node-level aggregation and graph-level readout". The readout here is

    .. math::
        r = \Big[ \sum_v h_v, \;\; \sigma' \Big( M \tanh \prod_v \Big(1 + \tfrac{1}{\sqrt{n}} (W^\top
        \begin{bmatrix} h_v \\ 1 \end{bmatrix} - 1) \Big) \Big) \Big]

    (Definition 1, with factors drawn towards 1 so that a product over all :math:`n` nodes of a graph stays alive).

    Args:
        in_channels: Width of float features, or the sizes of categorical columns (``[28]`` for ZINC's atoms).
        hidden_channels: Size of each hidden row.
        num_layers: Number of layers.
        out_channels: Number of outputs of a graph.
        rank: Rank of every product; ``0``: none (then with ``readout="sum"`` or ``"mean"``).
        edge_dim: The same for ``edge_attr``: a width, or the sizes of categorical columns; ``None``: no edge features.
        readout: ``"sum+cp"`` as above, ``"mean+cp"``, or one of ``"sum"``, ``"mean"``, ``"cp"`` alone.
        scaled_readout: Whether the factors of the readout are drawn towards 1 as above; else Definition 1 as it is.
        dropout: Probability to drop an entry between layers and in the head.
        norm: Normalization after each layer.
        head_layers: Layers of the head, an MLP.
        readout_norm: Whether the row of a graph is normalized over the batch, before the head.
        jk: Jumping knowledge. ``"cat"`` concatenates the readouts of all layers; ``None`` reads the last layer only.
        smallest_start: How near to 1 some factors start, in layers and readout (:class:`~tgnn.CPAggregation`); 1 for
            molecules, whose atoms have few neighbors.
        **kwargs: Arguments of :class:`~tgnn.nn.TGNN` and :class:`~tgnn.nn.TGNNConv`, such as ``root_weight``.

    Shapes:
        - **input:** ``x`` ``[N, in_channels]``; ``edge_index`` ``[2, E]``; ``batch`` ``[N]``, the graph of each node
          (by default all are one graph); ``edge_attr`` ``[E, edge_dim]``
        - **output:** ``[graphs, out_channels]``

    Example:
        >>> model = GraphTGNN([28], 32, num_layers=2, out_channels=1, rank=8, edge_dim=[4])
        >>> x, bonds = torch.tensor([5, 0, 7]), torch.tensor([1, 1, 2, 2])
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> model(x, edge_index, torch.tensor([0, 0, 0]), bonds).shape
        torch.Size([1, 1])
    """

    def __init__(
        self,
        in_channels: int | Sequence[int],
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        rank: int = 32,
        edge_dim: int | Sequence[int] | None = None,
        readout: str = "sum+cp",
        scaled_readout: bool = True,
        dropout: float = 0.0,
        norm: str | Callable[..., Any] | None = "batch_norm",
        head_layers: int = 2,
        *,
        readout_norm: bool = False,
        jk: Literal["cat"] | None = None,
        smallest_start: float = SMALLEST_SCALE,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if readout not in _READOUTS:
            raise ValueError(f"readout is {readout!r}, but must be one of {', '.join(map(repr, _READOUTS))}")
        check_size("hidden_channels", hidden_channels)
        check_size("out_channels", out_channels)
        check_size("head_layers", head_layers)
        if jk not in (None, "cat"):
            raise ValueError(f"jk is {jk!r}, but must be None (read the last layer) or 'cat' (read all layers)")
        if rank == 0 and "cp" in readout:
            raise ValueError(f"rank is 0, no products, but readout is {readout!r}; use readout='sum' or 'mean'")
        self.in_channels, self.hidden_channels, self.out_channels = in_channels, hidden_channels, out_channels
        self.readout = readout
        self.encoder = make_encoder(in_channels, hidden_channels, "x")
        edge_width = None if edge_dim is None else _width_of(edge_dim, hidden_channels)
        self.edge_encoder = None
        if edge_dim is not None and edge_width is not None:
            self.edge_encoder = make_encoder(edge_dim, edge_width, "edge_attr")
        self.gnn = TGNN(
            hidden_channels,
            hidden_channels,
            num_layers,
            rank=rank,
            dropout=dropout,
            norm=norm,
            jk=jk or "last",
            smallest_start=smallest_start,
            edge_dim=edge_width,
            **kwargs,
        )
        del self.gnn.lin  # the head follows the readout
        parts = readout.split("+")
        self.low_readout = SumAggregation() if "sum" in parts else MeanAggregation() if "mean" in parts else None
        self.cp_readout = None
        if "cp" in parts:
            self.cp_readout = CPAggregation(
                hidden_channels, rank=rank, scaled=scaled_readout, smallest_start=smallest_start
            )
        pooled = len(parts) * hidden_channels * (num_layers if jk == "cat" else 1)
        self.readout_norm = RowNorm(pooled) if readout_norm else None
        widths = [pooled, *[hidden_channels] * (head_layers - 1), out_channels]
        self.head = MLP(widths, dropout=dropout, norm=None)

    def reset_parameters(self) -> None:
        for module in (self.encoder, self.edge_encoder, self.gnn, self.cp_readout, self.readout_norm, self.head):
            if module is not None:
                module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """The outputs of each graph; note the order, ``batch`` before ``edge_attr``.

        Args:
            x: As above.
            edge_index: As above.
            batch: The graph of each node; ``None``: all are one graph.
            edge_attr: As above.
            edge_weight: ``[E]``, as for :class:`~tgnn.nn.TGNNConv`.
            batch_size: Number of graphs, where it is known; else one more than the largest of ``batch``.
        """
        if (edge_attr is None) != (self.edge_encoder is None):
            raise ValueError(
                f"edge_attr is {'not ' if edge_attr is None else ''}given, but the model was made "
                f"{'without' if self.edge_encoder is None else 'with'} edge_dim"
            )
        h = self.encoder(x)
        if batch is None:
            batch, batch_size = torch.zeros(h.size(0), dtype=torch.int64, device=h.device), 1
        _check_batch(batch, h.size(0))
        edges = None
        if edge_attr is not None and self.edge_encoder is not None:
            count = as_edge_index(edge_index).size(1)
            if edge_attr.size(0) != count:
                raise ValueError(f"edge_attr has {edge_attr.size(0)} rows, but the graph has {count} edges")
            edges = self.edge_encoder(edge_attr.unsqueeze(1) if edge_attr.dim() == 1 else edge_attr)
        h = self.gnn(h, edge_index, edge_weight, edges, batch, batch_size)
        layers = h.unflatten(1, (-1, self.hidden_channels))  # of those that are read, side by side
        readouts = [r for r in (self.low_readout, self.cp_readout) if r is not None]
        pooled = torch.cat(
            [readout(layers, batch, dim_size=batch_size, dim=0) for readout in readouts], dim=-1
        ).flatten(1)
        out: Tensor = self.head(pooled if self.readout_norm is None else self.readout_norm(pooled))
        return out

    def __repr__(self) -> str:
        sizes = f"{self.in_channels}, {self.out_channels}, num_layers={self.gnn.num_layers}, rank={self.gnn.rank}"
        return f"{type(self).__name__}({sizes}, readout={self.readout!r})"


def _width_of(edges: int | Sequence[int], hidden: int) -> int:
    """No wider than what edges can say (of numbers, a constant too): each layer maps it, and there are many edges."""
    if isinstance(edges, (list, tuple)):
        return min(sum(edges), hidden)
    return min(edges + 1, hidden) if isinstance(edges, int) and edges > 0 else hidden


def _check_batch(batch: Any, nodes: int) -> None:
    if not isinstance(batch, Tensor) or batch.dtype not in (torch.int64, torch.int32) or batch.dim() != 1:
        found = f"{batch.dtype} {list(batch.shape)}" if isinstance(batch, Tensor) else type(batch).__name__
        raise TypeError(f"batch must be an int64 tensor [N], the graph of each node, got {found}")
    if batch.numel() != nodes:
        raise ValueError(f"batch has {batch.numel()} entries, but x has {nodes} rows")
    if not torch.compiler.is_compiling() and nodes and int(batch.min()) < 0:
        raise ValueError(f"batch contains {int(batch.min())}, but graphs are counted from 0")
