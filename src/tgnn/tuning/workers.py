"""The workers of one machine: in this process, or side by side."""

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
from tgnn.training.log_forwarding import listening
from tgnn.training.worker_process import begin_worker
from tgnn.tuning.plan import Plan
from tgnn.tuning.storage import Direction, LostStorage, Shared, StudyError, in_words
from tgnn.tuning.work import work

logger = logging.getLogger("tgnn")

_OFTEN = 1.0  # seconds between two looks at the study

Opened = tuple[str, str, Direction, Mapping[str, Any]]
"""How a study was opened, for another process: what :class:`Shared` takes."""


def work_here(shared: Shared, plan: Plan, now: Callable[[], None]) -> None:
    """Until all trials have ended, or a signal asks to stop.

    Args:
        shared: The study.
        plan: The search.
        now: Called between trials.
    """
    with catch_interrupts() as stop:  # where the loop does not listen
        work(shared, plan, _check(stop.is_set), now)


def _check(asked: Callable[[], bool]) -> Callable[[], None]:
    def check() -> None:
        if asked():
            raise Interrupted

    return check


def work_side_by_side(opened: Opened, plan: Plan, jobs: int, now: Callable[[], None]) -> None:
    """In processes of their own; a stop stops them all, and what they had is put back.

    Args:
        opened: The study.
        plan: The search.
        jobs: How many processes.
        now: Called every second.
    """
    spawn = get_context("spawn")
    with catch_interrupts() as stop, listening(spawn) as said:
        about = (opened, plan.to_dict(), said)
        workers = [spawn.Process(target=_work_in_process, args=about, daemon=True) for _ in range(jobs)]
        try:
            with delay_interrupts():
                for worker in workers:
                    worker.start()
            while any(worker.is_alive() for worker in workers) and not stop.is_set():
                now()
                _wait(workers, stop.is_set)
        finally:
            begun = [worker for worker in workers if worker.pid is not None]
            for worker in begun:
                worker.terminate()  # asks: it puts back what it has
            for worker in begun:
                worker.join()
    if stop.is_set():
        raise Interrupted
    early = sum(bool(worker.exitcode) for worker in workers)
    if early == jobs:
        raise StudyError("all workers ended before their time; type the same line again to go on")
    if early:
        logger.warning("%d of %d workers ended before their time", early, jobs)


def _wait(workers: Sequence[BaseProcess], asked: Callable[[], bool]) -> None:
    until = time.monotonic() + _OFTEN
    while time.monotonic() < until and not asked() and any(worker.is_alive() for worker in workers):
        time.sleep(0.1)


def _work_in_process(opened: Opened, plan: dict[str, Any], said: Any) -> None:
    begin_worker(said)
    with catch_interrupts() as stop:
        try:
            with in_words(opened[0]), contextlib.closing(Shared(*opened)) as shared:
                work(shared, Plan.from_dict(plan), _check(stop.is_set))
        except KeyboardInterrupt:
            return
        except LostStorage:  # which the first process sees, too
            sys.exit(1)
        except (ValueError, OSError) as error:
            logger.warning("a worker ended: %s", error)
            sys.exit(1)
