"""Workers of a search, which share two Optuna studies: the trials and their final evaluation."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.pruners import MedianPruner, NopPruner
from optuna.samplers import TPESampler
from optuna.storages import RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tgnn.training.interrupts import Interrupted, catch_interrupts
from tgnn.training.parallel_runs import call_parallel
from tgnn.tuning.objective import evaluate_trial
from tgnn.tuning.search_space import SearchPlan
from tgnn.tuning.storage import DATABASE_ERRORS, StudyError, open_storage, storage_errors

logger = logging.getLogger("tgnn")

NUMBER = "number"
"""User attribute of a trial: its number in ``study.json``. Optuna gives every attempt of a trial a new number."""

_FINGERPRINT = "tgnn"
"""User attribute of the study: values that all workers must share."""

_TRIAL_LOST_ERRORS = (UpdateFinishedTrialError, ValueError, AssertionError, UnboundLocalError)
"""What ``Study.optimize`` raises if it cannot store the result of a trial, because another worker has taken the trial
over after an overdue heartbeat, or because the database was lost. A lost database is reported by the next access to the
study."""


class SharedStudy:
    """Optuna studies of the search and of its final evaluation. They are created if they do not exist.

    The study ``finals`` is separate from ``search``, so that its scores do not influence the sampler. The values of the
    fingerprint must be equal for all workers.
    """

    def __init__(self, url: str, name: str, direction: StudyDirection, fingerprint: Mapping[str, Any]) -> None:
        self._fingerprint, self.storage = fingerprint, open_storage(url)
        create_study = partial(optuna.create_study, storage=self.storage, direction=direction, load_if_exists=True)
        try:
            with storage_errors(url, StudyError, "cannot be used"):
                self.search = create_study(study_name=name, pruner=MedianPruner())
                self.check()
                self.finals = create_study(study_name=f"{name} (final evaluation)", pruner=NopPruner())
        except StudyError:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections to the database."""
        self.storage.remove_session()
        self.storage.engine.dispose()

    def check(self) -> None:
        """Raise a ``StudyError`` if the study was started with another fingerprint."""
        name, stored = self.search.study_name, self.search.user_attrs.get(_FINGERPRINT)
        if stored is None:
            if self.search.get_trials(deepcopy=False):
                raise StudyError(f"study {name} was not created by tgnn: choose another name with --study")
            self.search.set_user_attr(_FINGERPRINT, dict(self._fingerprint))
            return
        for key in (*self._fingerprint, *stored):
            if (before := stored.get(key, "none")) != (now := self._fingerprint.get(key, "none")):
                raise StudyError(
                    f"study {name} was started with a different {key} ({before} before, {now} now): resume it "
                    "with the same options, or start another study with --out or --study"
                )

    def next_trial(self, plan: SearchPlan) -> tuple[int, Mapping[str, Any]] | None:
        """Return the number and the given hyperparameters of the next trial, or ``None`` after the last one.

        Trial 0 is the initial recipe. The hyperparameters of the others are sampled.
        """
        count = len(last_attempts(self.search))
        if count >= plan.trials:
            return None
        return count, plan.initial_params if count == 0 else {}

    def next_final(self, plan: SearchPlan) -> tuple[int, Mapping[str, Any]] | None:
        """Return the number and the hyperparameters of the next trial to evaluate again, or ``None``."""
        started = last_attempts(self.finals)
        return next(
            ((number, params) for number, params in self.finalists(plan).items() if number not in started), None
        )

    def finalists(self, plan: SearchPlan) -> dict[int, Mapping[str, Any]]:
        """Return the hyperparameters of the trials that are evaluated again, by number.

        These are the best trials and trial 0, the initial recipe. The result is empty until all trials are finished.
        """
        trials = last_attempts(self.search)
        if not plan.finals or len(trials) < plan.trials or not all(t.state.is_finished() for t in trials.values()):
            return {}
        sign = -1 if self.search.direction == StudyDirection.MAXIMIZE else 1
        complete = {number: trial for number, trial in trials.items() if trial.state == TrialState.COMPLETE}
        distinct: dict[str, int] = {}
        for number in sorted(complete, key=lambda number: (sign * (complete[number].value or 0.0), number)):
            distinct.setdefault(str(sorted(complete[number].params.items())), number)
        best = list(distinct.values())[: plan.finals]
        initial = distinct.get(str(sorted(trials[0].params.items())))
        best += [initial] if initial is not None and initial not in best else []
        return {number: complete[number].params for number in best}


