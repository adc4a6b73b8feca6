"""Any aggregation, made high-order by a product beside it."""

from __future__ import annotations

from torch import Tensor
from torch.nn.parameter import UninitializedParameter
from torch_geometric.nn.aggr import Aggregation

from tgnn.nn.aggr.cp import CPAggregation


class HighOrderAggregation(Aggregation):
    r"""Adds a CP layer to an aggregation, as Eq. (cp_sum) adds one to a sum:

    .. math::
        f(x_1, \ldots, x_k) = \mathrm{low}(x_1, \ldots, x_k) + M \tanh \Big( \prod_{i=1}^k W^\top
        \begin{bmatrix} x_i \\ 1 \end{bmatrix} \Big)

    :math:`M` starts at 0: a trained model keeps its outputs, and learns from there.

    Args:
        low: The aggregation.
        rank: :math:`R`.
        in_channels: Width of the rows; by default taken from the first input.
        out_channels: Width of what ``low`` gives; by default taken from the first output.

    Shapes:
        - **input:** as ``low``
        - **output:** as ``low``

    Example:
        >>> import torch
        >>> from torch_geometric.nn import MaxAggregation
        >>> aggr = HighOrderAggregation(MaxAggregation(), rank=4, in_channels=8, out_channels=8)
        >>> aggr(torch.randn(5, 8), torch.tensor([0, 0, 1, 1, 1])).shape
        torch.Size([2, 8])
    """

    def __init__(
        self, low: Aggregation, rank: int, in_channels: int | None = None, out_channels: int | None = None
    ) -> None:
        super().__init__()
        self.low = low
        self.cp = CPAggregation(in_channels or -1, out_channels or 1, rank=rank, act_out=None)
        self.cp.zero_start = True
        if out_channels is None:
            self.cp.M = UninitializedParameter()
        self.cp.reset_parameters()
        self.mask: Tensor | None = None  # of the rows of the next input, where a PyG explainer has masked them

    def reset_parameters(self) -> None:
        self.low.reset_parameters()
        self.cp.reset_parameters()

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        low: Tensor = self.low(x, index, ptr=ptr, dim_size=dim_size, dim=dim)
        if isinstance(self.cp.M, UninitializedParameter):
            self.cp.settle(low.size(-1))
        z = self.cp.factors(x)
        if self.mask is not None:  # rows come multiplied by their mask w; their factor is w z + (1 - w)
            assert self.cp.lin.bias is not None
            absent = (1 - self.mask).view(-1, *(1,) * (z.dim() - 1)).movedim(0, dim)
            z = z + absent * (1 - self.cp.lin.bias)
            self.mask = None
        return low + self.cp.pool(z, index, ptr, dim_size, dim)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.low}, rank={self.cp.rank})"
