"""The processes that train a run together. They exchange numbers and bytes, never pickles.

With several processes, torch's ``DistributedDataParallel`` averages the gradients, and :class:`SyncBatchNorm`
normalizes over the batches of all ranks.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from tgnn.training.loaders import TrainingBatch

T = TypeVar("T")


class ProcessMismatchError(ValueError):
    """The processes do not train the same run. The message names the ranks that differ."""


@dataclass(frozen=True)
class World:
    """This process among all processes that train a run. Every process calls the same methods in the same order.

    Args:
        rank: Rank of this process. Rank 0 writes files and prints.
        size: Number of processes. With one process, no method communicates.
        local_rank: Rank of this process on its machine.
        local_size: Number of processes on its machine.
        job_id: torchrun's id of the job, which stays the same when torchrun restarts the processes. ``None``: no id.
        restarts: Number of times that torchrun has restarted the processes.

    Example:
        >>> World().broadcast(lambda: 3), World().any(False), World(1, 2).shard(torch.arange(5)).tolist()
        (3, False, [3, 4])
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    job_id: str | None = None
    restarts: int = 0

    @property
    def is_rank_zero(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def shard(self, items: Tensor) -> Tensor:
        """Return this rank's consecutive part of some items. The sizes of the parts differ by at most one."""
        return items if self.size == 1 else torch.tensor_split(items, self.size)[self.rank]

    def broadcast(self, compute: Callable[[], T]) -> T:
        """Compute a JSON value on rank 0 and return it on every rank."""
        if self.size == 1:
            return compute()
        value: T = json.loads(self.broadcast_bytes(lambda: json.dumps(compute()).encode()))
        return value

    def broadcast_bytes(self, compute: Callable[[], bytes]) -> bytes:
        """Compute bytes on rank 0 and return them on every rank."""
        if self.size == 1:
            return compute()
        data = bytearray(compute()) if self.is_rank_zero else bytearray()
        size = torch.tensor([len(data)])
        dist.broadcast(size, 0)
        buffer = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(int(size), dtype=torch.uint8)
        if int(size):
            dist.broadcast(buffer, 0)
        return buffer.numpy().tobytes()

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on any rank."""
        return self.all_reduce(float(flag)) > 0

    def all_reduce(self, number: float) -> float:
        """Sum a number over all ranks."""
        if self.size == 1:
            return number
        value = torch.tensor([number], dtype=torch.float64)
        dist.all_reduce(value)
        return float(value)

    def all_gather(self, rows: Tensor) -> Tensor:
        """Concatenate the rows of all ranks in rank order; ``[n, width]``, or ``[0, 0]`` from a rank without rows."""
        if self.size == 1:
            return rows
        sizes = [torch.empty(2, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor(rows.shape))
        max_rows, width = torch.stack(sizes).amax(0).tolist()
        padded = torch.zeros(max_rows, width, dtype=rows.dtype)
        padded[: len(rows), : rows.size(1)] = rows
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded)
        return torch.cat([part[: int(size[0])] for part, size in zip(parts, sizes)]).to(rows.device)

    def check_equal(self, values: Mapping[str, str]) -> None:
        """Raise :class:`ProcessMismatchError` on every rank unless the values are equal on all ranks."""
        if self.size == 1:
            return
        line = torch.frombuffer(bytearray(json.dumps(values).encode() + b"\n"), dtype=torch.uint8)
        all_values = [json.loads(text) for text in self.all_gather(line.unsqueeze(1)).numpy().tobytes().splitlines()]
        for name in values:
            ranks = defaultdict(list)
            for rank, theirs in enumerate(all_values):
                ranks[theirs[name]].append(str(rank))
            if len(ranks) > 1:
                listing = "; ".join(f"{value} on rank {', '.join(some)}" for value, some in ranks.items())
                raise ProcessMismatchError(
                    f"The processes do not have the same {name}: {listing}. "
                    "Start all of them with the same command and the same data."
                )

    def data_parallel(self, model: torch.nn.Module) -> Callable[[TrainingBatch], Tensor]:
        """Return the forward pass used in training. With several processes, gradients are averaged over all ranks."""
        return (lambda batch: model(batch.data)) if self.size == 1 else DataParallelModel(model)


SINGLE_PROCESS = World()


# ---- training on several ranks ---------------------------------------------------------------------------------


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
            norm.is_counted = not batch.is_idle
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
    """Whether the rows of this rank are part of the batch. Those of an idle rank are not."""

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
