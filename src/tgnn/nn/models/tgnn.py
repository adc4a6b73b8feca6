"""TGNN: the Tensorized Graph Neural Network for node tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch import Tensor
from torch_geometric.nn.models.basic_gnn import BasicGNN

from tgnn.nn.conv import TGNNConv
from tgnn.nn.feature_maps import FeatureDropout, check_size

_JK = (None, "last", "cat", "max", "lstm")


class TGNN(BasicGNN):
    r"""The Tensorized Graph Neural Network: a stack of :class:`~tgnn.nn.TGNNConv` layers, Eq. (5) of the paper.

    It is a PyG ``BasicGNN``, with ``jk``, ``norm``, trimming and layer-wise ``inference``. In the last layer
    :math:`\sigma'` and :math:`\sigma''` are the identity, so that outputs can be negative. In all other layers they are
    ``act``. With default arguments the model has as many parameters as in the efficiency table of the paper: 58,128 on
    Cora with 2 layers, 32 hidden channels and rank 8.

    Args:
        in_channels: Number of input features. ``-1`` infers it from the first input.
        hidden_channels: Size of the hidden node embeddings.
        num_layers: Number of layers.
        out_channels: Number of output features; by default ``hidden_channels``.
        rank: CP rank of every layer.
        dropout: Dropout probability between layers.
        input_dropout: Dropout probability of the input. In a sparse input it applies to stored entries.
        act: Activations :math:`\sigma'` and :math:`\sigma''`, and the activation after a normalization.
        norm: Normalization after each hidden layer, such as ``"batch_norm"``, followed by ``act``; by default none.
        norm_kwargs: Arguments of the normalization.
        jk: Jumping knowledge: ``None``, ``"last"``, ``"cat"``, ``"max"`` or ``"lstm"``.
        **kwargs: Arguments of :class:`~tgnn.nn.TGNNConv`.

    Shapes:
        - **input:** ``x`` ``[N, in_channels]``, dense or sparse; all other inputs as in ``TGNNConv``
        - **output:** ``[N, out_channels]``

    Example:
        >>> import torch
        >>> model = TGNN(1433, 32, num_layers=2, out_channels=7, rank=8)
        >>> sum(p.numel() for p in model.parameters())
        58128
        >>> model(torch.randn(4, 1433), torch.tensor([[0, 1, 2], [1, 2, 3]])).shape
        torch.Size([4, 7])
    """

    supports_edge_weight: Final[bool] = True
    supports_edge_attr: Final[bool] = True

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        rank: int = 32,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        norm: str | Callable[..., Any] | None = None,
        norm_kwargs: dict[str, Any] | None = None,
        jk: str | None = None,
        **kwargs: Any,
    ) -> None:
        check_size("hidden_channels", hidden_channels)
        check_size("num_layers", num_layers)
        if jk not in _JK:
            raise ValueError(f"jk is {jk!r}, but must be None, 'last', 'cat', 'max' or 'lstm'.")
        self.rank = rank
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            dropout,
            act=act if norm is not None else None,  # without a normalization, the layers apply the activation
            norm=norm,
            norm_kwargs=norm_kwargs,
            jk=jk,
            rank=rank,
            conv_act=act,
            **kwargs,
        )
        self.dropout = FeatureDropout(dropout)
        self.input_dropout = FeatureDropout(input_dropout)

    def init_conv(self, in_channels: int | tuple[int, int], out_channels: int, **kwargs: Any) -> TGNNConv:
        act = kwargs.pop("conv_act")
        is_last = len(self.convs) == self.num_layers - 1 and self.jk_mode is None
        kwargs = {"act_high": act, "act_low": act} | kwargs | ({"act_high": None, "act_low": None} if is_last else {})
        return TGNNConv(in_channels, out_channels, **kwargs)

    def forward(
        self,
        x: Any,
        edge_index: Any,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        num_sampled_nodes_per_hop: list[int] | None = None,
        num_sampled_edges_per_hop: list[int] | None = None,
    ) -> Tensor:
        if isinstance(x, tuple):
            x = tuple(None if part is None else self.input_dropout(part) for part in x)
        else:
            x = self.input_dropout(x)
        out: Tensor = super().forward(
            x,
            edge_index,
            edge_weight,
            edge_attr,
            batch,
            batch_size,
            num_sampled_nodes_per_hop,
            num_sampled_edges_per_hop,
        )
        return out

    def __repr__(self) -> str:
        sizes = f"{self.in_channels}, {self.out_channels}, num_layers={self.num_layers}, rank={self.rank}"
        return f"{type(self).__name__}({sizes})"
