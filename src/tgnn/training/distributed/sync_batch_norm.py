"""Batch normalization over the batches of all ranks, for every device. torch has it for CUDA only."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Sum(torch.autograd.Function):
    """Differentiable all-reduce. The gradient of a rank's input is the sum of the gradients of all ranks' outputs."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: Any) -> Tensor:
        ctx.group = group
        values = values.clone()
        dist.all_reduce(values, group=group)
        return values

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _all_reduce_sum(grads[0], ctx.group), None


def _all_reduce_sum(values: Tensor, group: Any) -> Tensor:
    summed: Tensor = _Sum.apply(values.contiguous(), group)  # type: ignore[no-untyped-call]
    return summed


class SyncBatchNorm(torch.nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` whose mean and variance are computed over the rows of all ranks.

    The variance is computed from the deviations from the mean. A difference of squares would lose precision.
    """

    group: Any = None
    """Process group of the ranks."""
    is_counted = True
    """Whether the rows of this rank are part of the batch. A placeholder batch is not."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        sums = _all_reduce_sum(torch.cat([self._sum(input), self._sum(torch.ones_like(input[:, :1]))]), self.group)
        count = float(sums[-1].detach())
        if count < 2:
            raise ValueError("Batch normalization needs at least two rows in a batch, but this batch has one.")
        mean = sums[:-1] / count
        deviation = input - mean.to(input.dtype)
        var = _all_reduce_sum(self._sum(deviation.square()), self.group) / count
        if self.track_running_stats:
            self._update_running_stats(mean.detach(), var.detach() * (count / (count - 1)))
        out = deviation * (var + self.eps).rsqrt().to(input.dtype)
        return out * self.weight + self.bias if self.affine else out

    def _sum(self, rows: Tensor) -> Tensor:
        return rows.sum(0, dtype=torch.float64) * float(self.is_counted)

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

    Args:
        model: Changed in place.
        group: Process group of the ranks.
    """
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm1d)]
    for norm in norms:
        norm.__class__ = SyncBatchNorm
        norm.group = group
    return norms  # type: ignore[return-value]
