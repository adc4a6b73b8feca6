"""A world of several processes, over torch.distributed. What is said between them is numbers and bytes, no pickles."""

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
    """As :class:`World`; every process calls the same methods in the same order."""

    def same(self, find: Callable[[], T]) -> T:
        found: T = json.loads(self.read(lambda: json.dumps(find()).encode()))
        return found

    def read(self, find: Callable[[], bytes]) -> bytes:
        data = bytearray(find()) if self.first else bytearray()
        size = torch.tensor([len(data)])
        dist.broadcast(size, 0)
        sent = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(int(size), dtype=torch.uint8)
        if int(size):
            dist.broadcast(sent, 0)
        return sent.numpy().tobytes()

    def any(self, flag: bool) -> bool:
        return self.total(float(flag)) > 0

    def total(self, number: float) -> float:
        value = torch.tensor([number], dtype=torch.float64)
        dist.all_reduce(value)
        return float(value)

    def gather(self, rows: Tensor) -> Tensor:
        sizes = [torch.empty(2, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor(rows.shape))
        most, width = torch.stack(sizes).amax(0).tolist()
        padded = torch.zeros(most, width, dtype=rows.dtype)
        padded[: len(rows), : rows.size(1)] = rows
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded)
        return torch.cat([part[: int(size[0])] for part, size in zip(parts, sizes)]).to(rows.device)

    def agree(self, facts: Mapping[str, str]) -> None:
        line = torch.frombuffer(bytearray(json.dumps(facts).encode() + b"\n"), dtype=torch.uint8)
        each = [json.loads(text) for text in self.gather(line.unsqueeze(1)).numpy().tobytes().splitlines()]
        for what in facts:
            ranks = defaultdict(list)
            for rank, theirs in enumerate(each):
                ranks[theirs[what]].append(str(rank))
            if len(ranks) > 1:
                who = "; ".join(f"{value} on rank {', '.join(some)}" for value, some in ranks.items())
                raise ProcessMismatchError(
                    f"the processes do not have the same {what}: {who}. Give all of them the same command and data"
                )

    def replica(self, model: torch.nn.Module) -> Callable[[TrainingBatch], Tensor]:
        return DataParallelModel(model)
