"""TGNNBlock: a TGNNConv layer with normalization, a residual connection and a feed-forward sublayer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset
from torch_geometric.nn.norm import BatchNorm
from torch_geometric.nn.resolver import activation_resolver, normalization_resolver

from tgnn.nn.conv import TGNNConv
from tgnn.nn.feature_maps import FeatureDropout, FeatureLinear

Norm = str | Callable[..., Any] | None


class TGNNBlock(torch.nn.Module):
    r"""A block of a deep tGNN: :class:`~tgnn.nn.TGNNConv` with a residual connection, then a feed-forward sublayer.

    .. math::
        h_v &= x_v + \sigma\big(\operatorname{norm}(\operatorname{TGNNConv}(x, e)_v)\big) \\
        x'_v &= \operatorname{norm}\big(h_v + W_b \, \sigma(W_a h_v)\big), \qquad W_a \in \mathbb{R}^{2d \times d},
        \; W_b \in \mathbb{R}^{d \times 2d} \\
        e'_{uv} &= e_{uv} + \sigma\big(\operatorname{BN}(A x_v + B x_u + C e_{uv})\big)

    Dropout follows every activation and :math:`W_b`. With ``update_edges=True``, the edge state :math:`e` is updated as
    in GatedGCN. If the numbers of input and output features differ, the residual connection of the nodes is a linear
    map, and the edges have none.

    Args:
        in_channels: Number of input features, see :class:`~tgnn.nn.TGNNConv`.
        out_channels: Number of output features :math:`d`.
        rank: CP rank of the layer. ``0`` removes the product branch.
        residual: Whether to add the input :math:`x_v`.
        ffn: Whether to apply the feed-forward sublayer, the second equation.
        update_edges: Whether to also return an updated edge state, the third equation. Requires
            ``low_order="gated_sum"`` or ``"gated_mean"``.
        dropout: Dropout probability.
        act: Activation :math:`\sigma`.
        norm: Normalization, such as ``"batch_norm"``. ``None`` means no normalization. With ``high_scale``, the layer
            normalizes each branch, so ``norm`` is not applied to its output.
        norm_kwargs: Arguments of the normalization.
        **kwargs: Arguments of :class:`~tgnn.nn.TGNNConv`.

    Shapes:
        - **input:** as in :class:`~tgnn.nn.TGNNConv`
        - **output:** ``[N, d]``, and with ``update_edges=True`` also ``[E, d]``

    Example:
        >>> block = TGNNBlock(16, 16, rank=8, low_order="gated_sum", edge_dim=16, update_edges=True)
        >>> x, edge_index, e = torch.randn(4, 16), torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.randn(3, 16)
        >>> x, e = block(x, edge_index, edge_attr=e)
        >>> x.shape, e.shape
        (torch.Size([4, 16]), torch.Size([3, 16]))
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        rank: int,
        *,
        residual: bool = True,
        ffn: bool = True,
        update_edges: bool = False,
        dropout: float = 0.0,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        norm: Norm = "batch_norm",
        norm_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.conv = TGNNConv(in_channels, out_channels, rank, **kwargs)
        if update_edges and self.conv.gate is None:
            raise ValueError(
                f"update_edges=True needs low_order='gated_sum' or 'gated_mean', got {self.conv.low_order!r}."
            )
        self.residual, self.ffn, self.update_edges = residual, ffn, update_edges
        in_dst = in_channels if isinstance(in_channels, int) else in_channels[1]
        self.lin_residual = FeatureLinear(in_dst, out_channels) if residual and in_dst != out_channels else None
        self.act = activation_resolver(act) or torch.nn.Identity()
        self.dropout = FeatureDropout(dropout)
        self.norm = _make_norm(norm if self.conv.high_scale is None else None, out_channels, norm_kwargs)
        self.lin_a = self.lin_b = self.norm_ffn = self.norm_edge = None
        if ffn:
            self.lin_a = torch.nn.Linear(out_channels, 2 * out_channels)
            self.lin_b = torch.nn.Linear(2 * out_channels, out_channels)
            self.norm_ffn = _make_norm(norm, out_channels, norm_kwargs)
        self.supports_norm_batch = _takes_batch(self.norm) or _takes_batch(self.norm_ffn)
        if update_edges:
            has_norm = norm is not None  # a batch may have one edge or none
            self.norm_edge = BatchNorm(out_channels, allow_single_element=True) if has_norm else torch.nn.Identity()

    def reset_parameters(self) -> None:
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor | None],
        edge_index: Any,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Any:
        """Compute the new node embeddings and, with ``update_edges=True``, the new edge state.

        Args:
            x: Node features, or a pair of source and destination features.
            edge_index: Graph: ``edge_index``, ``EdgeIndex`` or ``adj_t``.
            edge_weight: Edge weights in [0, 1].
            edge_attr: Edge state or edge features. Required if ``edge_dim`` is given.
            batch: Graph index of each node, for normalizations that are computed per graph.
            batch_size: Number of graphs.
        """
        x_dst = x if isinstance(x, Tensor) else x[1]
        if not self.update_edges:
            return self.update(self.conv(x, edge_index, edge_weight, edge_attr), x_dst, batch, batch_size)
        out, state = self.conv(x, edge_index, edge_weight, edge_attr, return_edge_state=True)
        assert self.norm_edge is not None
        state = self.dropout(self.act(self.norm_edge(state)))
        if self.residual and edge_attr is not None and edge_attr.shape == state.shape:
            state = edge_attr + state
        return self.update(out, x_dst, batch, batch_size), state

    def update(
        self, out: Tensor, x_dst: Tensor | None, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        """Apply normalization, activation, residual connection and feed-forward sublayer to the output of ``conv``."""
        h: Tensor = self.dropout(self.act(self._normalize(self.norm, out, batch, batch_size)))
        if self.residual:
            assert x_dst is not None
            h = h + (x_dst if self.lin_residual is None else self.lin_residual(x_dst))
        if self.lin_a is None or self.lin_b is None or self.norm_ffn is None:
            return h
        hidden = self.dropout(self.act(self.lin_a(h)))
        return self._normalize(self.norm_ffn, h + self.dropout(self.lin_b(hidden)), batch, batch_size)

    def _normalize(self, norm: torch.nn.Module, x: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
        takes_batch = self.supports_norm_batch and not isinstance(norm, torch.nn.Identity)
        out: Tensor = norm(x, batch, batch_size) if takes_batch else norm(x)
        return out

    def __repr__(self) -> str:
        parts = f"residual={self.residual}, ffn={self.ffn}, update_edges={self.update_edges}"
        return f"{type(self).__name__}({self.conv}, {parts})"


def _make_norm(norm: Norm, channels: int, kwargs: dict[str, Any] | None) -> torch.nn.Module:
    made: torch.nn.Module | None = normalization_resolver(norm, channels, **(kwargs or {}))
    return torch.nn.Identity() if made is None else made


def _takes_batch(norm: torch.nn.Module | None) -> bool:
    return norm is not None and "batch" in inspect.signature(norm.forward).parameters
