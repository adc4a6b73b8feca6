"""HighOrderAggregation: add a CP layer to any aggregation."""

from __future__ import annotations

from torch import Tensor
from torch.nn.parameter import UninitializedParameter
from torch_geometric.nn.aggr import Aggregation

from tgnn.nn.aggr.cp import CPAggregation


class HighOrderAggregation(Aggregation):
    r"""Add a CP layer to an aggregation, as Eq. (5) adds one to a sum.

    .. math::
        f(x_1, \ldots, x_k) = \mathrm{low}(x_1, \ldots, x_k) + M \tanh \Big( \prod_{i=1}^k W^\top
        \begin{bmatrix} x_i \\ 1 \end{bmatrix} \Big)

    :math:`M` is initialized with 0, so a trained model keeps its outputs until it is trained further.

    Args:
        low: Aggregation to extend.
        rank: CP rank :math:`R`.
        in_channels: Number of input features; by default inferred from the first input.
        out_channels: Number of output features of ``low``; by default inferred from its first output.

    Shapes:
        - **input:** the inputs of ``low``
        - **output:** the output of ``low``

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
        self.cp.zero_init = True
        if out_channels is None:
            self.cp.M = UninitializedParameter()
        self.cp.reset_parameters()
        self.mask: Tensor | None = None  # mask of a PyG explainer for the rows of the next input

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
            self.cp.materialize_M(low.size(-1))
        z = self.cp.factors(x)
        if self.mask is not None:  # rows are already multiplied by the mask w, but their factor must be w z + (1 - w)
            assert self.cp.lin.bias is not None
            removed = (1 - self.mask).view(-1, *(1,) * (z.dim() - 1)).movedim(0, dim)
            z = z + removed * (1 - self.cp.lin.bias)
            self.mask = None
        return low + self.cp.pool(z, index, ptr, dim_size, dim)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.low}, rank={self.cp.rank})"
