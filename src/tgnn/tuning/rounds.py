"""What to try next, and when to give up: decided by whole rounds of trials that have ended.

So the same seed gives the same trials with one worker or with fifty, whichever of them is faster, also when the study
is stopped and continued.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tgnn.tuning.plan import Plan

AGAIN = "again"
"""Mark of a trial that does what another left undone; its value is the place of that one."""

LIVE = (TrialState.RUNNING, TrialState.WAITING)
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)


def place_of(trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> int:
    """The place of a trial in the search. Trials that were begun again have the place they had."""
    if AGAIN in trial.user_attrs:
        return int(trial.user_attrs[AGAIN])
    return trial.number - sum(AGAIN in other.user_attrs for other in trials if other.number < trial.number)


def latest(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Of every place the trial that was begun last, by place."""
    found = {place_of(trial, trials): trial for trial in sorted(trials, key=lambda trial: trial.number)}
    return [found[place] for place in sorted(found)]


def before(place: int, plan: Plan, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Trials of whole rounds before a place, in their order, whatever has become of them."""
    first = place // plan.together * plan.together
    return [trial for trial in latest(trials) if place_of(trial, trials) < first]


class Given(optuna.samplers.BaseSampler):
    """Suggests what was decided elsewhere.

    Args:
        values: By name.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        return {}

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
        return {}

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        return self._values[param_name]


class Round:
    """What the rounds before say to one trial.

    Args:
        plan: The search.
        direction: Of the study.
        place: Of the trial.
        earlier: Trials of the rounds before.
    """

    def __init__(self, plan: Plan, direction: StudyDirection, place: int, earlier: Sequence[FrozenTrial]) -> None:
        seed = int(np.random.SeedSequence([plan.seed, place]).generate_state(1)[0])
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=plan.together, constant_liar=False)
        pruner = optuna.pruners.MedianPruner(n_startup_trials=plan.together // 2)
        self._study = optuna.create_study(direction=direction, sampler=sampler, pruner=pruner)
        self._study.add_trials([trial for trial in earlier if trial.state in ENDED])
        if place == 0:
            self._study.enqueue_trial(dict(plan.start))
        self._trial = self._study.ask({key: CategoricalDistribution(values) for key, values in plan.space.items()})

    @property
    def values(self) -> dict[str, Any]:
        """What to try."""
        return dict(self._trial.params)

    def is_hopeless(self, score: float, step: int) -> bool:
        """Whether half of the earlier trials were better at that step."""
        self._trial.report(score, step)
        return self._trial.should_prune()
