"""Train several runs in parallel, each in a worker process."""

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
from tgnn.training.log_forwarding import receive_logs
from tgnn.training.train import train_run
from tgnn.training.worker_process import Worker, WorkerKilledError

K = TypeVar("K")


def run_parallel(
    plans: Mapping[K, tuple[Config, Path]],
    jobs: int,
    resume: bool,
    on_finished: Callable[[K, dict[str, Any]], None],
    on_failed: Callable[[K, Exception], None] | None = None,
    on_started: Callable[[K], None] = lambda key: None,
) -> None:
    """Train several runs in parallel. An interrupt stops all of them after they have saved a checkpoint.

    Args:
        plans: Configuration and folder of each run.
        jobs: Number of worker processes; 1: the runs are trained in this process. Each has an equal number of threads.
        resume: Whether to continue earlier runs in the folders.
        on_finished: Called with the metrics of each finished run.
        on_failed: Called with the error of each failed run. ``None``: the first error stops all runs.
        on_started: Called when a run starts.
    """
    if jobs == 1:
        for key, (config, folder) in plans.items():
            on_started(key)
            _report(partial(train_run, config, folder, resume), key, on_finished, on_failed)
        return
    waiting, spawn, threads = dict(plans), get_context("spawn"), max(1, (os.cpu_count() or 1) // jobs)
    idle: list[Worker] = []
    busy: dict[Any, tuple[Worker, K]] = {}
    kill = False
    with catch_interrupts() as stop, receive_logs(spawn) as log_queue:
        try:
            while waiting or busy:
                while waiting and len(busy) < jobs and not stop.is_set():
                    key = next(iter(waiting))
                    worker = idle.pop() if idle else Worker(spawn, log_queue, threads)
                    busy[worker.answers] = worker, key
                    worker.start_run(*waiting.pop(key), resume)
                    on_started(key)
                for answers in connection.wait(list(busy), timeout=0.5):
                    worker, key = busy[answers]
                    _report(partial(_result, worker, stop), key, on_finished, on_failed)
                    del busy[answers]
                    idle += [] if worker.ended else [worker]
                if stop.is_set():
                    raise Interrupted
        except KeyboardInterrupt as error:
            kill = not isinstance(error, Interrupted)  # a second Ctrl-C
            raise
        finally:
            _end(idle, [worker for worker, _ in busy.values()], kill)


def _report(
    run: Callable[[], dict[str, Any]],
    key: K,
    on_finished: Callable[[K, dict[str, Any]], None],
    on_failed: Callable[[K, Exception], None] | None,
) -> None:
    try:
        metrics = run()
    except (ValueError, RuntimeError, OSError, ImportError, MemoryError) as error:
        if on_failed is None:
            raise
        on_failed(key, error)
    else:
        on_finished(key, metrics)


def _result(worker: Worker, stop: threading.Event) -> dict[str, Any]:
    try:
        return worker.result()
    except WorkerKilledError:
        if stop.is_set():  # it was interrupted as well
            raise Interrupted from None
        raise


def _end(idle: Sequence[Worker], busy: Sequence[Worker], kill: bool) -> None:
    """Stop all workers after a checkpoint, and wait for them. Another Ctrl-C kills them."""
    for worker in idle:
        worker.answers.close()
    try:
        for worker in busy:
            worker.process.kill() if kill else worker.process.terminate()
        for worker in (*idle, *busy):
            worker.process.join()
    except KeyboardInterrupt:
        for worker in (*idle, *busy):
            worker.process.kill()
        raise
