"""Many runs over the cores, in processes of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any, TypeVar

from tgnn.training.config import Config
from tgnn.training.interrupts import Interrupted, catch_interrupts
from tgnn.training.log_forwarding import listening
from tgnn.training.train import train
from tgnn.training.worker_process import Worker, WorkerKilledError

K = TypeVar("K")


def run_parallel(
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
    waiting, spawn, threads = dict(plans), get_context("spawn"), max(1, (os.cpu_count() or 1) // jobs)
    idle: list[Worker] = []
    busy: dict[Any, tuple[Worker, K]] = {}
    at_once = False
    with catch_interrupts() as stop, listening(spawn) as said:
        try:
            while waiting or busy:
                while waiting and len(busy) < jobs and not stop.is_set():
                    key = next(iter(waiting))
                    worker = idle.pop() if idle else Worker(spawn, said, threads)
                    busy[worker.answers] = worker, key
                    worker.begin(*waiting.pop(key), resume)
                    began(key)
                for answers in connection.wait(list(busy), timeout=0.5):
                    worker, key = busy[answers]
                    _told(partial(_result, worker, stop), key, done, failed)
                    del busy[answers]
                    idle += [] if worker.ended else [worker]
                if stop.is_set():
                    raise Interrupted
        except KeyboardInterrupt as error:
            at_once = not isinstance(error, Interrupted)  # Ctrl-C a second time
            raise
        finally:
            _end(idle, [worker for worker, _ in busy.values()], at_once)


def _told(
    run: Callable[[], dict[str, Any]],
    key: K,
    done: Callable[[K, dict[str, Any]], None],
    failed: Callable[[K, Exception], None] | None,
) -> None:
    try:
        metrics = run()
    except (ValueError, RuntimeError, OSError, ImportError, MemoryError) as error:
        if failed is None:
            raise
        failed(key, error)
    else:
        done(key, metrics)


def _result(worker: Worker, stop: threading.Event) -> dict[str, Any]:
    try:
        return worker.result()
    except WorkerKilledError:
        if stop.is_set():  # it was asked to stop as well
            raise Interrupted from None
        raise


def _end(idle: Sequence[Worker], busy: Sequence[Worker], at_once: bool) -> None:
    """Asks those that train to save and stop, and waits for them; Ctrl-C once more waits for nothing."""
    for worker in idle:
        worker.dismiss()
    try:
        for worker in busy:
            worker.kill() if at_once else worker.ask()
        for worker in (*idle, *busy):
            worker.wait()
    except KeyboardInterrupt:
        for worker in (*idle, *busy):
            worker.kill()
        raise
