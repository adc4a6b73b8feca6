"""Workers on one machine: the current process, or several child processes."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import Any

from tgnn.training.interrupts import Interrupted, catch_interrupts, delay_interrupts
from tgnn.training.log_forwarding import receive_logs
from tgnn.training.worker_process import set_up_worker
from tgnn.tuning.run_trials import run_trials
from tgnn.tuning.search_plan import SearchPlan
from tgnn.tuning.storage import Direction, SharedStudy, StorageLostError, StudyError, storage_errors

logger = logging.getLogger("tgnn")

_REFRESH_SECONDS = 1.0

StudyAddress = tuple[str, str, Direction, Mapping[str, Any]]
"""Arguments of :class:`SharedStudy`, with which another process opens the same study."""


def run_in_this_process(shared: SharedStudy, plan: SearchPlan, on_progress: Callable[[], None]) -> None:
    """Run trials until all are finished or a signal interrupts.

    Args:
        shared: The study.
        plan: The search.
        on_progress: Called between trials.
    """
    with catch_interrupts() as stop:
        run_trials(shared, plan, _raise_if(stop.is_set), on_progress)


def _raise_if(is_interrupted: Callable[[], bool]) -> Callable[[], None]:
    def check() -> None:
        if is_interrupted():
            raise Interrupted

    return check


def run_in_processes(address: StudyAddress, plan: SearchPlan, jobs: int, on_progress: Callable[[], None]) -> None:
    """Run trials in child processes. An interrupt ends all of them and releases their trials.

    Args:
        address: The study.
        plan: The search.
        jobs: Number of processes.
        on_progress: Called every second.
    """
    spawn = get_context("spawn")
    with catch_interrupts() as stop, receive_logs(spawn) as log_queue:
        arguments = (address, plan.to_dict(), log_queue)
        workers = [spawn.Process(target=_run_worker, args=arguments, daemon=True) for _ in range(jobs)]
        try:
            with delay_interrupts():
                for worker in workers:
                    worker.start()
            while any(worker.is_alive() for worker in workers) and not stop.is_set():
                on_progress()
                _wait(workers, stop.is_set)
        finally:
            started = [worker for worker in workers if worker.pid is not None]
            for worker in started:
                worker.terminate()  # SIGTERM, on which a worker releases its trial
            for worker in started:
                worker.join()
    if stop.is_set():
        raise Interrupted
    failed = sum(bool(worker.exitcode) for worker in workers)
    if failed == jobs:
        raise StudyError("all workers failed: run the same command again to resume")
    if failed:
        logger.warning("%d of %d workers failed", failed, jobs)


def _wait(workers: Sequence[BaseProcess], is_interrupted: Callable[[], bool]) -> None:
    until = time.monotonic() + _REFRESH_SECONDS
    while time.monotonic() < until and not is_interrupted() and any(worker.is_alive() for worker in workers):
        time.sleep(0.1)


def _run_worker(address: StudyAddress, plan: dict[str, Any], log_queue: Any) -> None:
    set_up_worker(log_queue)
    with catch_interrupts() as stop:
        try:
            with storage_errors(address[0]), contextlib.closing(SharedStudy(*address)) as shared:
                run_trials(shared, SearchPlan.from_dict(plan), _raise_if(stop.is_set))
        except KeyboardInterrupt:
            return
        except StorageLostError:  # reported by the main process
            sys.exit(1)
        except (ValueError, OSError) as error:
            logger.warning("a worker failed: %s", error)
            sys.exit(1)
