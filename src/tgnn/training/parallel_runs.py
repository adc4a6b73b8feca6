"""Train several runs in parallel, each in a worker process. The parent process receives the logs and stops the workers.

``concurrent.futures.ProcessPoolExecutor`` cannot replace the workers, even with one executor per worker:

- A killed worker breaks the executor without an exit code, so that the message could not name a lack of memory.
- Before Python 3.14, no public method stops a running worker. Ctrl-C needs one that saves and one that kills.
- A worker holds the writing end of its own queue. If the parent is killed, an idle worker waits forever where
  ``prctl`` is missing. The pipe below has no second writer, so that it reports the end of the parent everywhere.
- An exception that cannot be unpickled breaks the executor, so that :func:`_portable` would still be needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from logging.handlers import QueueHandler, QueueListener
from multiprocessing import connection, get_context
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any, TypeVar

from tgnn.training.config import Config
from tgnn.training.interrupts import Interrupted, catch_interrupts, delay_interrupts
from tgnn.training.train import train_run

K = TypeVar("K")
R = TypeVar("R")


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
    threads = None if jobs == 1 else max(1, (os.cpu_count() or 1) // jobs)
    tasks = {}
    for key, (config, folder) in plans.items():
        config = config.replace("train", threads=config.train.threads or threads)
        tasks[key] = partial(train_run, config, folder, resume)
    call_parallel(tasks, jobs, on_finished, on_failed, on_started)


def call_parallel(
    tasks: Mapping[K, Callable[[], R]],
    jobs: int,
    on_finished: Callable[[K, R], None],
    on_failed: Callable[[K, Exception], None] | None = None,
    on_started: Callable[[K], None] = lambda key: None,
    on_wait: Callable[[], None] = lambda: None,
) -> None:
    """Call functions in parallel.

    Args:
        tasks: Functions without arguments. With several jobs they must be picklable.
        jobs: Number of worker processes; 1: the functions are called in this process.
        on_finished: Called with the result of each function.
        on_failed: Called with the error of each function that raises one. ``None``: the first error stops all of them.
        on_started: Called when a function is started.
        on_wait: Called about twice a second while worker processes are busy.
    """
    if jobs == 1:
        for key, task in tasks.items():
            on_started(key)
            _report(task, key, on_finished, on_failed)
        return
    waiting, spawn = dict(tasks), get_context("spawn")
    idle: list[Worker] = []
    busy: dict[Any, tuple[Worker, K]] = {}
    kill = False
    with catch_interrupts() as stop, receive_logs(spawn) as log_queue:
        try:
            while waiting or busy:
                while waiting and len(busy) < jobs and not stop.is_set():
                    key = next(iter(waiting))
                    worker = idle.pop() if idle else Worker(spawn, log_queue)
                    busy[worker.answers] = worker, key
                    worker.start(waiting.pop(key))
                    on_started(key)
                for answers in connection.wait(list(busy), timeout=0.5):
                    worker, key = busy[answers]
                    _report(partial(_result, worker, stop), key, on_finished, on_failed)
                    del busy[answers]
                    idle += [] if worker.ended else [worker]
                on_wait()
                if stop.is_set():
                    raise Interrupted
        except KeyboardInterrupt as error:
            kill = not isinstance(error, Interrupted)  # a second Ctrl-C
            raise
        finally:
            _end(idle, [worker for worker, _ in busy.values()], kill)


def _report(
    task: Callable[[], R],
    key: K,
    on_finished: Callable[[K, R], None],
    on_failed: Callable[[K, Exception], None] | None,
) -> None:
    try:
        result = task()
    except (ValueError, RuntimeError, OSError, ImportError, MemoryError) as error:
        if on_failed is None:
            raise
        on_failed(key, error)
    else:
        on_finished(key, result)


def _result(worker: Worker, stop: threading.Event) -> Any:
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


# ---- workers ---------------------------------------------------------------------------------------------------


class WorkerKilledError(RuntimeError):
    """A worker process was killed or crashed before it could report an error."""


class RemoteTraceback(Exception):
    """Traceback of an error in a worker process, shown as the cause of the error."""


class Worker:
    """Handle of a worker process in its parent.

    Closing :attr:`answers` ends an idle process. ``process.terminate()`` makes a training process save a checkpoint and
    end. ``process.kill()`` loses the epochs since its last checkpoint.

    Args:
        spawn: Context that starts the process.
        log_queue: From :func:`receive_logs`.
    """

    def __init__(self, spawn: SpawnContext, log_queue: Any) -> None:
        self.ended = False
        self.answers, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_work, args=(theirs, log_queue))
        with delay_interrupts():
            self.process.start()
        theirs.close()  # so that the pipe reports the end of the process

    def start(self, task: Callable[[], Any]) -> None:
        """Start a function. :attr:`answers` becomes readable when it has ended."""
        with contextlib.suppress(OSError):  # the process is dead, which result() reports
            self.answers.send(task)

    def result(self) -> Any:
        """Return the result of the function, or raise its error."""
        try:
            answer, remote_traceback = self.answers.recv()
        except (EOFError, OSError):
            self.ended = True
            self.process.join()
            code = self.process.exitcode
            raise WorkerKilledError(
                "The worker process was killed, perhaps because the machine ran out of memory."
                if code == -signal.SIGKILL
                else f"The worker process ended before its run was finished (exit code {code})."
            ) from None
        if isinstance(answer, Exception):
            raise answer from RemoteTraceback(f"\n{remote_traceback}")
        return answer


def _work(answers: Any, log_queue: Any) -> None:
    set_up_worker(log_queue)
    while True:
        try:
            task = answers.recv()
        except EOFError:  # the parent has closed the pipe
            return
        try:
            answer: tuple[Any, str] = task(), ""
        except Interrupted:
            sys.exit(130)
        except Exception as error:  # the parent decides what to do with it
            answer = _portable(error), traceback.format_exc()
        answers.send(answer)


def _portable(error: Exception) -> Exception:
    """Return the error, or a RuntimeError with the same message if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # constructors of exceptions may raise anything
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def set_up_worker(log_queue: Any) -> None:
    """Ignore Ctrl-C, send log records to :func:`receive_logs` of the parent, and stop if it is killed (on Linux)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logger = logging.getLogger("tgnn")
    logger.handlers, logger.propagate = [QueueHandler(log_queue)], False
    logger.setLevel(logging.INFO)
    log_queue.cancel_join_thread()  # do not wait for the queue when this process ends
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class _LogListener(QueueListener):
    """Pass every record to the logger of its name, so that levels, filters and handlers of this process apply."""

    def handle(self, record: logging.LogRecord) -> None:
        logging.getLogger(record.name).handle(record)


@contextlib.contextmanager
def receive_logs(context: SpawnContext) -> Iterator[Any]:
    """Yield a queue for :func:`set_up_worker`, and handle the log records that arrive in it."""
    queue: Any = context.Queue()
    listener = _LogListener(queue)
    listener.start()
    try:
        yield queue
    finally:
        stopping = threading.Thread(target=listener.stop, daemon=True)
        stopping.start()
        stopping.join(timeout=2)  # a killed process may have left the queue locked
        queue.cancel_join_thread()


@contextlib.contextmanager
def mute_logs() -> Iterator[None]:
    """Discard the log records of this thread. Other threads still log."""
    own_thread, logger = threading.get_ident(), logging.getLogger("tgnn")

    def is_from_other_thread(record: logging.LogRecord) -> bool:
        return record.thread != own_thread

    logger.addFilter(is_from_other_thread)
    try:
        yield
    finally:
        logger.removeFilter(is_from_other_thread)
