"""DistributedDataParallel for batches of graphs, with batch normalization over the batches of all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from tgnn.training.loaders import TrainingBatch


class DataParallelModel:
    """Forward pass of a model on one rank. ``backward`` averages the gradients over all ranks.

    Args:
        model: The model. Rank 0's weights are used on all ranks, and its batch normalizations are synchronized.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        # Batch normalization needs its own process group, because its messages interleave with the gradients'.
        self._norms = synchronize_batch_norms(model, dist.new_group())
        # The parameters that a part of a batch does not use differ between ranks.
        self._parallel = DistributedDataParallel(_WithExtraLoss(model), find_unused_parameters=True)

    def __call__(self, batch: TrainingBatch) -> Tensor:
        for norm in self._norms:
            norm.is_counted = not batch.is_placeholder
        out: Tensor = self._parallel(batch.data)[0]
        return out


class _WithExtraLoss(torch.nn.Module):
    """Return the outputs and the extra loss, so that DDP finds the parameters used by either."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.unused = torch.nn.Parameter(next(model.parameters()).new_zeros(1))  # torch warns if no parameter is unused

    def forward(self, data: Data) -> tuple[Tensor, Tensor | None]:
        return self.model(data), getattr(self.model, "extra_loss", None)


class _AllReduceSum(torch.autograd.Function):
    """Differentiable sum over ranks. The gradient of a rank's input is the sum of the gradients of all ranks' outputs.

    The function of the same purpose in ``torch.distributed.nn`` is deprecated.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: Any) -> Tensor:
        ctx.group = group
        values = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(values, group=group)
        return values

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, None]:
        return _AllReduceSum.apply(grads[0], ctx.group), None  # type: ignore[no-untyped-call]


class SyncBatchNorm(torch.nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` whose mean and variance are computed over the rows of all ranks.

    :class:`torch.nn.SyncBatchNorm` needs a GPU, and it cannot leave out the rows of a rank. The variance is computed
    from the deviations from the mean. A difference of squares would lose precision.
    """

    group: Any = None
    """Process group of the ranks."""
    is_counted = True
    """Whether the rows of this rank are part of the batch. A placeholder batch is not."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        sums = self._all_reduce(torch.cat([self._sum(input), self._sum(torch.ones_like(input[:, :1]))]))
        count = float(sums[-1].detach())
        if count < 2:
            raise ValueError("Batch normalization needs at least two rows in a batch, but this batch has one.")
        mean = sums[:-1] / count
        deviation = input - mean.to(input.dtype)
        var = self._all_reduce(self._sum(deviation.square())) / count
        if self.track_running_stats:
            self._update_running_stats(mean.detach(), var.detach() * (count / (count - 1)))
        out = deviation * (var + self.eps).rsqrt().to(input.dtype)
        return out * self.weight + self.bias if self.affine else out

    def _sum(self, rows: Tensor) -> Tensor:
        return rows.sum(0, dtype=torch.float64) * float(self.is_counted)

    def _all_reduce(self, values: Tensor) -> Tensor:
        summed: Tensor = _AllReduceSum.apply(values, self.group)  # type: ignore[no-untyped-call]
        return summed

    @torch.no_grad()
    def _update_running_stats(self, mean: Tensor, var: Tensor) -> None:
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        self.num_batches_tracked.add_(1)
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(var.to(self.running_var.dtype), momentum)


def synchronize_batch_norms(model: torch.nn.Module, group: Any) -> list[SyncBatchNorm]:
    """Replace the class of every batch normalization in a model, also of those inside PyG's modules.

    The modules keep their weights, statistics and names.
    """
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm1d)]
    for norm in norms:
        norm.__class__ = SyncBatchNorm
        norm.group = group
    return norms  # type: ignore[return-value]
