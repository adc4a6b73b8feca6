"""Many runs over the cores, in processes of their own."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from tgnn.training.config import Config, make_config
from tgnn.training.hearing import listening, speak_through
from tgnn.training.loop import Interrupted, asked_to_stop
from tgnn.training.run import WrongRun, train

K = TypeVar("K")


def train_all(
    plans: Mapping[K, tuple[Config, Path]],
    jobs: int,
    resume: bool,
    done: Callable[[K, dict[str, Any]], None],
    failed: Callable[[K, Exception], None] | None = None,
    began: Callable[[K], None] = lambda key: None,
) -> None:
    """Trains all, so many at once. No more are begun than run, so that a stop stops all of them.

    Args:
        plans: Settings and folder of each run.
        jobs: Processes at once; one: none, it happens here. Each has its share of the threads.
        resume: Whether to go on where earlier runs in the folders were stopped.
        done: Called with the metrics of a run that ends.
        failed: Called with the reason of one that cannot; without it, that ends all.
        began: Called when a run begins.
    """
    if jobs == 1:
        for key, (config, folder) in plans.items():
            began(key)
            _told(partial(train, config, folder, resume), key, done, failed)
        return
    waiting = dict(plans)
    with asked_to_stop() as stop:
        while waiting:
            _with_one_pool(waiting, jobs, resume, done, failed, began, stop.is_set)


def _with_one_pool(
    waiting: dict[K, tuple[Config, Path]],
    jobs: int,
    resume: bool,
    done: Callable[[K, dict[str, Any]], None],
    failed: Callable[[K, Exception], None] | None,
    began: Callable[[K], None],
    asked: Callable[[], bool],
) -> None:
    """Until nothing waits, or a process was killed and the pool with it."""
    threads = max(1, (os.cpu_count() or 1) // jobs)
    running: dict[Future[dict[str, Any]], K] = {}
    spawn = get_context("spawn")
    with listening(spawn) as said, ProcessPoolExecutor(jobs, spawn, begin_worker, (said,)) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < jobs and not asked():
                    key = next(iter(waiting))
                    config, folder = waiting.pop(key)
                    plan = config.model_dump(mode="json")
                    running[pool.submit(_train_in_process, plan, str(folder), resume, threads)] = key
                    began(key)
                ended, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for task in ended:
                    _told(task.result, running.pop(task), done, failed)
                if asked():
                    raise Interrupted
        except BrokenProcessPool:
            if failed is None:
                raise
            for key in running.values():
                failed(key, WrongRun("its process was killed, perhaps for want of memory"))
            running.clear()
        finally:
            for process in list((pool._processes or {}).values()) if running else []:
                process.terminate()  # asks: it saves where it is


def _told(
    run: Callable[[], dict[str, Any]],
    key: K,
    done: Callable[[K, dict[str, Any]], None],
    failed: Callable[[K, Exception], None] | None,
) -> None:
    try:
        metrics = run()
    except BrokenProcessPool:
        if failed is None:
            raise
        failed(key, WrongRun("its process was killed, perhaps for want of memory"))
        raise
    except (ValueError, RuntimeError, OSError, MemoryError) as error:
        if failed is None:
            raise
        failed(key, error)
    else:
        done(key, metrics)


def begin_worker(said: Any) -> None:
    """A worker speaks through its parent. If that is killed it is asked to stop (on Linux): it does not go on alone."""
    speak_through(said)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _train_in_process(settings: dict[str, Any], folder: str, resume: bool, threads: int) -> dict[str, Any]:
    config = make_config(settings)
    own = config.train.model_copy(update={"threads": config.train.threads or threads})
    return train(config.model_copy(update={"train": own}), Path(folder), resume)
