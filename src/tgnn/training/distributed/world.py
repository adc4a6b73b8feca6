"""The processes that train a run together. One alone is a world of one, so that the loop reads the same."""

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
    """Processes that would not train the same run; the text names them."""


@dataclass(frozen=True)
class World:
    """A process among all that train a run.

    Args:
        rank: Its number; the first, 0, writes files and speaks.
        size: How many there are.
        local_rank: Its number on its machine.
        local_size: How many are on its machine.
        job: What torchrun calls all of this, however often it starts processes again; ``None``: it has no name.
        restarts: How often processes were started again.

    Example:
        >>> World().same(lambda: 3), World().any(False), World(1, 2).part(torch.arange(5)).tolist()
        (3, False, [3, 4])
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    job: str | None = None
    restarts: int = 0

    @property
    def first(self) -> bool:
        return self.rank == 0

    def part(self, items: Tensor) -> Tensor:
        """This process's share of some items: as many as the others have, or one more; in order of the ranks, all."""
        return items if self.size == 1 else torch.tensor_split(items, self.size)[self.rank]

    def same(self, find: Callable[[], T]) -> T:
        """What the first process finds, for all; of what JSON can say."""
        return find()

    def read(self, find: Callable[[], bytes]) -> bytes:
        """The same of raw bytes."""
        return find()

    def any(self, flag: bool) -> bool:
        """Whether it is true anywhere."""
        return flag

    def total(self, number: float) -> float:
        """The sum over all processes."""
        return number

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all processes, in order of the ranks; ``[n, width]``, or ``[0, 0]`` from who has none."""
        return rows

    def agree(self, facts: Mapping[str, str]) -> None:
        """Raises :class:`ProcessMismatchError`, in every process, where facts are not the same in all."""

    def replica(self, model: torch.nn.Module) -> Callable[[TrainingBatch], Tensor]:
        """The model's outputs while training; where there are several processes, its gradients are those of all."""
        return lambda piece: model(piece.data)


SINGLE_PROCESS = World()
