"""The layer of tGNN: a product branch and a sum branch."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.resolver import activation_resolver

from tgnn.nn.aggr.cp import Activation, CPAggregation
from tgnn.nn.checks import check_size, check_start
from tgnn.nn.init import SMALLEST_SCALE, log_spaced_normal_
from tgnn.nn.linear import FeatureLinear
from tgnn.nn.mixing import ScalarMix, make_mix
from tgnn.nn.neighborhood import Neighborhood, as_edge_index, neighborhood
from tgnn.nn.tempered import tempered_product
from tgnn.ops import neighbor_product
from tgnn.ops.dispatch import check_weight

_LOW = ("sum", "mean", "gcn", None)
_FACTORS = ("plain", "weighted", "tempered")


class _Messages(NamedTuple):
    """What a node tells all its neighbors alike: its factor and its summand, ``[N_src, R]`` and ``[N_src, d]``."""

    factor: Tensor | None
    summand: Tensor | None


class TGNNConv(MessagePassing):
    r"""The layer of tGNN, Eq. (cp_sum) of `"High-Order Pooling for Graph Neural Networks with Tensor Decomposition"
    <https://arxiv.org/abs/2205.11691>`_: a CP layer over the neighbors, and a linear sum beside it.

    .. math::
        x'_v = \sigma' \Big( M \tanh \Big( \prod_{u \in S(v)} W_1^\top
        \begin{bmatrix} x_u \\ 1 \end{bmatrix} \Big) \Big)
        + \sigma'' \Big( \sum_{u \in S(v)} W_2^\top x_u \Big), \qquad S(v) = \mathcal{N}(v) \cup \{ v \}

    Factors are computed once per node and multiplied by :func:`tgnn.ops.neighbor_product`: no matrix of messages, and
    no overflow at any degree. Where a weight or an explanation mask lowers a neighbor, its factor moves towards 1, the
    neutral element: with 0 it is as if the edge were not there.

    Args:
        in_channels: :math:`F`; ``-1``: taken from the first input; a pair for a bipartite graph whose two sides have
            features of their own kind.
        out_channels: :math:`d`.
        rank: :math:`R`; ``0``: no product branch (for ablations).
        mix: How the branches are joined: ``"sum"`` as above; ``"scalar"``, two learned weights with
            ``conv.mix.a_high + conv.mix.a_low = 1``; ``"node"``, such weights for each node.
        low_order: The sum branch: ``"sum"`` as above; ``"mean"``; ``"gcn"``, weighted by
            :math:`1 / \sqrt{d_u d_v}`; ``None``: no sum branch.
        edge_dim: Width of ``edge_attr``. Edge features, mapped linearly, are added to the neighbor's factor, and to
            the sum.
        add_self_loops: Whether :math:`v \in S(v)`. By default it is, but for a pair of ``in_channels``.
        root_weight: Whether to add :math:`W_3^\top x_v`, a channel for the node itself.
        factors: ``"plain"``: :math:`z_u = W_1^\top [x_u; 1]` as above; ``"weighted"``:
            :math:`1 + w_{uv} (z_u - 1)` with :math:`w_{uv} = 1 / \sqrt{d_u d_v}`; ``"tempered"``: the product becomes
            :math:`\operatorname{sign}(P) |P|^{1 / \sqrt{d_v}}`, where a factor nearer to 0 than 1e-6 counts as that.
            Both tame large degrees.
        act: :math:`\sigma` on the product; ``None``: the identity.
        act_high: :math:`\sigma'`. In the last layer of a network use ``None``, and for ``act_low`` too, so that
            outputs can be negative; :class:`~tgnn.nn.TGNN` does.
        act_low: :math:`\sigma''`.
        factor_act: An activation on each factor. The authors' research code has ``factor_act="tanh", act=None``.
        smallest_start: How near to 1 some factors start, as for :class:`~tgnn.nn.CPAggregation`; 1 for molecules.

    Shapes:
        - **input:** ``x`` ``[N, F]``, dense or sparse, or ``([N_src, F], [N_dst, F])``; ``edge_index`` ``[2, E]``, an
          ``EdgeIndex`` or a sparse ``adj_t``; ``edge_weight`` ``[E]`` in [0, 1]; ``edge_attr`` ``[E, edge_dim]``
        - **output:** ``[N, d]`` or ``[N_dst, d]``

    Example:
        >>> conv = TGNNConv(16, 32, rank=8)
        >>> conv(torch.randn(4, 16), torch.tensor([[0, 1, 2], [1, 2, 3]])).shape
        torch.Size([4, 32])
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        rank: int,
        *,
        mix: str = "sum",
        low_order: str | None = "sum",
        edge_dim: int | None = None,
        add_self_loops: bool | None = None,
        root_weight: bool = False,
        factors: str = "plain",
        act: Activation = "tanh",
        act_high: Activation = "relu",
        act_low: Activation = "relu",
        factor_act: Activation = None,
        smallest_start: float = SMALLEST_SCALE,
    ) -> None:
        super().__init__(aggr="sum", node_dim=0)
        if low_order not in _LOW:
            raise ValueError(f"low_order is {low_order!r}, but must be 'sum', 'mean', 'gcn' or None")
        if factors not in _FACTORS:
            raise ValueError(f"factors is {factors!r}, but must be 'plain', 'weighted' or 'tempered'")
        check_size("out_channels", out_channels)
        check_size("rank", rank, at_least=0 if low_order is not None else 1)
        if edge_dim is not None:
            check_size("edge_dim", edge_dim, lazy=True)
        check_start(smallest_start)
        if isinstance(in_channels, (tuple, list)) and len(in_channels) != 2:
            raise ValueError(f"in_channels is {in_channels}, but must be a number or a pair of numbers")
        pair = isinstance(in_channels, (tuple, list))
        if pair and add_self_loops:
            raise ValueError("add_self_loops=True does not go with a pair of in_channels; root_weight=True does")
        self.in_channels, self.out_channels, self.rank = in_channels, out_channels, rank
        self.low_order, self.factors, self.edge_dim = low_order, factors, edge_dim
        self.closed = not pair if add_self_loops is None else add_self_loops  # v is in S(v)
        source, own = in_channels if isinstance(in_channels, (tuple, list)) else (in_channels, in_channels)

        self.cp = self.lin_edge = None
        if rank > 0:
            self.cp = CPAggregation(
                source,
                out_channels,
                rank=rank,
                act=act,
                act_out=act_high,
                factor_act=factor_act,
                smallest_start=smallest_start,
            )
            if edge_dim is not None:
                start = partial(log_spaced_normal_, smallest=smallest_start)
                self.lin_edge = FeatureLinear(edge_dim, rank, initialize=start, what="edge_attr")
        self.lin_low = self.lin_edge_low = None
        if low_order is not None:
            self.lin_low = FeatureLinear(source, out_channels)
            if edge_dim is not None:
                self.lin_edge_low = FeatureLinear(edge_dim, out_channels, what="edge_attr")
        self.act_low = activation_resolver(act_low)
        self.mix = make_mix(mix, out_channels)
        self.lin_root = FeatureLinear(own, out_channels) if root_weight else None

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for module in (self.cp, self.lin_edge, self.lin_low, self.lin_edge_low, self.mix, self.lin_root):
            if module is not None:
                module.reset_parameters()

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor | None],
        edge_index: Any,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        size: tuple[int, int] | None = None,
    ) -> Tensor:
        """The layer; arguments and shapes as above. ``size`` is ``(N_src, N_dst)`` where ``x`` does not tell."""
        if edge_attr is None and self.edge_dim is not None and edge_weight is not None and edge_weight.dim() == 2:
            raise ValueError(f"edge_weight has shape {list(edge_weight.shape)}; did you mean edge_attr=...?")
        if (edge_attr is None) != (self.edge_dim is None):
            raise ValueError(
                f"edge_attr is {'not ' if edge_attr is None else ''}given, but edge_dim is {self.edge_dim}"
            )
        if self.explain:
            edge_weight = self._masked(edge_weight)
        own = x if isinstance(x, Tensor) else x[1]
        weighted = self.factors == "weighted" and self.rank > 0
        near = neighborhood(x, edge_index, edge_weight, _as_rows(edge_attr), size, self.closed, weighted)

        roots = near.inverse_roots(near.x.dtype) if self.needs_roots else None
        return self.hear(self.tell(near.x, None if roots is None else roots[0]), near, roots, own)

    @property
    def needs_roots(self) -> bool:
        """Whether something is divided by the roots of degrees."""
        return self.low_order == "gcn" or (self.factors == "weighted" and self.rank > 0)

    def tell(self, x: Tensor, out_of: Tensor | None) -> _Messages:
        """The half of the layer that is done once for every source.

        Args:
            x: Features of the sources.
            out_of: Their ``d ** -0.5``, if needed.
        """
        factor = None if self.cp is None else self.cp.factors(x)
        summand = None if self.lin_low is None else self.lin_low(x)
        if self.low_order == "gcn":
            assert summand is not None
            assert out_of is not None
            summand = summand * out_of.to(summand.dtype).unsqueeze(1)
        return _Messages(factor, summand)

    def hear(
        self, told: _Messages, near: Neighborhood, roots: tuple[Tensor, Tensor] | None, own: Tensor | None
    ) -> Tensor:
        """The half that is done for every destination.

        Args:
            told: By the sources.
            near: Which of them each destination hears.
            roots: ``d ** -0.5`` of sources and of destinations, if needed.
            own: Features of the destinations, if there is a weight for them.
        """
        low = None if told.summand is None else self._sum(told.summand, near, roots)
        if told.factor is None:
            assert low is not None
            out = low
        else:
            assert self.cp is not None
            high = self.cp.update(self._product(told.factor, near, roots))
            out = high if low is None else self.mix(high, low)
        if self.lin_root is not None:
            if own is None:
                raise ValueError("root_weight=True needs the features of the node itself, but x_dst is None")
            out = out + self.lin_root(own)
        return out

    def _product(self, z: Tensor, near: Neighborhood, roots: tuple[Tensor, Tensor] | None) -> Tensor:
        """The product over S(v), tanh applied where that is fused."""
        assert self.cp is not None
        addend = None if self.lin_edge is None else near.of_all_edges(self.lin_edge(near.edge_attr))
        if self.factors != "plain" and not torch.compiler.is_compiling():
            check_weight(near.weight)  # the operator sees only what becomes of it
        if self.factors == "tempered":
            product = tempered_product(z, near, addend)
            return torch.tanh(product) if self.cp.fuses_tanh else product
        weight = near.weight
        if self.factors == "weighted":
            assert roots is not None
            weight = _gcn_weight(near, roots, z.dtype)
        return neighbor_product(
            z,
            near.graph,
            activation="tanh" if self.cp.fuses_tanh else None,
            size=near.size,
            edge_addend=addend,
            edge_weight=weight,
            self_loops=near.self_loops,
        )

    def _sum(self, summand: Tensor, near: Neighborhood, roots: tuple[Tensor, Tensor] | None) -> Tensor:
        """The linear branch: a sum over S(v), divided afterwards where that is asked for."""
        into = None
        if self.low_order == "gcn":
            assert roots is not None
            into = roots[1]
        elif self.low_order == "mean":
            degree = near.degrees().to(torch.promote_types(summand.dtype, torch.float32))
            into = torch.where(degree > 0, 1 / degree.clamp(min=torch.finfo(degree.dtype).tiny), 0)
        out = near.sum(summand)
        if self.lin_edge_low is not None:
            out = out + self.lin_edge_low(_sum_of_edges(near))
        if into is not None:
            out = out * into.to(out.dtype).unsqueeze(1)
        return out if self.act_low is None else self.act_low(out)

    def _masked(self, weight: Tensor | None) -> Tensor:
        """The weights under the mask of a PyG explainer: a masked neighbor is a factor of 1 and a summand of 0."""
        mask: Tensor = self._edge_mask
        mask = mask.sigmoid() if self._apply_sigmoid else mask
        return mask if weight is None else weight * mask

    @property
    def a_high(self) -> Tensor:
        """Weight of the product branch; only with ``mix="scalar"``."""
        return self._scalar_mix().a_high

    @property
    def a_low(self) -> Tensor:
        """Weight of the sum branch; only with ``mix="scalar"``."""
        return self._scalar_mix().a_low

    def _scalar_mix(self) -> ScalarMix:
        if not isinstance(self.mix, ScalarMix):
            raise AttributeError("a_high and a_low are two numbers only in a layer with mix='scalar'")
        return self.mix

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, rank={self.rank})"


def _as_rows(edge_attr: Tensor | None) -> Tensor | None:
    return edge_attr.unsqueeze(1) if edge_attr is not None and edge_attr.dim() == 1 else edge_attr


def _gcn_weight(near: Neighborhood, roots: tuple[Tensor, Tensor], dtype: torch.dtype) -> Tensor:
    """``w_uv / sqrt(d_u d_v)`` of every edge, but at most 1 (which it can exceed where weights are small)."""
    out_of, into = (root.to(dtype) for root in roots)
    src, dst = as_edge_index(near.graph)
    weight = out_of[src] * into[dst]
    return (weight if near.weight is None else weight * near.weight.to(dtype)).clamp(max=1)


def _sum_of_edges(near: Neighborhood) -> Tensor:
    """The edge features summed over the edges into each node: before the linear map, so with few columns."""
    attr = near.edge_attr
    assert attr is not None
    attr = attr if near.weight is None else attr * near.weight[: attr.size(0)].to(attr.dtype).unsqueeze(1)
    return attr.new_zeros(near.size[1], attr.size(1)).index_add(0, as_edge_index(near.graph)[1, : attr.size(0)], attr)
