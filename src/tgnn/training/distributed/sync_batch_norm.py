"""Batch normalization over the batch of all processes, exactly; torch has it for CUDA only."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Sum(torch.autograd.Function):
    """The sum over processes, which all get: so all of their losses have a gradient for what each gave."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: Any) -> Tensor:
        ctx.group = group
        values = values.clone()
        dist.all_reduce(values, group=group)
        return values

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _over_all(grads[0], ctx.group), None


def _over_all(values: Tensor, group: Any) -> Tensor:
    summed: Tensor = _Sum.apply(values.contiguous(), group)  # type: ignore[no-untyped-call]
    return summed


class SyncBatchNorm(torch.nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` whose mean and variance are those of the rows of all processes.

    The mean comes first, and the variance from what differs from it: a difference of squares would lose digits.
    """

    group: Any = None
    """Processes to share with."""
    counts = True
    """Whether the rows of this process are part of the batch, or only keep step with it."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        sums = _over_all(torch.cat([self._sum(input), self._sum(torch.ones_like(input[:, :1]))]), self.group)
        count = float(sums[-1].detach())
        if count < 2:
            raise ValueError("batch normalization cannot learn from a batch of one row")
        mean = sums[:-1] / count
        off = input - mean.to(input.dtype)
        var = _over_all(self._sum(off.square()), self.group) / count
        if self.track_running_stats:
            self._follow(mean.detach(), var.detach() * (count / (count - 1)))
        out = off * (var + self.eps).rsqrt().to(input.dtype)
        return out * self.weight + self.bias if self.affine else out

    def _sum(self, rows: Tensor) -> Tensor:
        return rows.sum(0, dtype=torch.float64) * float(self.counts)

    @torch.no_grad()
    def _follow(self, mean: Tensor, var: Tensor) -> None:
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        self.num_batches_tracked.add_(1)
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(var.to(self.running_var.dtype), share)


def synchronize_batch_norms(model: torch.nn.Module, group: Any) -> list[SyncBatchNorm]:
    """Makes every batch normalization of a model, also those within PyG's, one over all processes.

    They stay the modules they were, with their weights, statistics and names; only what they compute changes.

    Args:
        model: Changed in place.
        group: Processes to share with.
    """
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm1d)]
    for norm in norms:
        norm.__class__ = SyncBatchNorm
        norm.group = group
    return norms  # type: ignore[return-value]
