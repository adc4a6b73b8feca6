"""Worker processes that train one run after another. The parent process stops them; they ignore Ctrl-C.

``concurrent.futures.ProcessPoolExecutor`` cannot replace them, even with one executor per worker:

- A killed worker breaks the executor without an exit code, so that the message could not name a lack of memory.
- Before Python 3.14, no public method stops a running worker. Ctrl-C needs one that saves and one that kills.
- A worker holds the writing end of its own queue. If the parent is killed, an idle worker waits forever where
  ``prctl`` is missing. The pipe below has no second writer, so that it reports the end of the parent everywhere.
- An exception that cannot be unpickled breaks the executor, so that :func:`_portable` would still be needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import pickle
import signal
import sys
import traceback
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any

from tgnn.training.config import Config, make_config
from tgnn.training.interrupts import Interrupted, delay_interrupts
from tgnn.training.log_forwarding import send_logs_to
from tgnn.training.train import train_run


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
        log_queue: From :func:`~tgnn.training.log_forwarding.receive_logs`.
        threads: Number of CPU threads of the process.
    """

    def __init__(self, spawn: SpawnContext, log_queue: Any, threads: int) -> None:
        self.ended = False
        self.answers, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_work, args=(theirs, log_queue, threads))
        with delay_interrupts():
            self.process.start()
        theirs.close()  # so that the pipe reports the end of the process

    def start_run(self, config: Config, folder: Path, resume: bool) -> None:
        """Start a run. :attr:`answers` becomes readable when it has ended."""
        with contextlib.suppress(OSError):  # the process is dead, which result() reports
            self.answers.send((config.model_dump(mode="json"), str(folder), resume))

    def result(self) -> dict[str, Any]:
        """Return the metrics of the run, or raise its error."""
        try:
            answer, remote_traceback = self.answers.recv()
        except (EOFError, OSError):
            self.ended = True
            self.process.join()
            raise WorkerKilledError(_describe_exit(self.process.exitcode)) from None
        if isinstance(answer, Exception):
            raise answer from RemoteTraceback(f"\n{remote_traceback}")
        metrics: dict[str, Any] = answer
        return metrics


def _describe_exit(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "The worker process was killed, perhaps because the machine ran out of memory."
    return f"The worker process ended before its run was finished (exit code {code})."


def set_up_worker(log_queue: Any) -> None:
    """Ignore Ctrl-C, forward logs to the parent, and stop if the parent is killed (on Linux)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    send_logs_to(log_queue)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _work(answers: Any, log_queue: Any, threads: int) -> None:
    set_up_worker(log_queue)
    while True:
        try:
            config, folder, resume = answers.recv()
        except EOFError:  # the parent has closed the pipe
            return
        try:
            answer: tuple[Any, str] = _train_in_process(config, folder, resume, threads), ""
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


def _train_in_process(sections: dict[str, Any], folder: str, resume: bool, threads: int) -> dict[str, Any]:
    config = make_config(sections)
    train = config.train.model_copy(update={"threads": config.train.threads or threads})
    return train_run(config.model_copy(update={"train": train}), Path(folder), resume)
