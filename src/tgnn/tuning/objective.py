"""How good settings are: the validation metric, split by split. Nothing here can see a test label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import torch
from torch import Tensor

from tgnn.training.config import Config
from tgnn.training.log_forwarding import quietly
from tgnn.training.loop import Epoch, fit, is_better, judge
from tgnn.training.metrics import Task, log_prior_ratio
from tgnn.training.prepare import prepare_without_test
from tgnn.training.train import find_device, make_model, set_threads


class Halves:
    """The epoch is chosen on one half of the validation examples and judged on the other, both ways.

    The best epoch of all of them is best by luck in part, the more so the more a curve jumps: a search would find
    settings that jump.

    Args:
        task: Whose metric it is.
        truth: Targets of the validation examples.
        by: ``"metric"`` or ``"loss"``, what the epoch is chosen by.
        seed: Of the halves; classes have the same share in both.
        learned: Classes of the examples to learn from. Where the task expects the shares of validation, each half is
            judged by what the other one makes expect, and halves are drawn freely: else each would know the other's.
    """

    def __init__(self, task: Task, truth: Tensor, by: str, seed: int, learned: Tensor | None = None) -> None:
        self._task, self._truth, self._by = task, truth, by
        order = torch.randperm(len(truth), generator=torch.Generator().manual_seed(seed))
        if truth.dim() == 1 and not task.shift:
            order = order[truth[order].argsort(stable=True)]
        self._halves = (order[0::2], order[1::2]) if self._can_judge(order[0::2], order[1::2]) else (order, order)
        self._tasks = [self._expecting(half, learned) for half in self._halves]
        self._best: list[tuple[tuple[float, float], float] | None] = [None, None]

    def _expecting(self, half: Tensor, learned: Tensor | None) -> Task:
        if not self._task.shift or learned is None:
            return self._task
        return replace(self._task, shift=log_prior_ratio(learned, self._truth[half], len(self._task.shift)))

    def _can_judge(self, *halves: Tensor) -> bool:
        """Not where there are too few: ROC-AUC needs a 0 and a 1."""
        width = self._truth[0].numel()
        if self._task.target == "classes":
            width = len(self._task.shift) or int(self._truth.max()) + 1
        try:
            for half in halves:
                judge(self._task, torch.zeros(len(half), width), self._truth[half])
        except ValueError:
            return False
        return all(map(len, halves))

    def see(self, outputs: Tensor) -> None:
        """After an epoch."""
        outputs = outputs.cpu()
        for mine, other in ((0, 1), (1, 0)):
            task, before, half = self._tasks[mine], self._best[mine], self._halves[mine]
            found = judge(task, outputs[half], self._truth[half])
            if is_better(task, self._by, found, (None, None) if before is None else before[0]):
                self._best[mine] = found, task.score(outputs[self._halves[other]], self._truth[self._halves[other]])

    @property
    def score(self) -> float:
        """Of the epochs seen so far."""
        return fmean(best[1] for best in self._best if best is not None)


def validation_score(config: Config, tell: Callable[[int, float], None] = lambda epoch, score: None) -> float:
    """Trains as configured and gives the validation metric of :class:`Halves`; writes and says nothing.

    Args:
        config: Of one run.
        tell: Called after every epoch with its number and the score so far; what it raises ends the training.
    """
    with quietly():  # advice is for settings that somebody chose
        set_threads(config)
        prepared = prepare_without_test(config)
        assert prepared.data.y is not None
        truth = prepared.data.y[prepared.split.val]
        learned = prepared.data.y[prepared.split.train]
        halves = Halves(prepared.task, truth, config.train.select_by, config.train.seed, learned)

        def look(epoch: Epoch) -> None:
            halves.see(epoch.outputs)
            tell(epoch.number, halves.score)

        model = make_model(config, prepared.shape).to(find_device(config.train.device))
        fit(model, prepared, config, None, tell=look)
    return halves.score
