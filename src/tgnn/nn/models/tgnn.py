"""TGNN: the Tensorized Graph Neural Network for node tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch_geometric.nn.models.basic_gnn import BasicGNN

from tgnn.nn.block import TGNNBlock
from tgnn.nn.conv import TGNNConv
from tgnn.nn.feature_maps import FeatureDropout, check_choice, check_size


class TGNN(BasicGNN):
    r"""The Tensorized Graph Neural Network: a stack of :class:`~tgnn.nn.TGNNConv` layers, Eq. (5) of the paper.

    It is a PyG ``BasicGNN``, with ``jk``, ``norm``, trimming and layer-wise ``inference``. In the last layer
    :math:`\sigma'` and :math:`\sigma''` are the identity, so that outputs can be negative. In all other layers, and in
    the last layer with ``jk``, they are ``act``. With default arguments the model has as many parameters as in the
    efficiency table of the paper: 58,128 on Cora with 2 layers, 32 hidden channels and rank 8.

    .. math::
        H^{(0)} = X, \qquad H^{(l+1)} = \operatorname{TGNNConv}^{(l)}(H^{(l)})

    With ``residual``, ``ffn`` or ``update_edges``, the network is a stack of :class:`~tgnn.nn.TGNNBlock` with
    ``hidden_channels`` outputs each, and a linear layer computes the outputs (``jk="last"`` unless ``jk`` is given).

    Args:
        in_channels: Number of input features. ``-1`` infers it from the first input.
        hidden_channels: Size of the hidden node embeddings.
        num_layers: Number of layers.
        out_channels: Number of output features; by default ``hidden_channels``.
        rank: CP rank of every layer, by default 32. ``0`` removes the product branch.
        dropout: Dropout probability between layers, by default 0.
        input_dropout: Dropout probability of the input, by default 0. In a sparse input it applies to stored entries.
        act: Activations :math:`\sigma'` and :math:`\sigma''`, and the activation after a normalization. In blocks,
            :math:`\sigma'` and :math:`\sigma''` are the identity.
        norm: Normalization after each hidden layer, such as ``"batch_norm"``, followed by ``act``; by default none.
        norm_kwargs: Arguments of the normalization.
        jk: Jumping knowledge: ``None``, ``"last"``, ``"cat"``, ``"max"`` or ``"lstm"``.
        residual: Whether each layer has a residual connection, see :class:`~tgnn.nn.TGNNBlock`.
        ffn: Whether each layer is followed by a feed-forward sublayer.
        update_edges: Whether each layer except the last one updates an edge state, which is initialized with
            ``edge_attr``. Requires ``low_order="gated_sum"`` or ``"gated_mean"``.
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
        >>> TGNN(16, 32, 4, 7, rank=8, residual=True, ffn=True, norm="batch_norm", low_order="gated_sum").convs[0]
        TGNNBlock(TGNNConv(16, 32, rank=8), residual=True, ffn=True, update_edges=False)
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
        *,
        residual: bool = False,
        ffn: bool = False,
        update_edges: bool = False,
        **kwargs: Any,
    ) -> None:
        check_size("hidden_channels", hidden_channels)
        check_size("num_layers", num_layers)
        check_choice("jk", jk, (None, "last", "cat", "max", "lstm"))
        self.rank = rank
        self.residual, self.ffn, self.update_edges = residual, ffn, update_edges
        self.has_blocks = residual or ffn or update_edges
        if self.has_blocks:  # the blocks apply normalization, activation and dropout
            kwargs |= {"norm": norm, "norm_kwargs": norm_kwargs, "dropout": dropout}
            norm = norm_kwargs = None
            jk = jk or "last"
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            0.0 if self.has_blocks else dropout,
            act=act if norm is not None else None,  # without a normalization, the layers apply the activation
            norm=norm,
            norm_kwargs=norm_kwargs,
            jk=jk,
            conv_kwargs={**kwargs, "rank": rank},
            conv_act=act,
        )
        self.dropout = FeatureDropout(0.0 if self.has_blocks else dropout)
        self.input_dropout = FeatureDropout(input_dropout)

    def init_conv(
        self, in_channels: int | tuple[int, int], out_channels: int, conv_act: Any, conv_kwargs: dict[str, Any]
    ) -> TGNNConv | TGNNBlock:
        is_first, is_last = not len(self.convs), len(self.convs) == self.num_layers - 1
        if self.has_blocks:
            options = {"residual": self.residual, "ffn": self.ffn, "act": conv_act, **conv_kwargs}
            if self.update_edges and not is_first:
                options["edge_dim"] = out_channels
            return TGNNBlock(in_channels, out_channels, update_edges=self.update_edges and not is_last, **options)
        options = {"act_high": conv_act, "act_low": conv_act, **conv_kwargs}
        if is_last and self.jk_mode is None:
            options |= {"act_high": None, "act_low": None}
        return TGNNConv(in_channels, out_channels, **options)

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
        if self.has_blocks:
            return self._forward_blocks(x, edge_index, edge_weight, edge_attr, batch, batch_size)
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

    def _forward_blocks(
        self,
        x: Any,
        edge_index: Any,
        edge_weight: Tensor | None,
        edge_attr: Tensor | None,
        batch: Tensor | None,
        batch_size: int | None,
    ) -> Tensor:
        """Apply the blocks. Sampled neighborhoods are not trimmed, which does not change the outputs of the seeds."""
        xs = []
        for block in self.convs:
            out = block(x, edge_index, edge_weight, edge_attr, batch, batch_size)
            x, edge_attr = out if block.update_edges else (out, edge_attr)
            xs.append(x)
        out = self.jk(xs) if hasattr(self, "jk") else x
        out = self.lin(out) if hasattr(self, "lin") else out
        assert isinstance(out, Tensor)
        return out

    @torch.no_grad()
    def inference_per_layer(self, layer: int, x: Tensor, edge_index: Any, batch_size: int) -> Tensor:
        if self.update_edges:
            raise ValueError("update_edges=True does not support layer-wise inference, which stores no edge states.")
        out: Tensor = super().inference_per_layer(layer, x, edge_index, batch_size)
        return out

    def __repr__(self) -> str:
        sizes = f"{self.in_channels}, {self.out_channels}, num_layers={self.num_layers}, rank={self.rank}"
        return f"{type(self).__name__}({sizes})"
