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


def left_of_round(plan: Plan, higher_is_better: bool, ended: Mapping[int, FrozenTrial]) -> list[int]:
    """Places that can be done now: those of the first round that has not ended, and after the last round the finals."""
    left = [place for place in range(plan.trials) if place not in ended]
    if not left:
        return [place for place in finals_of(plan, higher_is_better, ended) if place not in ended]
    return [place for place in left if place // plan.together == left[0] // plan.together]


_FINAL = 10**9


def is_final(place: int) -> bool:
    """Whether a trial is judged once more at that place."""
    return place >= _FINAL


def finals_of(plan: Plan, higher_is_better: bool, ended: Mapping[int, FrozenTrial]) -> dict[int, int]:
    """Places of the finals, and the place of the trial that is judged once more there.

    The settings that the search started from are among them, as somebody had reasons for these. A study that goes on
    with more trials, or with more finals, does not judge again what has been judged.
    """
    done = [(place, t) for place, t in ended.items() if place < plan.trials and t.state == TrialState.COMPLETE]
    done.sort(key=lambda one: ((-1 if higher_is_better else 1) * (one[1].value or 0.0), one[0]))
    unlike: dict[str, int] = {}
    for place, trial in done:
        unlike.setdefault(str(sorted(trial.params.items())), place)
    best = list(unlike.values())[: plan.finals]
    start = unlike.get(str(sorted(ended[0].params.items()))) if plan.finals and 0 in ended else None
    best += [start] if start is not None and start not in best else []
    return {_FINAL + place: place for place in best}


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
        self.splits = range(plan.splits)
        """And on which splits."""

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


class Final:
    """One of the best, once more, and to the end.

    Args:
        plan: The search.
        values: Its settings.
    """

    def __init__(self, plan: Plan, values: Mapping[str, Any]) -> None:
        self.values, self.splits = dict(values), plan.final_splits

    def is_hopeless(self, score: float, step: int) -> bool:
        return False


def as_study(trials: Sequence[FrozenTrial], higher_is_better: bool, sampler: Any = None) -> optuna.Study:
    """A study in memory, for what Optuna can tell of some trials; it depends on their order."""
    study = optuna.create_study(direction="maximize" if higher_is_better else "minimize", sampler=sampler)
    study.add_trials(trials)
    return study
