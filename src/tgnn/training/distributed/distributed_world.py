"""A world of several processes, over torch.distributed. Processes exchange numbers and bytes, never pickles."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from tgnn.training.distributed.ddp import DataParallelModel
from tgnn.training.distributed.world import ProcessMismatchError, T, World

if TYPE_CHECKING:
    from tgnn.training.loaders import TrainingBatch


@dataclass(frozen=True)
class DistributedWorld(World):
    """:class:`World` of several processes. Every process calls the same methods in the same order."""

    def broadcast(self, compute: Callable[[], T]) -> T:
        value: T = json.loads(self.broadcast_bytes(lambda: json.dumps(compute()).encode()))
        return value

    def broadcast_bytes(self, compute: Callable[[], bytes]) -> bytes:
        data = bytearray(compute()) if self.is_rank_zero else bytearray()
        size = torch.tensor([len(data)])
        dist.broadcast(size, 0)
        buffer = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(int(size), dtype=torch.uint8)
        if int(size):
            dist.broadcast(buffer, 0)
        return buffer.numpy().tobytes()

    def any(self, flag: bool) -> bool:
        return self.all_reduce(float(flag)) > 0

    def all_reduce(self, number: float) -> float:
        value = torch.tensor([number], dtype=torch.float64)
        dist.all_reduce(value)
        return float(value)

    def all_gather(self, rows: Tensor) -> Tensor:
        sizes = [torch.empty(2, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor(rows.shape))
        max_rows, width = torch.stack(sizes).amax(0).tolist()
        padded = torch.zeros(max_rows, width, dtype=rows.dtype)
        padded[: len(rows), : rows.size(1)] = rows
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded)
        return torch.cat([part[: int(size[0])] for part, size in zip(parts, sizes)]).to(rows.device)

    def check_equal(self, values: Mapping[str, str]) -> None:
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
        return DataParallelModel(model)
