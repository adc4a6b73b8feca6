"""GraphTGNN: tGNN for graph classification and graph regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.nn.models import MLP

from tgnn.nn.aggr import CPAggregation
from tgnn.nn.feature_maps import check_choice, check_size, make_encoder
from tgnn.nn.init import SMALLEST_SCALE
from tgnn.nn.models.tgnn import TGNN
from tgnn.nn.neighborhood import as_edge_index
from tgnn.nn.readout import ReadoutNorm, concat_readouts, make_readouts


class GraphTGNN(torch.nn.Module):
    r"""tGNN for graph tasks: an encoder, :class:`~tgnn.nn.TGNN`, a readout by sum and product, and an MLP head.

    The paper applies CP pooling "at both node-level aggregation and graph-level readout". The default readout is

    .. math::
        r = \Big[ \sum_v h_v, \;\; \sigma' \Big( M \tanh \prod_v \Big(1 + \tfrac{1}{\sqrt{n}} (W^\top
        \begin{bmatrix} h_v \\ 1 \end{bmatrix} - 1) \Big) \Big) \Big]

    This is Definition 1, with factors scaled toward 1 so that a product over all :math:`n` nodes of a graph neither
    vanishes nor saturates.

    Args:
        in_channels: Number of numeric node features, or a list with the number of categories of each categorical
            column (``[28]`` for the atoms of ZINC).
        hidden_channels: Size of the hidden node embeddings.
        num_layers: Number of layers.
        out_channels: Number of outputs per graph.
        rank: CP rank of every product. ``0`` removes all products and needs ``readout="sum"`` or ``"mean"``.
        edge_dim: Number of numeric edge features, or a list with the number of categories of each categorical column.
            ``None`` means no edge features.
        readout: ``"sum+cp"`` as above, ``"mean+cp"``, ``"sum"``, ``"mean"`` or ``"cp"``.
        scaled_readout: Whether the factors of the readout are scaled toward 1 as above. If ``False``, the readout is
            Definition 1 without scaling.
        dropout: Dropout probability between layers and in the head.
        norm: Normalization after each layer.
        head_layers: Number of layers of the MLP head.
        readout_norm: Whether to apply batch normalization to the graph embeddings before the head.
        jk: Jumping knowledge. ``"cat"`` concatenates the readouts of all layers. ``None`` uses the last layer only.
        smallest_start: Smallest initial scale of the factors in layers and readout, see :class:`~tgnn.CPAggregation`.
            Use 1 for molecules, whose atoms have few neighbors.
        **kwargs: Arguments of :class:`~tgnn.nn.TGNN`, such as ``residual``, ``ffn`` and ``update_edges``, and of
            :class:`~tgnn.nn.TGNNConv`, such as ``root_weight``.

    Shapes:
        - **input:** ``x`` ``[N, in_channels]``; ``edge_index`` ``[2, E]``; ``batch`` ``[N]``, the graph of each node
          (by default all nodes belong to one graph); ``edge_attr`` ``[E, edge_dim]``
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
        check_choice("readout", readout, ("sum", "mean", "cp", "sum+cp", "mean+cp"))
        check_size("hidden_channels", hidden_channels)
        check_size("out_channels", out_channels)
        check_size("head_layers", head_layers)
        check_choice("jk", jk, (None, "cat"))
        if rank == 0 and "cp" in readout:
            raise ValueError(f"readout is {readout!r}, but rank=0 removes all products; use readout='sum' or 'mean'.")
        self.in_channels, self.hidden_channels, self.out_channels = in_channels, hidden_channels, out_channels
        self.readout = readout
        self.encoder = make_encoder(in_channels, hidden_channels, "x")
        edge_channels = None if edge_dim is None else _edge_channels(edge_dim, hidden_channels)
        self.edge_encoder = None
        if edge_dim is not None and edge_channels is not None:
            self.edge_encoder = make_encoder(edge_dim, edge_channels, "edge_attr")
        self.gnn = TGNN(
            hidden_channels,
            hidden_channels,
            num_layers,
            rank=rank,
            dropout=dropout,
            norm=norm,
            jk=jk or "last",
            smallest_start=smallest_start,
            edge_dim=edge_channels,
            **kwargs,
        )
        del self.gnn.lin  # the head replaces it
        readouts = make_readouts(readout, hidden_channels, rank, scaled_readout, smallest_start)
        self.low_readout = next((r for r in readouts if not isinstance(r, CPAggregation)), None)
        self.cp_readout = next((r for r in readouts if isinstance(r, CPAggregation)), None)
        pooled_channels = len(readouts) * hidden_channels * (num_layers if jk == "cat" else 1)
        self.readout_norm = ReadoutNorm(pooled_channels) if readout_norm else None
        channels = [pooled_channels, *[hidden_channels] * (head_layers - 1), out_channels]
        self.head = MLP(channels, dropout=dropout, norm=None)

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
        """Compute the outputs of each graph. Note the order of arguments: ``batch`` precedes ``edge_attr``.

        Args:
            x: Node features.
            edge_index: Graph: ``edge_index``, ``EdgeIndex`` or ``adj_t``.
            batch: Graph index of each node. ``None`` means one graph.
            edge_attr: Edge features; required if ``edge_dim`` is given.
            edge_weight: Edge weights ``[E]``, see :class:`~tgnn.nn.TGNNConv`.
            batch_size: Number of graphs; by default the largest entry of ``batch`` plus 1.
        """
        if (edge_attr is None) != (self.edge_encoder is None):
            raise ValueError(
                f"edge_attr is {'not ' if edge_attr is None else ''}given, but the model was created "
                f"{'without' if self.edge_encoder is None else 'with'} edge_dim."
            )
        h = self.encoder(x)
        if batch is None:
            batch, batch_size = torch.zeros(h.size(0), dtype=torch.int64, device=h.device), 1
        _check_batch(batch, h.size(0))
        edges = None
        if edge_attr is not None and self.edge_encoder is not None:
            num_edges = as_edge_index(edge_index).size(1)
            if edge_attr.size(0) != num_edges:
                raise ValueError(f"edge_attr has {edge_attr.size(0)} rows, but the graph has {num_edges} edges.")
            edges = self.edge_encoder(edge_attr.unsqueeze(1) if edge_attr.dim() == 1 else edge_attr)
        h = self.gnn(h, edge_index, edge_weight, edges, batch, batch_size)
        layers = h.unflatten(1, (-1, self.hidden_channels))  # [N, layers that jk concatenates, hidden_channels]
        readouts = [r for r in (self.low_readout, self.cp_readout) if r is not None]
        pooled = concat_readouts(readouts, layers, batch, batch_size).flatten(1)
        out: Tensor = self.head(pooled if self.readout_norm is None else self.readout_norm(pooled))
        return out

    def __repr__(self) -> str:
        sizes = f"{self.in_channels}, {self.out_channels}, num_layers={self.gnn.num_layers}, rank={self.gnn.rank}"
        return f"{type(self).__name__}({sizes}, readout={self.readout!r})"


def _edge_channels(edge_dim: int | Sequence[int], hidden_channels: int) -> int:
    """Return the size of the encoded edge features.

    It is at most the number of categories, or the number of numeric features plus 1 for the bias. More channels would
    carry no information, and every layer maps the features of all edges.
    """
    if isinstance(edge_dim, (list, tuple)):
        return min(sum(edge_dim), hidden_channels)
    return min(edge_dim + 1, hidden_channels) if isinstance(edge_dim, int) and edge_dim > 0 else hidden_channels


def _check_batch(batch: Any, num_nodes: int) -> None:
    if not isinstance(batch, Tensor) or batch.dtype not in (torch.int64, torch.int32) or batch.dim() != 1:
        got = f"{batch.dtype} {list(batch.shape)}" if isinstance(batch, Tensor) else type(batch).__name__
        raise TypeError(f"batch must be an int64 tensor [N], the graph of each node, got {got}.")
    if batch.numel() != num_nodes:
        raise ValueError(f"batch has {batch.numel()} entries, but x has {num_nodes} rows.")
    if not torch.compiler.is_compiling() and num_nodes and int(batch.min()) < 0:
        raise ValueError(f"batch contains {int(batch.min())}, but graph indices must not be negative.")
