"""What to try next, and when to give up: decided by whole rounds of trials that have ended.

So the same seed gives the same trials with one worker or with fifty, whichever of them is faster, also when the study
is stopped and continued.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from tgnn.tuning.plan import Plan

PLACE = "place"
"""Note of a trial: its place in the search, from 0. Optuna's numbers tell which ended first."""


def by_place(study: optuna.Study) -> dict[int, FrozenTrial]:
    """The trials that have ended, in the order of the search."""
    found: dict[int, FrozenTrial] = {}
    for trial in study.get_trials(deepcopy=False):
        if PLACE in trial.user_attrs:
            found.setdefault(int(trial.user_attrs[PLACE]), trial)
    return dict(sorted(found.items()))


def left_of_round(plan: Plan, ended: Mapping[int, FrozenTrial]) -> list[int]:
    """Places that can be done now: those of the first round that has not ended."""
    left = [place for place in range(plan.trials) if place not in ended]
    return [place for place in left if place // plan.together == left[0] // plan.together]


def distributions(plan: Plan) -> dict[str, BaseDistribution]:
    """The ranges, in Optuna's words."""
    return {key: CategoricalDistribution(values) for key, values in plan.space.items()}


class Round:
    """What the rounds before say to one trial.

    Args:
        plan: The search.
        higher_is_better: Sense of the metric.
        place: Of the trial.
        ended: Trials, by place; those of its own round do not count.
    """

    def __init__(self, plan: Plan, higher_is_better: bool, place: int, ended: Mapping[int, FrozenTrial]) -> None:
        first = place // plan.together * plan.together
        self._earlier = [trial for number, trial in sorted(ended.items()) if number < first]
        self._sign, self._enough = 1 if higher_is_better else -1, max(1, plan.together // 2)
        self.values: dict[str, Any] = dict(plan.start) if place == 0 else self._suggest(plan, place)
        """What to try."""

    def _suggest(self, plan: Plan, place: int) -> dict[str, Any]:
        seed = int(np.random.SeedSequence([plan.seed, place]).generate_state(1)[0])
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=plan.together)
        study = as_study(self._earlier, self._sign > 0, sampler)
        return dict(study.ask(distributions(plan)).params)

    def is_hopeless(self, score: float, step: int) -> bool:
        """Whether half of the earlier trials that were finished were better at that step."""
        known = [trial.intermediate_values for trial in self._earlier if trial.state == TrialState.COMPLETE]
        there = [values[step] for values in known if step in values]
        return len(there) >= self._enough and self._sign * score < self._sign * median(there)


def as_study(trials: Sequence[FrozenTrial], higher_is_better: bool, sampler: Any = None) -> optuna.Study:
    """A study in memory, for what Optuna can tell of some trials; it depends on their order."""
    study = optuna.create_study(direction="maximize" if higher_is_better else "minimize", sampler=sampler)
    study.add_trials(trials)
    return study
