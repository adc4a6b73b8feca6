"""TGNNConv: the layer of tGNN, with a product branch and a sum branch."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from tgnn.nn.aggr.cp import Activation, CPAggregation
from tgnn.nn.conv.option_checks import check_branches, check_factors, check_rows_of_edges
from tgnn.nn.feature_maps import FeatureLinear
from tgnn.nn.gate import EdgeGate
from tgnn.nn.init import SMALLEST_SCALE, check_start_scales, log_spaced_normal_
from tgnn.nn.mixing import ScalarMix, ScaledBatchNorm, make_mix
from tgnn.nn.neighborhood import FillValue, Messages, Neighborhood, as_edge_index, make_neighborhood, weighted_power
from tgnn.ops import exclusive_product, neighbor_product
from tgnn.ops.edge_operators import check_edge_weight


class TGNNConv(MessagePassing):
    r"""The tGNN layer from the `"High-Order Pooling for Graph Neural Networks with Tensor Decomposition"
    <https://arxiv.org/abs/2205.11691>`_ paper, Eq. (5): a CP layer plus a linear sum over the neighborhood.

    .. math::
        x'_v = \sigma' \Big( M \tanh \Big( \prod_{u \in S(v)} W_1^\top
        \begin{bmatrix} x_u \\ 1 \end{bmatrix} \Big) \Big)
        + \sigma'' \Big( \sum_{u \in S(v)} W_2^\top x_u \Big), \qquad S(v) = \mathcal{N}(v) \cup \{ v \}

    The CP factors :math:`W_1^\top [x_u; 1]` are computed once per node and multiplied by
    :func:`tgnn.ops.neighbor_product`. It never materializes the messages and does not overflow at any degree. An edge
    weight or an explanation mask :math:`w` moves a factor toward 1, the neutral element of the product. With
    :math:`w = 0` the edge has no effect.

    The default arguments give Eq. (5) with linear outputs: :math:`\sigma'` and :math:`\sigma''` are the identity, and a
    network applies its activation between layers. Deep networks can use a gated sum branch, bounded factors and a
    normalization of each branch (:class:`~tgnn.nn.TGNNBlock`). With ``low_order="gated_sum"``, ``factors="bounded"``
    and ``high_scale=0.01``, the layer computes:

    .. math::
        x'_v = \operatorname{BN}\Big( \sum_{u \in S(v)} \eta_{uv} \odot W_2^\top x_u \Big)
        + s \odot \operatorname{BN}\Big( M \tanh \prod_{u \in S(v)} \big(1 + a \tanh z_{uv}\big)^{d_v^{-p}} \Big),
        \qquad \eta_{uv} = \sigma(A x_v + B x_u + C e_{uv})

    Here :math:`z_{uv}` is :math:`z_u = W_1^\top [x_u; 1]` plus the terms of ``two_ended`` and ``edge_dim``.

    Args:
        in_channels: Number of input features :math:`F`. ``-1`` infers it from the first input. A pair gives the
            features of sources and destinations of a bipartite graph.
        out_channels: Number of output features :math:`d`.
        rank: CP rank :math:`R`. ``0`` removes the product branch.
        mix: How the two branches are combined. ``"sum"`` adds them, as above. ``"scalar"`` learns two weights
            ``conv.a_high`` and ``conv.a_low`` that sum to 1. ``"node"`` computes two such weights for each node.
        low_order: Aggregation of the sum branch. ``"sum"`` as above, ``"mean"``, or ``"gcn"`` with the weights
            :math:`1 / \sqrt{d_u d_v}`. ``"gated_sum"`` weights each channel of a neighbor by :math:`\eta_{uv}` as
            above, and ``"gated_mean"`` divides this sum by :math:`\sum_u \eta_{uv}` (GatedGCN). ``None`` removes the
            sum branch.
        edge_dim: Number of edge features. A linear map of them is added to the factor of the neighbor and to the sum.
            In a gated sum, it is added to the argument of the gate. Default: no edge features.
        add_self_loops: Whether :math:`S(v)` contains :math:`v`. ``None`` means yes, except for a pair of
            ``in_channels`` and with ``exclusive``. The attribute ``uses_self_loops`` holds the result.
        root_weight: Whether to add :math:`W_3^\top x_v`, a linear map of the root node, to the output, or with
            ``high_scale`` to the sum branch before its normalization.
        factors: Factors of the product. ``"plain"`` uses :math:`z_u = W_1^\top [x_u; 1]`, as above. ``"weighted"`` uses
            :math:`1 + w_{uv} (z_u - 1)` with :math:`w_{uv} = 1 / \sqrt{d_u d_v}`. ``"tempered"`` replaces the product
            by :math:`\operatorname{sign}(P) |P|^{1 / \sqrt{d_v}}`. ``"bounded"`` uses the positive factors
            :math:`1 + a \tanh z_u`, with the bias of :math:`z_u` initialized to 0, and raises the product to the power
            :math:`d_v^{-p}`. The last three options reduce the effect of large degrees.
        bound: :math:`a` of ``factors="bounded"``, above 0 and below 1.
        degree_exponent: :math:`p` of ``factors="bounded"``, from 0 to 1. The degree :math:`d_v` is the sum of the edge
            weights (of the other edges, if ``exclusive``), or 1 if the sum is smaller.
        two_ended: Whether factors depend on both ends of an edge: :math:`z_u + W_4^\top x_v` replaces :math:`z_u`.
        high_scale: If given, each branch has its own batch normalization. The learned scale :math:`s` of the product
            branch, one number per channel, starts at this value, for example 0.01. ``None`` means no normalization.
        act: Activation :math:`\sigma` of the product, by default tanh. ``None`` is the identity.
        act_high: Activation :math:`\sigma'` of the product branch, by default none, as in PyG's layers.
            :class:`~tgnn.nn.TGNN` uses ReLU for ``act_high`` and ``act_low`` in all layers but the last.
        act_low: Activation :math:`\sigma''` of the sum branch, by default none.
        factor_act: Activation of each factor before the product, by default none. It is applied after the terms of
            ``edge_dim`` and ``two_ended`` are added. With these terms, only ``"tanh"`` and ``"sigmoid"`` are supported.
            The research code of the authors uses ``factor_act="tanh", act=None``.
        affine: Initial values of a learned scale and shift of the factors, see :class:`~tgnn.nn.CPAggregation`.
        edge_gate: Whether each edge has a gate :math:`w_{uv} = \sigma(C' e_{uv} + c)` per column. A gate moves a factor
            toward 1, as an edge weight does. Requires ``edge_dim``.
        exclusive: Whether to compute, for each edge, the product over the *other* edges into the same destination. The
            output has one row per edge. Requires ``low_order=None`` and no self-loops.
        fill_value: Edge features of self-loops, as in PyG's ``GATConv``: a number, a vector, or how to reduce the
            features of the node's in-edges, for example ``"mean"``. Default: none, with term 0 and gate 1.
        bias_init: Initial bias of the factors, by default 0 for bounded factors and 1 for others. Use 0 for factors of
            both signs, for example in parity checks.
        smallest_start: Smallest initial scale of the factors, see :class:`~tgnn.nn.CPAggregation`. Use 1 for molecules.
        high_start: Initial scale of :math:`M`, above 0 and at most 1. With 0.1, training starts near the sum branch.

    Shapes:
        - **input:** ``x`` ``[N, F]``, dense or sparse, or ``([N_src, F], [N_dst, F])``; ``edge_index`` ``[2, E]``, an
          ``EdgeIndex`` or a sparse ``adj_t``; ``edge_weight`` ``[E]`` in [0, 1]; ``edge_attr`` ``[E, edge_dim]``
        - **output:** ``[N, d]`` or ``[N_dst, d]``, or ``[E, d]`` if ``exclusive``; with ``return_edge_state=True`` also
          ``[E, d]``

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
        bound: float = 0.9,
        degree_exponent: float = 0.0,
        two_ended: bool = False,
        high_scale: float | None = None,
        act: Activation = "tanh",
        act_high: Activation = None,
        act_low: Activation = None,
        factor_act: Activation = None,
        affine: tuple[float, float] | None = None,
        edge_gate: bool = False,
        exclusive: bool = False,
        fill_value: FillValue = None,
        bias_init: float | None = None,
        smallest_start: float = SMALLEST_SCALE,
        high_start: float = 1.0,
    ) -> None:
        super().__init__(aggr="sum", node_dim=0)
        check_start_scales(smallest_start=smallest_start, high_start=high_start)
        check_branches(in_channels, out_channels, rank, low_order, add_self_loops, high_scale)
        check_factors(factors, bound, degree_exponent, edge_dim, two_ended, factor_act, affine, edge_gate)
        check_rows_of_edges(low_order, add_self_loops, exclusive, edge_dim, fill_value)
        is_pair = isinstance(in_channels, (tuple, list))
        self._has_edge_terms = edge_dim is not None or two_ended
        self.in_channels, self.out_channels, self.rank = in_channels, out_channels, rank
        self.low_order, self.edge_dim = low_order, edge_dim
        self.add_self_loops = add_self_loops  # not resolved: PyG's HeteroConv rejects True for bipartite edge types
        self.uses_self_loops = not is_pair and not exclusive if add_self_loops is None else add_self_loops
        self.exclusive, self.fill_value, self.root_weight = exclusive, fill_value, root_weight
        self.factors, self.bound, self.degree_exponent = factors, bound, degree_exponent
        self.two_ended, self.high_scale = two_ended, high_scale
        self.smallest_start, self.high_start = smallest_start, high_start
        in_src, in_dst = in_channels if isinstance(in_channels, (tuple, list)) else (in_channels, in_channels)

        self.cp = self.lin_edge = self.lin_dst = self.lin_gate = None
        self._factor_activation = factor_act if self._has_edge_terms and isinstance(factor_act, str) else None
        if rank > 0:
            self.cp = CPAggregation(
                in_src,
                out_channels,
                rank=rank,
                act=act,
                act_out=act_high,
                factor_act=factor_act,
                affine=affine,
                bias_init=bias_init if bias_init is not None else 0.0 if factors == "bounded" else 1.0,
                smallest_start=smallest_start,
            )
            self.cp.start_with(high_start)
            if factors == "bounded":  # draws the weights again, as the layers of stored results did
                self.cp.lin.reset_parameters()
            if edge_gate:  # the gates start almost open
                self.lin_gate = FeatureLinear(edge_dim or 0, rank, bias=True, initial_bias=2.0, input_name="edge_attr")
            initialize = partial(log_spaced_normal_, smallest=smallest_start)
            if edge_dim is not None:
                self.lin_edge = FeatureLinear(edge_dim, rank, initialize=initialize, input_name="edge_attr")
            if two_ended:
                self.lin_dst = FeatureLinear(in_dst, rank, initialize=initialize)
        self.lin_low = self.lin_edge_low = self.gate = None
        if low_order is not None:
            self.lin_low = FeatureLinear(in_src, out_channels)
            if low_order in ("gated_sum", "gated_mean"):
                self.gate = EdgeGate(in_src, in_dst, out_channels, edge_dim)
            elif edge_dim is not None:
                self.lin_edge_low = FeatureLinear(edge_dim, out_channels, input_name="edge_attr")
        self.act_low = activation_resolver(act_low)
        has_linear = low_order is not None or root_weight
        self.norm_low = ScaledBatchNorm(out_channels, 1.0) if high_scale is not None and has_linear else None
        self.norm_high = None if high_scale is None or rank == 0 else ScaledBatchNorm(out_channels, high_scale)
        self.mix = make_mix(mix, out_channels)
        self.lin_root = FeatureLinear(in_dst, out_channels) if root_weight else None

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor | None],
        edge_index: Any,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        size: tuple[int, int] | None = None,
        return_edge_state: bool = False,
    ) -> Any:
        """Compute Eq. (5).

        Args:
            x: Node features, or a pair of source and destination features.
            edge_index: Graph: ``edge_index``, ``EdgeIndex`` or ``adj_t``.
            edge_weight: Edge weights in [0, 1].
            edge_attr: Edge features; required if ``edge_dim`` is given.
            size: ``(N_src, N_dst)``, if ``x`` does not determine it.
            return_edge_state: Whether to also return ``A x_v + B x_u + C e_uv``, ``[E, d]``, the argument of the gate
                of each edge. Requires a gated sum branch.
        """
        if return_edge_state and self.gate is None:
            raise ValueError(f"return_edge_state=True needs a gated low_order, but low_order is {self.low_order!r}.")
        if edge_attr is None and self.edge_dim is not None and edge_weight is not None and edge_weight.dim() == 2:
            raise ValueError(f"edge_weight has shape {list(edge_weight.shape)}; did you mean edge_attr=...?")
        if (edge_attr is None) != (self.edge_dim is None):
            raise ValueError(
                f"edge_attr is {'not ' if edge_attr is None else ''}given, but edge_dim is {self.edge_dim}."
            )
        if self.explain:
            edge_weight = self._apply_mask(edge_weight)
        x_dst = x if isinstance(x, Tensor) else x[1]
        has_edge_map = self._has_edge_terms and self.cp is not None and self.cp.affine is not None
        loops_as_edges = self.gate is not None or has_edge_map or (self.factors == "weighted" and self.rank > 0)
        neighborhood = make_neighborhood(
            x, edge_index, edge_weight, edge_attr, size, self.uses_self_loops, loops_as_edges, self.fill_value
        )
        deg_inv_sqrt = neighborhood.deg_inv_sqrt(neighborhood.x.dtype) if self._uses_degrees else None
        messages = self._transform(neighborhood.x, None if deg_inv_sqrt is None else deg_inv_sqrt[0])
        out, edge_state = self._aggregate(messages, neighborhood, deg_inv_sqrt, x_dst, return_edge_state)
        if edge_state is None:
            return out
        num_edges = as_edge_index(edge_index).size(1)
        # Drop the self-loops added at the end. The backward pass of a slice copies its gradient.
        return out, edge_state if edge_state.size(0) == num_edges else edge_state[:num_edges]

    @property
    def _uses_degrees(self) -> bool:
        """Whether messages are divided by square roots of degrees."""
        return self.low_order == "gcn" or (self.factors == "weighted" and self.rank > 0)

    def _transform(self, x: Tensor, deg_inv_sqrt: Tensor | None) -> Messages:
        """Compute the CP factors, summands and terms of the gates of each source, given its ``deg ** -0.5``."""
        factors = None
        if self.cp is not None:
            factors = self.cp.linear_factors(x) if self._has_edge_terms else self.cp.factors(x)
        summands = None if self.lin_low is None else self.lin_low(x)
        if self.low_order == "gcn":
            assert summands is not None
            assert deg_inv_sqrt is not None
            summands = summands * deg_inv_sqrt.to(summands.dtype).unsqueeze(1)
        return Messages(factors, summands, None if self.gate is None else self.gate.lin_src(x))

    @property
    def _uses_destinations(self) -> bool:
        """Whether the output depends on the features of the destinations other than through self-loops."""
        return any(module is not None for module in (self.lin_root, self.gate, self.lin_dst))

    def _aggregate(
        self,
        messages: Messages,
        neighborhood: Neighborhood,
        deg_inv_sqrt: tuple[Tensor, Tensor] | None,
        x_dst: Tensor | None,
        return_edge_state: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Aggregate the messages of each destination's neighborhood and combine both branches.

        ``deg_inv_sqrt`` is ``deg ** -0.5`` of the sources and of the destinations, if the layer uses degrees.
        """
        if x_dst is None and self._uses_destinations:
            options = "root_weight=True, two_ended=True or a gated low_order"
            raise ValueError(f"The layer needs the features of the destinations ({options}), but x_dst is None.")
        low, edge_state = self._low(messages, neighborhood, deg_inv_sqrt, x_dst, return_edge_state)
        root = None if self.lin_root is None else self.lin_root(x_dst)
        root = root[as_edge_index(neighborhood.graph)[1]] if root is not None and self.exclusive else root
        if self.norm_low is not None:  # the root weight is part of the sum branch, as in GatedGCN
            low, root = self.norm_low(reduce(torch.add, [part for part in (low, root) if part is not None])), None
        if messages.factors is None:
            out = low
        else:
            assert self.cp is not None
            product = self._product(messages.factors, neighborhood, deg_inv_sqrt, x_dst)
            high = self.cp.update(product)  # act_high(M act(product))
            high = high if self.norm_high is None else self.norm_high(high)
            out = high if low is None else self.mix(high, low)  # Eq. (5)
        assert out is not None
        return out if root is None else out + root, edge_state

    def _product(
        self,
        z: Tensor,
        neighborhood: Neighborhood,
        deg_inv_sqrt: tuple[Tensor, Tensor] | None,
        x_dst: Tensor | None,
    ) -> Tensor:
        """Multiply the factors over S(v): the product of Eq. (5), including tanh if it is fused."""
        assert self.cp is not None
        addend = None
        if self.lin_edge is not None:
            addend = neighborhood.pad_self_loops(self.lin_edge(neighborhood.edge_attr))
        z_dst = None if self.lin_dst is None else self.lin_dst(x_dst)
        if self.factors != "plain" and neighborhood.weight is not None:
            # The operators below see other weights than the user has given.
            neighborhood = neighborhood._replace(weight=check_edge_weight(neighborhood.weight))
        exponent = 0.5 if self.factors == "tempered" else self.degree_exponent
        is_weighted_power = exponent != 0 and neighborhood.weight is not None
        weight = neighborhood.weight
        if self.factors == "weighted":
            assert deg_inv_sqrt is not None
            weight = neighborhood.gcn_weight(deg_inv_sqrt, z.dtype)
        if self.lin_gate is not None:
            gate = neighborhood.pad_self_loops(torch.sigmoid(self.lin_gate(neighborhood.edge_attr)) - 1) + 1
            weight = gate if weight is None else gate * weight.to(gate.dtype).unsqueeze(1)
        scale = shift = None
        if self._has_edge_terms and self.cp.scale is not None and self.cp.shift is not None:
            shape = as_edge_index(neighborhood.graph).size(1), self.rank
            scale, shift = self.cp.scale.expand(shape), self.cp.shift.expand(shape)
        options: dict[str, Any] = {
            "activation": "tanh" if self.cp.fuses_tanh and not is_weighted_power else None,
            "size": neighborhood.size,
            "z_dst": z_dst,
            "edge_addend": addend,
            "edge_scale": scale,
            "edge_shift": shift,
            "edge_weight": weight,
            "factor_activation": "bounded" if self.factors == "bounded" else self._factor_activation,
            "bound": self.bound,
            "degree_exponent": exponent,
        }
        if self.exclusive:
            product = exclusive_product(z, neighborhood.graph, **options)
        else:
            product = neighbor_product(z, neighborhood.graph, self_loops=neighborhood.self_loops, **options)
        if not is_weighted_power:
            return product
        # The operator counts edges, but the degree is the sum of their weights.
        product = weighted_power(product, neighborhood, exponent, self.exclusive)
        return torch.tanh(product) if self.cp.fuses_tanh else product

    def _low(
        self,
        messages: Messages,
        neighborhood: Neighborhood,
        deg_inv_sqrt: tuple[Tensor, Tensor] | None,
        x_dst: Tensor | None,
        return_edge_state: bool,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Compute the sum branch: sum, gated sum or mean over S(v), then ``act_low``."""
        if messages.summands is None:
            return None, None
        edge_state = None
        if self.gate is not None:
            normalize = self.low_order == "gated_mean"
            out, edge_state = self.gate(
                messages.summands, messages.gates, x_dst, neighborhood, normalize, return_edge_state
            )
        else:
            out = neighborhood.sum(messages.summands)
        if self.lin_edge_low is not None:
            out = out + self.lin_edge_low(neighborhood.sum_edge_attr())
        if self.low_order == "gcn":
            assert deg_inv_sqrt is not None
            out = out * deg_inv_sqrt[1].to(out.dtype).unsqueeze(1)
        elif self.low_order == "mean":
            degree = neighborhood.degrees().to(torch.promote_types(messages.summands.dtype, torch.float32))
            scale = torch.where(degree > 0, 1 / degree.clamp(min=torch.finfo(degree.dtype).tiny), 0)
            out = out * scale.to(out.dtype).unsqueeze(1)
        return out if self.act_low is None else self.act_low(out), edge_state

    def _apply_mask(self, weight: Tensor | None) -> Tensor:
        """Multiply the edge weights by the mask of a PyG explainer: a masked neighbor has factor 1 and summand 0."""
        mask: Tensor = self._edge_mask
        mask = mask.sigmoid() if self._apply_sigmoid else mask
        return mask if weight is None else weight * mask

    @property
    def a_high(self) -> Tensor:
        """Weight of the product branch, for ``mix="scalar"`` only."""
        return self._scalar_mix().a_high

    @property
    def a_low(self) -> Tensor:
        """Weight of the sum branch, for ``mix="scalar"`` only."""
        return self._scalar_mix().a_low

    def _scalar_mix(self) -> ScalarMix:
        if not isinstance(self.mix, ScalarMix):
            raise AttributeError("a_high and a_low exist only in a layer with mix='scalar'.")
        return self.mix

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, rank={self.rank})"
