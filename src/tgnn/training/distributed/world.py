"""The processes that train a run together. A single process is a world of size 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

if TYPE_CHECKING:
    from tgnn.training.loaders import TrainingBatch

T = TypeVar("T")


class ProcessMismatchError(ValueError):
    """The processes do not train the same run. The message names the ranks that differ."""


@dataclass(frozen=True)
class World:
    """This process among all processes that train a run; the collectives of torch.distributed for one process.

    Args:
        rank: Rank of this process. Rank 0 writes files and prints.
        size: Number of processes.
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
        return compute()

    def broadcast_bytes(self, compute: Callable[[], bytes]) -> bytes:
        """Compute bytes on rank 0 and return them on every rank."""
        return compute()

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on any rank."""
        return flag

    def all_reduce(self, number: float) -> float:
        """Sum a number over all ranks."""
        return number

    def all_gather(self, rows: Tensor) -> Tensor:
        """Concatenate the rows of all ranks in rank order; ``[n, width]``, or ``[0, 0]`` from a rank without rows."""
        return rows

    def check_equal(self, values: Mapping[str, str]) -> None:
        """Raise :class:`ProcessMismatchError` on every rank unless the values are equal on all ranks."""

    def data_parallel(self, model: torch.nn.Module) -> Callable[[TrainingBatch], Tensor]:
        """Return the forward pass used in training. With several processes, gradients are averaged over all ranks."""
        return lambda batch: model(batch.data)


SINGLE_PROCESS = World()
