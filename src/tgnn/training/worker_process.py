"""A process that trains one run after another, and is asked to stop by the one that began it, not by Ctrl-C."""

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
from tgnn.training.train import train


class WorkerKilledError(RuntimeError):
    """The process of a run ended before it could say why."""


class RemoteTraceback(Exception):
    """The traceback of an error in a worker, shown as its cause."""


class Worker:
    """Such a process, seen from the one that began it.

    Args:
        spawn: How it is begun.
        said: From :func:`~tgnn.training.log_forwarding.listening`.
        threads: That it has.
    """

    def __init__(self, spawn: SpawnContext, said: Any, threads: int) -> None:
        self.ended = False
        self.answers, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_work, args=(theirs, said, threads))
        with delay_interrupts():
            self._process.start()
        theirs.close()  # so that its end is seen here

    def begin(self, config: Config, folder: Path, resume: bool) -> None:
        """One run; :attr:`answers` can be read when it has ended."""
        with contextlib.suppress(OSError):  # it is dead, which its answer tells
            self.answers.send((config.model_dump(mode="json"), str(folder), resume))

    def result(self) -> dict[str, Any]:
        """The metrics of the run, or its error, raised."""
        try:
            answer, where = self.answers.recv()
        except (EOFError, OSError):
            self.ended = True
            self._process.join()
            raise WorkerKilledError(_how_it_ended(self._process.exitcode)) from None
        if isinstance(answer, Exception):
            raise answer from RemoteTraceback(f"\n{where}")
        found: dict[str, Any] = answer
        return found

    def dismiss(self) -> None:
        """Nothing more is to be done: it ends by itself."""
        self.answers.close()

    def ask(self) -> None:
        """To stop: it saves where it is."""
        self._process.terminate()

    def kill(self) -> None:
        """At once; what it has since its last checkpoint is lost."""
        self._process.kill()

    def wait(self) -> None:
        """Until it has ended."""
        self._process.join()


def _how_it_ended(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, perhaps for want of memory"
    return f"its process ended before the run did (exit code {code})"


def begin_worker(said: Any) -> None:
    """A worker speaks through its parent. If that is killed it is asked to stop (on Linux): it does not go on alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    send_logs_to(said)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _work(answers: Any, said: Any, threads: int) -> None:
    begin_worker(said)
    while True:
        try:
            settings, folder, resume = answers.recv()
        except EOFError:  # it is no longer needed
            return
        try:
            answer: tuple[Any, str] = _train_in_process(settings, folder, resume, threads), ""
        except Interrupted:
            sys.exit(130)
        except Exception as error:  # whatever it is, it is for the parent to judge
            answer = _portable(error), traceback.format_exc()
        answers.send(answer)


def _portable(error: Exception) -> Exception:
    """The error, or one that says the same where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its class does when it is made again
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _train_in_process(settings: dict[str, Any], folder: str, resume: bool, threads: int) -> dict[str, Any]:
    config = make_config(settings)
    own = config.train.model_copy(update={"threads": config.train.threads or threads})
    return train(config.model_copy(update={"train": own}), Path(folder), resume)
