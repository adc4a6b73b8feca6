"""The CP layer: multiply instead of summing."""

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

from tgnn.nn.checks import check_size, check_start
from tgnn.nn.init import SMALLEST_SCALE, log_spaced_normal_
from tgnn.nn.linear import FeatureLinear
from tgnn.ops import segment_product

Activation = str | Callable[[Tensor], Tensor] | None


class CPAggregation(Aggregation):
    r"""The CP layer of `"High-Order Pooling for Graph Neural Networks with Tensor Decomposition"
    <https://arxiv.org/abs/2205.11691>`_ (Definition 1): a node multiplies its neighbors.

    .. math::
        f(x_1, \ldots, x_k) = \sigma' \left( M \, \sigma \left(
        W^\top \begin{bmatrix} x_1 \\ 1 \end{bmatrix} \odot \cdots \odot
        W^\top \begin{bmatrix} x_k \\ 1 \end{bmatrix} \right) \right)

    with :math:`W \in \mathbb{R}^{(F+1) \times R}` (its last row, that of the homogeneous coordinate, is the bias of
    ``lin``) and :math:`M \in \mathbb{R}^{d \times R}`: all multiplicative interactions among the :math:`k` vectors
    up to order :math:`k`, in parameters that do not depend on :math:`k`. An empty set has the product 1.

    Args:
        in_channels: :math:`F`; ``-1``: taken from the first input.
        out_channels: :math:`d`; by default :math:`F`.
        rank: :math:`R`.
        act: :math:`\sigma`, a name or a function; ``None``: the identity. With ``"tanh"`` the value and every gradient
            is finite for every finite input.
        act_out: :math:`\sigma'`; ``None``: the identity.
        factor_act: An activation on each factor, before the product. The authors' research code has
            ``factor_act="tanh", act=None``.
        scaled: Whether each of the :math:`k` factors :math:`z` of a set becomes :math:`1 + (z - 1) / \sqrt{k}`: for
            large sets, such as all nodes of a graph.
        smallest_start: Factors start as 1 and something small, of sizes from 1 down to this, a size for each of the
            :math:`R` columns (:func:`~tgnn.nn.init.log_spaced_normal_`). 1 where all sets are small or ``scaled``, as the
            neighbors of an atom; the default is for graphs with hubs.

    Shapes:
        - **input:** ``x`` ``[E, F]``, and ``index`` ``[E]`` or ``ptr`` ``[groups + 1]``
        - **output:** ``[groups, d]``

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
        act_out: Activation = "relu",
        factor_act: Activation = None,
        scaled: bool = False,
        smallest_start: float = SMALLEST_SCALE,
    ) -> None:
        super().__init__()
        if out_channels is None:
            out_channels = in_channels
        check_size("in_channels", in_channels, lazy=True)
        check_size("out_channels", out_channels)
        check_size("rank", rank)
        check_start(smallest_start)
        self.out_channels = out_channels
        self.rank = rank
        self.fuses_tanh = act == "tanh"
        self.act = None if self.fuses_tanh else activation_resolver(act)
        self.act_out = activation_resolver(act_out)
        self.factor_act = activation_resolver(factor_act)
        self.scaled = scaled
        self.watch: Callable[[Tensor], None] | None = None  # is shown the activated products
        self.zero_start = False  # whether M starts at 0: where a product is added to what is trained already
        start = partial(log_spaced_normal_, smallest=smallest_start)
        self.lin = FeatureLinear(in_channels, rank, bias=True, initialize=start, initial_bias=1.0)
        self.M: Parameter | UninitializedParameter = Parameter(torch.empty(out_channels, rank))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()
        if not isinstance(self.M, UninitializedParameter):
            self._start()

    def _start(self) -> None:
        (zeros if self.zero_start else glorot)(self.M)

    @property
    def in_channels(self) -> int:
        return self.lin.in_channels

    @property
    def W(self) -> Tensor:
        """``[F + 1, R]``, the last row is that of the homogeneous coordinate."""
        assert self.lin.bias is not None
        return torch.cat([self.lin.weight, self.lin.bias.unsqueeze(0)])

    def factors(self, x: Tensor) -> Tensor:
        """What is multiplied: ``W^T [x; 1]`` of each row."""
        if torch.is_autocast_enabled(x.device.type):  # half precision would round 1 + a little to 1
            with torch.autocast(x.device.type, enabled=False):
                z: Tensor = self.lin(x.to(self.lin.weight.dtype))
        else:
            z = self.lin(x)
        return z if self.factor_act is None else self.factor_act(z)

    def update(self, product: Tensor) -> Tensor:
        """``act_out(M act(product))``; tanh is already applied by whoever forms the product."""
        if self.act is not None:
            product = self.act(product)
        if self.watch is not None:
            self.watch(product)
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
            weight = _inverse_root_of_size(z, index, ptr, dim_size)
            z = 1 + (z - 1) * weight.view(-1, *(1,) * (z.dim() - 1))
        return self.pool(z.movedim(0, dim), index, ptr, dim_size, dim)

    def pool(self, z: Tensor, index: Tensor | None, ptr: Tensor | None, dim_size: int | None, dim: int) -> Tensor:
        """What comes after the factors: their product over each group, then :meth:`update`."""
        groups = {"index": index} if ptr is None else {"ptr": ptr}
        activation = "tanh" if self.fuses_tanh else None
        product = segment_product(z.movedim(dim, 0), **groups, dim_size=dim_size, activation=activation)
        return self.update(product.movedim(0, dim))

    def settle(self, out_channels: int) -> None:
        """Makes an uninitialized ``M``."""
        assert isinstance(self.M, UninitializedParameter)
        self.out_channels = out_channels
        self.M.materialize((out_channels, self.rank))
        self._start()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if isinstance(self.M, UninitializedParameter) and f"{prefix}M" in state_dict:
            self.settle(state_dict[f"{prefix}M"].size(0))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, rank={self.rank})"


def _inverse_root_of_size(z: Tensor, index: Tensor | None, ptr: Tensor | None, groups: int | None) -> Tensor:
    """``1 / sqrt(k)`` for each row, where ``k`` is the size of its set."""
    if ptr is not None:
        sizes = ptr.diff()
        return sizes.repeat_interleave(sizes, output_size=z.size(0)).to(z.dtype).rsqrt()
    assert index is not None
    if groups is None:
        groups = int(index.max()) + 1 if index.numel() else 0
    wide = torch.promote_types(z.dtype, torch.float32)  # half precision does not count beyond 256
    sizes = degree(index, groups, wide)
    assert isinstance(sizes, Tensor)
    return sizes[index].rsqrt().to(z.dtype)
