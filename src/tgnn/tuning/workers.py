"""Workers of a study: the current process, or several child processes."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing import connection, get_context
from typing import Any

import numpy as np
import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import TPESampler
from optuna.storages import fail_stale_trials
from optuna.trial import TrialState

from tgnn.training.interrupts import Interrupted, catch_interrupts, delay_interrupts
from tgnn.training.parallel_runs import receive_logs, set_up_worker
from tgnn.tuning.objective import evaluate_trial
from tgnn.tuning.search_plan import SearchPlan
from tgnn.tuning.shared_study import Direction, SharedStudy, SurplusTrialError, is_retry
from tgnn.tuning.storage import StorageLostError, StudyError, storage_errors

logger = logging.getLogger("tgnn")

StudyAddress = tuple[str, str, Direction, Mapping[str, Any]]
"""Arguments of :class:`SharedStudy`, with which another process opens the same study."""

_TRIAL_LOST_ERRORS = (UpdateFinishedTrialError, ValueError, AssertionError, UnboundLocalError)
"""What ``Study.optimize`` raises if it cannot store the result of a trial, because another worker has taken the trial
over after an overdue heartbeat, or because the database was lost. A lost database is reported by the next access to the
study."""


class Worker:
    """Run the trials of a study, then its final evaluations, one after another.

    Args:
        shared: The study.
        plan: The search.
        stop: Interrupts the worker when it is set. The trial that it runs is queued again.
        on_progress: Called between trials.
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
        self._optimize(self._shared.search, self._run_trial, self._shared.queue_trial)
        self._optimize(self._shared.finals, self._run_final, self._shared.queue_final)

    def _optimize(
        self, study: optuna.Study, objective: Callable[[optuna.Trial], float], queue: Callable[[SearchPlan], bool]
    ) -> None:
        """Run the queue of one study.

        Args:
            study: The study.
            objective: Function that runs a trial.
            queue: Function that queues the next trial if needed, and returns whether there is one.
        """
        waited_for: set[int] = set()
        while True:
            self._raise_if_stopped()
            self._on_progress()
            self._shared.check()
            unfinished = study.get_trials(deepcopy=False, states=(TrialState.WAITING, TrialState.RUNNING))
            if any(trial.state == TrialState.WAITING for trial in unfinished) or queue(self._plan):
                with contextlib.suppress(*_TRIAL_LOST_ERRORS):
                    study.optimize(objective, n_trials=1, catch=(SurplusTrialError,))
            elif unfinished:  # other workers run the remaining trials, but may die
                time.sleep(0.5)
                fail_stale_trials(study)
                new = [trial for trial in unfinished if trial.number not in waited_for]
                self._shared.send_heartbeats(new)
                waited_for.update(trial.number for trial in new)
            else:
                return

    def _run_trial(self, trial: optuna.Trial) -> float:
        number = self._shared.number_of(trial)
        if number is None or (number >= self._plan.trials and not is_retry(trial)):
            self._shared.discard(trial)
        # The seed depends on the number of the trial, so that a search that is resumed samples the same trials.
        seed = np.random.SeedSequence([self._plan.seed, number]).generate_state(1)[0]
        self._shared.search.sampler = TPESampler(seed=int(seed))
        return evaluate_trial(trial, self._plan, range(self._plan.splits), self._raise_if_stopped)

    def _run_final(self, trial: optuna.Trial) -> float:
        if self._shared.is_repeated_final(trial):
            self._shared.discard(trial)
        return evaluate_trial(trial, self._plan, self._plan.final_splits, self._raise_if_stopped, prune=False)

    def _raise_if_stopped(self) -> None:
        if self._stop.is_set():
            raise Interrupted


def run_in_processes(address: StudyAddress, plan: SearchPlan, jobs: int, on_progress: Callable[[], None]) -> None:
    """Run trials in child processes. An interrupt ends all of them, and their trials are queued again.

    ``concurrent.futures`` is not used, because its pool ends all processes if one of them is killed.

    Args:
        address: The study.
        plan: The search.
        jobs: Number of processes.
        on_progress: Called every second.
    """
    spawn = get_context("spawn")
    with catch_interrupts() as stop, receive_logs(spawn) as log_queue:
        arguments = (address, plan, log_queue)
        workers = [spawn.Process(target=_run_worker, args=arguments, daemon=True) for _ in range(jobs)]
        try:
            with delay_interrupts():
                for worker in workers:
                    worker.start()
            while (alive := [worker.sentinel for worker in workers if worker.is_alive()]) and not stop.is_set():
                on_progress()
                connection.wait(alive, timeout=1.0)
        finally:
            started = [worker for worker in workers if worker.pid is not None]
            for worker in started:
                worker.terminate()  # SIGTERM, on which a worker queues its trial again
            for worker in started:
                worker.join()
    if stop.is_set():
        raise Interrupted
    failed = sum(bool(worker.exitcode) for worker in workers)
    if failed == jobs:
        raise StudyError("all workers failed: run the same command again to resume")
    if failed:
        logger.warning("%d of %d workers failed", failed, jobs)


def _run_worker(address: StudyAddress, plan: SearchPlan, log_queue: Any) -> None:
    set_up_worker(log_queue)
    with catch_interrupts() as stop:
        try:
            with storage_errors(address[0]), contextlib.closing(SharedStudy(*address)) as shared:
                Worker(shared, plan, stop).run()
        except KeyboardInterrupt:
            return
        except StorageLostError:  # reported by the main process
            sys.exit(1)
        except (ValueError, OSError) as error:
            logger.warning("a worker failed: %s", error)
            sys.exit(1)
