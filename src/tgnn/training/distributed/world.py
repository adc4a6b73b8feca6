"""The processes that train a run together. They exchange numbers and bytes, never pickles."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
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
        if self.size == 1:
            return lambda batch: model(batch.data)
        from tgnn.training.distributed.data_parallel import DataParallelModel

        return DataParallelModel(model)


SINGLE_PROCESS = World()