def last_attempts(study: optuna.Study) -> dict[int, FrozenTrial]:
    """Return the last attempt of each trial, by the number of the trial.

    A trial that two workers have queued at the same time counts once. A trial that Optuna has created because another
    worker took the queued one does not count.
    """
    first: dict[int, int] = {}
    last: dict[int, FrozenTrial] = {}
    for attempt in study.get_trials(deepcopy=False):
        retried = RetryHeartbeatStaleTrialCallback.retried_trial_number(attempt)
        origin = attempt.number if retried is None else retried
        number = attempt.user_attrs.get(NUMBER)
        if number is not None and first.setdefault(number, origin) == origin:
            last[number] = attempt
    return last


class _SurplusTrialError(Exception):
    """A trial is not needed, because another worker runs it, or because all trials are started."""


class Worker:
    """Run the trials of a study, then its final evaluations, one after another.

    Setting ``stop`` interrupts the worker, and its trial is queued again. ``on_progress`` is called between trials.
    """

    def __init__(
        self,
        shared: SharedStudy,
        plan: SearchPlan,
        stop: threading.Event,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        self._shared, self._plan, self._stop, self._on_progress = shared, plan, stop, on_progress

    def run(self) -> None:
        """Run until all trials are finished, including trials of workers that died."""
        self._run_study(self._shared.search, self._shared.next_trial, range(self._plan.splits))
        self._run_study(self._shared.finals, self._shared.next_final, self._plan.final_splits)

    def _run_study(
        self,
        study: optuna.Study,
        next_trial: Callable[[SearchPlan], tuple[int, Mapping[str, Any]] | None],
        splits: range,
    ) -> None:
        def objective(trial: optuna.Trial) -> float:
            numbers = {attempt.number: number for number, attempt in last_attempts(study).items()}
            if trial.number not in numbers:
                raise _SurplusTrialError
            # The seed depends on the number of the trial, so that a search that is resumed samples the same trials.
            seed = np.random.SeedSequence([self._plan.seed, numbers[trial.number]]).generate_state(1)[0]
            study.sampler = TPESampler(seed=int(seed))
            return evaluate_trial(trial, self._plan, splits, self._raise_if_stopped)

        waited_for: set[int] = set()
        while True:
            self._raise_if_stopped()
            self._on_progress()
            self._shared.check()
            unfinished = study.get_trials(deepcopy=False, states=(TrialState.WAITING, TrialState.RUNNING))
            is_queued = any(trial.state == TrialState.WAITING for trial in unfinished)
            if not is_queued and (new_trial := next_trial(self._plan)) is not None:
                number, params = new_trial
                study.enqueue_trial(dict(params), user_attrs={NUMBER: number})
                is_queued = True
            if is_queued:
                with contextlib.suppress(*_TRIAL_LOST_ERRORS):
                    study.optimize(objective, n_trials=1, catch=(_SurplusTrialError,))
            elif unfinished:  # other workers run the remaining trials, but may die
                time.sleep(0.5)
                fail_stale_trials(study)
                for trial in unfinished:
                    if trial.number not in waited_for:
                        # Optuna never retries a trial whose worker died before its first heartbeat.
                        self._shared.storage.record_heartbeat(trial._trial_id)
                        waited_for.add(trial.number)
            else:
                return

    def _raise_if_stopped(self) -> None:
        if self._stop.is_set():
            raise Interrupted


def run_in_processes(
    open_study: Callable[[], SharedStudy], plan: SearchPlan, jobs: int, on_progress: Callable[[], None]
) -> None:
    """Run a worker in each of several processes. An interrupt ends all of them, and their trials are queued again.

    ``open_study`` is called in each process, and ``on_progress`` about twice a second in this one.
    """
    errors: list[str] = []

    def on_ended(number: int, error: str) -> None:
        if error:
            errors.append(error)
            logger.warning("%d of %d workers failed: %s", len(errors), jobs, error)

    workers = {number: partial(_run_worker, open_study, plan) for number in range(jobs)}
    call_parallel(workers, jobs, on_ended, lambda number, error: on_ended(number, str(error)), on_wait=on_progress)
    if len(errors) == jobs:
        raise StudyError("all workers failed: run the same command again to resume")


def _run_worker(open_study: Callable[[], SharedStudy], plan: SearchPlan) -> str:
    """Run a worker to its end, and return its error, if any. The others continue after an error."""
    try:
        with catch_interrupts() as stop, contextlib.closing(open_study()) as shared:
            Worker(shared, plan, stop).run()
    except DATABASE_ERRORS:  # their messages may contain the password
        return "the database does not respond"
    except (ValueError, OSError) as error:
        return str(error) or type(error).__name__
    return ""
