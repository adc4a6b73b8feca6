"""CPAggregation: the CP layer of the paper as a PyG aggregation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parameter import Parameter, UninitializedParameter
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.inits import glorot, zeros
from torch_geometric.nn.resolver import activation_resolver
from torch_geometric.utils import degree

from tgnn.nn.feature_maps import FeatureLinear, check_size
from tgnn.nn.init import SMALLEST_SCALE, check_start_scales, log_spaced_normal_
from tgnn.ops import exclusive_product, segment_product

Activation = str | Callable[[Tensor], Tensor] | None


class CPAggregation(Aggregation):
    r"""The CP layer from the `"High-Order Pooling for Graph Neural Networks with Tensor Decomposition"
    <https://arxiv.org/abs/2205.11691>`_ paper (Definition 1), which multiplies vectors instead of summing them.

    .. math::
        f(x_1, \ldots, x_k) = \sigma' \left( M \, \sigma \left(
        W^\top \begin{bmatrix} x_1 \\ 1 \end{bmatrix} \odot \cdots \odot
        W^\top \begin{bmatrix} x_k \\ 1 \end{bmatrix} \right) \right)

    with :math:`W \in \mathbb{R}^{(F+1) \times R}` and :math:`M \in \mathbb{R}^{d \times R}`. The last row of :math:`W`
    belongs to the homogeneous coordinate 1; it is the bias of ``lin``. The layer models all multiplicative interactions
    among the :math:`k` vectors up to order :math:`k`. Its number of parameters does not depend on :math:`k`. The
    product over an empty set is 1.

    Args:
        in_channels: Number of input features :math:`F`. ``-1`` infers it from the first input.
        out_channels: Number of output features :math:`d`; by default :math:`F`.
        rank: CP rank :math:`R`.
        act: Activation :math:`\sigma` of the product, a name or a function. ``None`` is the identity. With ``"tanh"``
            the output and all gradients are finite for every finite input.
        act_out: Activation :math:`\sigma'` of the output, by default none.
        factor_act: Activation of each factor before the product, by default none. The research code of the authors uses
            ``factor_act="tanh", act=None``.
        affine: Initial values of a learned scale :math:`s` and a learned shift :math:`t` per column. They replace each
            factor :math:`f` by :math:`s f + t`, after ``factor_act``. ``factor_act="sigmoid", affine=(-1.0, 1.0)``
            gives products of probabilities :math:`1 - p` (noisy OR). ``None`` means no scale and no shift.
        exclusive: Whether to compute, for each vector, the product of the *other* vectors of its set. The output then
            has one row per vector.
        bias_init: Initial bias of the factors. The default 1 is the neutral element of a product. Use 0 for factors of
            both signs, for example in parity checks (with ``factor_act="tanh", act=None, smallest_start=1.0``).
        scaled: Whether to replace each of the :math:`k` factors :math:`z` of a set by
            :math:`1 + (z - 1) / \sqrt{k}`. Use it for large sets, such as all nodes of a graph.
        smallest_start: Smallest initial scale of the factors. A factor starts as 1 plus a small random number, and the
            scales of the :math:`R` columns are log-spaced from 1 to this number
            (:func:`~tgnn.nn.init.log_spaced_normal_`). The default fits graphs with hubs. Use 1 if all sets are small,
            as in molecules, or ``scaled``.

    Shapes:
        - **input:** ``x`` ``[E, F]``, and ``index`` ``[E]`` or ``ptr`` ``[groups + 1]``
        - **output:** ``[groups, d]``, or ``[E, d]`` if ``exclusive``

    Example:
        >>> aggr = CPAggregation(16, 32, rank=8)
        >>> aggr(torch.randn(5, 16), torch.tensor([0, 0, 1, 1, 1])).shape
        torch.Size([2, 32])
        >>> aggr.W.shape, aggr.M.shape
        (torch.Size([17, 8]), torch.Size([32, 8]))
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int | None = None,
        *,
        rank: int,
        act: Activation = "tanh",
        act_out: Activation = None,
        factor_act: Activation = None,
        affine: tuple[float, float] | None = None,
        exclusive: bool = False,
        bias_init: float = 1.0,
        scaled: bool = False,
        smallest_start: float = SMALLEST_SCALE,
    ) -> None:
        super().__init__()
        if out_channels is None:
            out_channels = in_channels
        check_size("in_channels", in_channels, lazy=True)
        check_size("out_channels", out_channels)
        check_size("rank", rank)
        check_start_scales(smallest_start=smallest_start)
        self.out_channels = out_channels
        self.rank = rank
        self.fuses_tanh = act == "tanh"
        self.act = None if self.fuses_tanh else activation_resolver(act)
        self.act_out = activation_resolver(act_out)
        self.factor_act = activation_resolver(factor_act)
        self.affine = affine
        self.exclusive = exclusive
        self.bias_init = bias_init
        self.scaled = scaled
        self.product_hook: Callable[[Tensor], None] | None = None  # called with the activated products
        self.zero_init = False  # whether M is initialized with 0, for a product that is added to a trained model
        self.high_start = 1.0  # initial scale of M, see TGNNConv
        initialize = partial(log_spaced_normal_, smallest=smallest_start)
        self.lin = FeatureLinear(in_channels, rank, bias=True, initialize=initialize, initial_bias=bias_init)
        self.M: Parameter | UninitializedParameter = Parameter(torch.empty(out_channels, rank))
        self.scale = None if affine is None else Parameter(torch.empty(rank))
        self.shift = None if affine is None else Parameter(torch.empty(rank))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()
        if self.scale is not None and self.shift is not None:
            assert self.affine is not None
            torch.nn.init.constant_(self.scale, self.affine[0])
            torch.nn.init.constant_(self.shift, self.affine[1])
        if not isinstance(self.M, UninitializedParameter):
            self._reset_M()

    def _reset_M(self) -> None:
        (zeros if self.zero_init else glorot)(self.M)
        if self.high_start != 1:
            self.M.data.mul_(self.high_start)

    def start_with(self, scale: float) -> None:
        """Scale the initial ``M``, also after :meth:`reset_parameters`."""
        self.high_start = scale
        self.M.data.mul_(scale)

    @property
    def in_channels(self) -> int:
        return self.lin.in_channels

    @property
    def W(self) -> Tensor:
        """Weight ``[F + 1, R]`` of the factors; the last row belongs to the homogeneous coordinate."""
        assert self.lin.bias is not None
        return torch.cat([self.lin.weight, self.lin.bias.unsqueeze(0)])

    def factors(self, x: Tensor) -> Tensor:
        """Compute the CP factors of each node: ``W^T [x; 1]``, ``factor_act`` and the affine map."""
        return self.activate(self.linear_factors(x))

    def activate(self, z: Tensor) -> Tensor:
        """Apply ``factor_act`` and the affine map to linear factors."""
        z = z if self.factor_act is None else self.factor_act(z)
        return z if self.scale is None or self.shift is None else self.scale * z + self.shift

    def linear_factors(self, x: Tensor) -> Tensor:
        """Compute the linear part ``W^T [x; 1]`` of the CP factors."""
        if torch.is_autocast_enabled(x.device.type):  # half precision would round 1 + epsilon to 1
            with torch.autocast(x.device.type, enabled=False):
                z: Tensor = self.lin(x.to(self.lin.weight.dtype))
        else:
            z = self.lin(x)
        return z

    def update(self, product: Tensor) -> Tensor:
        """Compute ``act_out(M act(product))`` (Definition 1). A fused tanh is already part of ``product``."""
        if self.act is not None:
            product = self.act(product)
        if self.product_hook is not None:
            self.product_hook(product)
        out = F.linear(product, self.M)
        return out if self.act_out is None else self.act_out(out)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        z = self.factors(x).movedim(dim, 0)
        if self.scaled:
            weight = _inv_sqrt_set_size(z, index, ptr, dim_size)
            z = 1 + (z - 1) * weight.view(-1, *(1,) * (z.dim() - 1))
        return self.pool(z.movedim(0, dim), index, ptr, dim_size, dim)

    def pool(self, z: Tensor, index: Tensor | None, ptr: Tensor | None, dim_size: int | None, dim: int) -> Tensor:
        """Multiply the factors over each group, then apply :meth:`update`."""
        activation = "tanh" if self.fuses_tanh else None
        if self.exclusive:
            product = _product_of_others(z.movedim(dim, 0), index, ptr, dim_size, activation)
        else:
            groups = {"index": index} if ptr is None else {"ptr": ptr}
            product = segment_product(z.movedim(dim, 0), **groups, dim_size=dim_size, activation=activation)
        return self.update(product.movedim(0, dim))

    def materialize_M(self, out_channels: int) -> None:
        """Allocate and initialize ``M`` if its number of outputs was not known before."""
        assert isinstance(self.M, UninitializedParameter)
        self.out_channels = out_channels
        self.M.materialize((out_channels, self.rank))
        self._reset_M()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if isinstance(self.M, UninitializedParameter) and f"{prefix}M" in state_dict:
            self.materialize_M(state_dict[f"{prefix}M"].size(0))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, rank={self.rank})"


