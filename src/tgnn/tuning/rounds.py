"""Sampling and pruning in rounds: both use the trials of finished rounds only.

The same seed therefore gives the same trials with any number of workers, and also if the study is interrupted and
resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from tgnn.tuning.search_plan import SearchPlan

PLACE = "place"
"""User attribute with the number of a trial, from 0. Optuna numbers trials in the order in which they end."""


def by_place(study: optuna.Study) -> dict[int, FrozenTrial]:
    """Return the finished trials, by number."""
    trials: dict[int, FrozenTrial] = {}
    for trial in study.get_trials(deepcopy=False):
        if PLACE in trial.user_attrs:
            trials.setdefault(int(trial.user_attrs[PLACE]), trial)
    return dict(sorted(trials.items()))


def left_of_round(plan: SearchPlan, higher_is_better: bool, ended: Mapping[int, FrozenTrial]) -> list[int]:
    """Return the unfinished places of the current round, or of the final evaluation after the last round."""
    left = [place for place in range(plan.trials) if place not in ended]
    if not left:
        return [place for place in finals_of(plan, higher_is_better, ended) if place not in ended]
    return [place for place in left if place // plan.together == left[0] // plan.together]


_FINAL = 10**9


def is_final(place: int) -> bool:
    """Return whether a place belongs to the final evaluation."""
    return place >= _FINAL


def finals_of(plan: SearchPlan, higher_is_better: bool, ended: Mapping[int, FrozenTrial]) -> dict[int, int]:
    """Map the places of the final evaluation to the numbers of the trials that are evaluated again.

    Trial 0, the initial recipe, is always included. The place depends on the trial only, so that a study that is
    resumed with more trials or more finals does not evaluate a trial twice.
    """
    done = [(place, t) for place, t in ended.items() if place < plan.trials and t.state == TrialState.COMPLETE]
    done.sort(key=lambda one: ((-1 if higher_is_better else 1) * (one[1].value or 0.0), one[0]))
    distinct: dict[str, int] = {}
    for place, trial in done:
        distinct.setdefault(str(sorted(trial.params.items())), place)
    best = list(distinct.values())[: plan.finals]
    start = distinct.get(str(sorted(ended[0].params.items()))) if plan.finals and 0 in ended else None
    best += [start] if start is not None and start not in best else []
    return {_FINAL + place: place for place in best}


def distributions(plan: SearchPlan) -> dict[str, BaseDistribution]:
    """Return the search space as Optuna distributions."""
    return {key: CategoricalDistribution(values) for key, values in plan.space.items()}


class Round:
    """Hyperparameters and pruning rule of one trial, from the finished trials of earlier rounds.

    Args:
        plan: The search.
        higher_is_better: Whether a higher metric is better.
        place: Number of the trial.
        ended: Finished trials, by number. Those of the same round are ignored.
    """

    def __init__(self, plan: SearchPlan, higher_is_better: bool, place: int, ended: Mapping[int, FrozenTrial]) -> None:
        first = place // plan.together * plan.together
        self._earlier = [trial for number, trial in sorted(ended.items()) if number < first]
        self._sign, self._min_scores = 1 if higher_is_better else -1, max(1, plan.together // 2)
        self.params: dict[str, Any] = dict(plan.initial_params) if place == 0 else self._suggest(plan, place)
        """Hyperparameters of the trial."""
        self.splits = range(plan.splits)
        """Indices of the splits of the trial."""

    def _suggest(self, plan: SearchPlan, place: int) -> dict[str, Any]:
        seed = int(np.random.SeedSequence([plan.seed, place]).generate_state(1)[0])
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=plan.together)
        study = as_study(self._earlier, self._sign > 0, sampler)
        return dict(study.ask(distributions(plan)).params)

    def should_prune(self, score: float, step: int) -> bool:
        """Return whether a score is worse than the median of earlier complete trials at that step."""
        complete = [trial.intermediate_values for trial in self._earlier if trial.state == TrialState.COMPLETE]
        scores = [values[step] for values in complete if step in values]
        return len(scores) >= self._min_scores and self._sign * score < self._sign * median(scores)


class Final:
    """Final evaluation of one trial on new splits, without pruning.

    Args:
        plan: The search.
        params: Hyperparameters of the trial.
    """

    def __init__(self, plan: SearchPlan, params: Mapping[str, Any]) -> None:
        self.params, self.splits = dict(params), plan.final_splits

    def should_prune(self, score: float, step: int) -> bool:
        return False


def as_study(trials: Sequence[FrozenTrial], higher_is_better: bool, sampler: Any = None) -> optuna.Study:
    """Return an in-memory Optuna study of some trials. Their order matters for samplers and importances."""
    study = optuna.create_study(direction="maximize" if higher_is_better else "minimize", sampler=sampler)
    study.add_trials(trials)
    return study
