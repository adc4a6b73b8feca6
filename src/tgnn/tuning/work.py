"""A worker: takes a trial that nobody has, does it, and takes the next, until every trial has ended."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from statistics import fmean

import optuna
from optuna.trial import FrozenTrial, TrialState

from tgnn.training.loop import Epoch, Interrupted
from tgnn.tuning.plan import Plan
from tgnn.tuning.rounds import AGAIN, ENDED, LIVE, Given, Round, before, latest, place_of
from tgnn.tuning.score import validation_score

REASON, SCORES, LOST, SURPLUS = "reason", "scores", "lost", "surplus"
"""Notes of a trial: why it failed, its score on each split, how often its worker was killed, that it is too many."""

_MOST_LOST = 2
"""A trial whose worker is killed more often is given up: it may be what kills them."""


class _HandedBack(Exception):
    """Somebody must do an earlier trial first."""


class _TooMany(Exception):
    """Another worker has the last one."""


def work(study: optuna.Study, plan: Plan, tell: Callable[[], None] = lambda: None) -> None:
    """Does trials of a study until all have ended, those of workers that were killed among them.

    Args:
        study: Shared with other workers, or not.
        plan: The search.
        tell: Called when a trial ends.
    """
    while True:
        state = _State(study.get_trials(deepcopy=False))
        if state.ended >= plan.trials:
            return
        if not state.waiting and state.taken >= plan.trials:  # the rest is with others, who may have been killed
            _find_killed(study)
            if not state.live:
                for trial in state.dropped:
                    hand_on(study, trial)
            time.sleep(0.5)
            continue
        study.optimize(_Worker(study, plan).do, n_trials=1, catch=(_HandedBack, _TooMany))
        tell()


def hand_on(study: optuna.Study, trial: FrozenTrial, lost: bool = True) -> None:
    """Puts a trial that was not finished back for anybody to take.

    Args:
        study: Of the trial.
        trial: It has failed.
        lost: Whether its worker was killed.
    """
    times = int(trial.user_attrs.get(LOST, 0)) + lost
    if times <= _MOST_LOST:
        place = place_of(trial, study.get_trials(deepcopy=False))
        study.enqueue_trial(trial.params, user_attrs={AGAIN: place, LOST: times})


class _Worker:
    """One trial."""

    def __init__(self, study: optuna.Study, plan: Plan) -> None:
        self._study, self._plan = study, plan

    def do(self, trial: optuna.Trial) -> float:
        try:
            return self._do(trial)
        except KeyboardInterrupt:
            hand_on(self._study, self._frozen(trial), lost=False)
            raise Interrupted from None

    def _do(self, trial: optuna.Trial) -> float:
        plan = self._plan
        place, earlier = self._wait_for_rounds(trial)
        round_ = Round(plan, self._study.direction, place, earlier)
        self._study.sampler = Given(round_.values)
        values = {key: trial.suggest_categorical(key, choices) for key, choices in plan.space.items()}

        def report(score: float, step: int) -> None:
            trial.report(score, step)
            if round_.is_hopeless(score, step):
                raise optuna.TrialPruned

        scores: list[float] = []
        try:
            for split in range(plan.splits):
                config = plan.config_of(values, split)
                every = max(1, config.train.epochs // 5)

                def look(epoch: Epoch, every: int = every) -> None:
                    if not scores and (epoch.number + 1) % every == 0:  # the other splits are judged at their ends
                        report(epoch.best, epoch.number + 1)

                scores.append(validation_score(config, look))
                trial.set_user_attr(SCORES, scores)
                if split + 1 < plan.splits:
                    report(fmean(scores), config.train.epochs * (split + 2))
        except (ValueError, RuntimeError, MemoryError) as error:
            trial.set_user_attr(REASON, str(error) or type(error).__name__)
            raise optuna.TrialPruned from error
        return fmean(scores)

    def _wait_for_rounds(self, trial: optuna.Trial) -> tuple[int, list[FrozenTrial]]:
        """The place of the trial and the rounds before it, when all of these have ended."""
        while True:
            trials = self._study.get_trials(deepcopy=False)
            mine = next(other for other in trials if other.number == trial.number)
            place = place_of(mine, trials)
            others = [other for other in trials if other.number < trial.number]
            if AGAIN not in mine.user_attrs and _State(others).taken >= self._plan.trials:
                trial.set_user_attr(SURPLUS, True)
                raise _TooMany
            earlier = before(place, self._plan, trials)
            if not any(other.state in LIVE for other in earlier):
                return place, earlier
            _find_killed(self._study)
            if any(other.state == TrialState.WAITING for other in earlier):
                hand_on(self._study, mine, lost=False)
                raise _HandedBack
            time.sleep(0.2)

    def _frozen(self, trial: optuna.Trial) -> FrozenTrial:
        return next(other for other in self._study.get_trials(deepcopy=False) if other.number == trial.number)


def _find_killed(study: optuna.Study) -> None:
    """Trials whose workers give no sign of life are put back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls it experimental
        optuna.storages.fail_stale_trials(study)


class _State:
    """How far a study is, place by place."""

    def __init__(self, trials: Sequence[FrozenTrial]) -> None:
        now = [trial for trial in latest(trials) if SURPLUS not in trial.user_attrs]
        failed = [trial for trial in now if trial.state == TrialState.FAIL]
        given_up = [trial for trial in failed if int(trial.user_attrs.get(LOST, 0)) >= _MOST_LOST]
        self.dropped = [trial for trial in failed if trial not in given_up]
        """Failed, and about to be put back."""
        self.live = any(trial.state in LIVE for trial in now)
        self.waiting = any(trial.state == TrialState.WAITING for trial in now)
        self.ended = sum(trial.state in ENDED for trial in now) + len(given_up)
        self.taken = len(now)