def _product_of_others(
    z: Tensor, index: Tensor | None, ptr: Tensor | None, dim_size: int | None, activation: str | None
) -> Tensor:
    """Multiply, for each row, the other rows of its group."""
    if index is None:
        assert ptr is not None
        index = torch.arange(ptr.numel() - 1, device=z.device).repeat_interleave(ptr.diff(), output_size=z.size(0))
    if dim_size is None:
        dim_size = int(index.max()) + 1 if index.numel() else 0
    edges = torch.stack([torch.arange(z.size(0), device=z.device), index.long()])
    rows = z.reshape(z.size(0), -1)
    product = exclusive_product(None, edges, size=(z.size(0), dim_size), edge_addend=rows, activation=activation)
    return product.view_as(z)


def _inv_sqrt_set_size(z: Tensor, index: Tensor | None, ptr: Tensor | None, groups: int | None) -> Tensor:
    """Return ``1 / sqrt(k)`` for each row, where ``k`` is the size of its set."""
    wide = torch.promote_types(z.dtype, torch.float32)  # half precision cannot count beyond 256
    if ptr is not None:
        sizes = ptr.diff()
        return sizes.repeat_interleave(sizes, output_size=z.size(0)).to(wide).rsqrt().to(z.dtype)
    assert index is not None
    if groups is None:
        groups = int(index.max()) + 1 if index.numel() else 0
    sizes = degree(index, groups, wide)
    assert isinstance(sizes, Tensor)
    return sizes[index].rsqrt().to(z.dtype)
