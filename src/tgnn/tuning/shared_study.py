"""The two Optuna studies of a search, which several workers share: its trials and its final evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn

import optuna
from optuna.pruners import MedianPruner
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tgnn.tuning.search_plan import SearchPlan
from tgnn.tuning.storage import StudyError, open_storage, storage_errors

Direction = Literal["maximize", "minimize"]

FINAL_OF = "trial"
"""User attribute of a final evaluation: number of the trial that is evaluated again."""

SURPLUS = "surplus"
"""User attribute of a trial that was not run, because other workers had started all trials in the meantime."""

_FINGERPRINT = "tgnn"


class SurplusTrialError(Exception):
    """A trial is not needed, because other workers have started all trials in the meantime."""


class SharedStudy:
    """Optuna studies of the search and of its final evaluation. They are created if they do not exist.

    Args:
        url: ``sqlite:///path`` or ``postgresql://...``.
        name: Name of the study.
        direction: ``"maximize"`` or ``"minimize"``.
        fingerprint: Values that must be equal for all workers, by name.

    Attributes:
        search: The study of the search.
        finals: The study of the final evaluation. It is separate, so that its scores do not influence the sampler.
    """

    def __init__(self, url: str, name: str, direction: Direction, fingerprint: Mapping[str, Any]) -> None:
        self.name, self._fingerprint = name, fingerprint
        self._storage = open_storage(url)
        try:
            with storage_errors(url, StudyError, "cannot be used"):
                self.search = self._open_study(name, direction)
                self.check()
                self.finals = self._open_study(f"{name} (final evaluation)", direction)
        except StudyError:
            self.close()
            raise

    def _open_study(self, name: str, direction: Direction) -> optuna.Study:
        return optuna.create_study(
            storage=self._storage, study_name=name, direction=direction, load_if_exists=True, pruner=MedianPruner()
        )

    def close(self) -> None:
        """Close all connections to the database."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def check(self) -> None:
        """Raise a ``StudyError`` if the study was started with another fingerprint."""
        stored = self.search.user_attrs.get(_FINGERPRINT)
        if stored is None:
            if self.search.get_trials(deepcopy=False):
                raise StudyError(f"study {self.name} was not created by tgnn: choose another name with --study")
            self.search.set_user_attr(_FINGERPRINT, dict(self._fingerprint))
            return
        for key in (*self._fingerprint, *stored):
            if (before := stored.get(key, "none")) != (now := self._fingerprint.get(key, "none")):
                raise StudyError(
                    f"study {self.name} was started with a different {key} ({before} before, {now} now): resume it "
                    "with the same options, or start another study with --out or --study"
                )

    def trials(self) -> dict[int, FrozenTrial]:
        """Return the last attempt of each trial of the search, by number.

        Optuna gives every attempt a new number. Here, a trial that is retried keeps the number of its first attempt,
        so that the numbers are consecutive.
        """
        numbers: dict[int, int] = {}
        last_attempts: dict[int, FrozenTrial] = {}
        for trial in self.search.get_trials(deepcopy=False):
            if SURPLUS in trial.user_attrs:
                continue
            first_attempt = RetryHeartbeatStaleTrialCallback.retried_trial_number(trial)
            if first_attempt is None:
                first_attempt = trial.number
                numbers[first_attempt] = len(numbers)
            last_attempts[numbers[first_attempt]] = trial
        return last_attempts

    def final_trials(self) -> dict[int, FrozenTrial]:
        """Return the last attempt of each final evaluation, by the number of the trial that it evaluates again."""
        trials = self.finals.get_trials(deepcopy=False)
        counted = [trial for trial in trials if FINAL_OF in trial.user_attrs and SURPLUS not in trial.user_attrs]
        return {int(trial.user_attrs[FINAL_OF]): trial for trial in counted}

    def number_of(self, trial: optuna.Trial) -> int | None:
        """Return the number of a running trial of the search, as in :meth:`trials`.

        ``None``: a later attempt of the same trial is queued, so this one is not needed.
        """
        return next((number for number, attempt in self.trials().items() if attempt.number == trial.number), None)

    def is_repeated_final(self, trial: optuna.Trial) -> bool:
        """Return whether another worker has queued the same final evaluation at the same time, and before this one."""
        *earlier, attempt = self.finals.get_trials(deepcopy=False)[: trial.number + 1]
        if RetryHeartbeatStaleTrialCallback.retried_trial_number(attempt) is not None:
            return False
        final_of = attempt.user_attrs.get(FINAL_OF)
        return final_of is None or any(other.user_attrs.get(FINAL_OF) == final_of for other in earlier)

    def discard(self, trial: optuna.Trial) -> NoReturn:
        """End a trial that is not needed, and leave it out of the result."""
        trial.set_user_attr(SURPLUS, True)
        raise SurplusTrialError

    def send_heartbeats(self, trials: Sequence[FrozenTrial]) -> None:
        """Send one heartbeat for running trials of other workers.

        Optuna never retries a trial whose worker died before its first heartbeat.
        """
        for trial in trials:
            self._storage.record_heartbeat(trial._trial_id)

    def queue_trial(self, plan: SearchPlan) -> bool:
        """Queue the initial recipe as trial 0, and return whether more trials can be started."""
        count = len(self.trials())
        if count == 0:
            self.search.enqueue_trial(dict(plan.initial_params))
        return count < plan.trials

    def queue_final(self, plan: SearchPlan) -> bool:
        """Queue the next final evaluation, and return whether there is one."""
        finals = self.final_trials()
        for number, params in self.finalists(plan).items():
            if number not in finals:
                self.finals.enqueue_trial(dict(params), user_attrs={FINAL_OF: number})
                return True
        return False

    def finalists(self, plan: SearchPlan) -> dict[int, Mapping[str, Any]]:
        """Return the hyperparameters of the trials that are evaluated again, by number.

        These are the best trials and trial 0, the initial recipe. The result is empty until all trials are finished.
        """
        trials = self.trials()
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


def is_retry(trial: optuna.Trial) -> bool:
    """Return whether a trial is a later attempt of a trial whose worker died or was interrupted."""
    return RetryHeartbeatStaleTrialCallback.retried_trial_number(trial.study.trials[trial.number]) is not None


def queue_again(trial: optuna.Trial) -> None:
    """Queue an interrupted trial again, with the same hyperparameters and the same number."""
    attempt = trial.study.trials[trial.number]
    if attempt.state.is_finished():  # another worker considered this one dead and has queued the trial already
        return
    attempt.system_attrs.pop("retry_history", None)  # an interrupt does not count as the death of a worker
    RetryHeartbeatStaleTrialCallback()(trial.study, attempt)
