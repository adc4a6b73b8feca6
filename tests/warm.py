"""Start Python processes quickly by forking a server that has imported torch.

Importing torch takes seconds. A forked process needs no import, and otherwise behaves like a new process: it has its
own exit code, output, signals and session.
"""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path

TGNN = "from tgnn.__main__ import main\nmain()"  # the script of the installed command
HELD = """
import contextlib, pathlib, time
from tgnn.cli import training_output

show_epochs = training_output.show_epochs

@contextlib.contextmanager
def hold_epochs(*arguments):
    with show_epochs(*arguments) as on_epoch:
        def hold(epoch):
            on_epoch(epoch)
            while epoch.number >= {epoch} and not pathlib.Path({release!r}).exists():
                time.sleep(0.005)
        yield hold

training_output.show_epochs = hold_epochs
"""

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tgnn.cli.app", "tgnn.training.repeated_runs", "tgnn.training.predict", "pytest"])


def held_after(epoch: int, release: Path) -> str:
    """Return the script of a command that trains until an epoch, and continues when the file ``release`` exists.

    A test can kill or interrupt such a process without a race: it cannot end before the signal arrives.
    """
    return HELD.format(epoch=epoch, release=str(release)) + TGNN


class Process:
    """A Python script that runs in its own session. Leaving the ``with`` block kills it and its child processes."""

    def __init__(
        self, script: str, *words: str, folder: Path | None = None, environment: dict[str, str] | None = None
    ) -> None:
        self._output = tempfile.TemporaryDirectory()
        for name in ("out", "err"):
            (Path(self._output.name) / name).touch()
        place = (str(folder or Path.cwd()), environment or dict(os.environ), self._output.name)
        self._process = _forks.Process(target=_become, args=(script, words, *place))
        self._process.start()
        self.pid = int(self._process.pid or 0)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # all have ended
            self.send_signal(signal.SIGKILL, to_all=True)
        self._process.kill()
        self._process.join()
        self._output.cleanup()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int, to_all: bool = False) -> None:
        """Send a signal to the process, or like a terminal to its child processes, too."""
        (os.killpg if to_all else os.kill)(self.pid, number)

    def read(self, name: str) -> str:
        """Return the standard output (``out``) or standard error (``err``) of the process."""
        return (Path(self._output.name) / name).read_text()

    def until(self, holds: Callable[[], bool], seconds: float = 900) -> None:
        """Wait until a condition holds, which must happen before the process ends."""
        end = time.monotonic() + seconds
        while not holds():
            assert self.returncode is None, self.read("err")
            assert time.monotonic() < end, f"the condition did not hold after {seconds} seconds: {self.read('err')}"
            time.sleep(0.005)

    def wait(self, seconds: float = 900) -> int:
        """Wait until every process that could write output has ended, and return the exit code."""
        end = time.monotonic() + seconds
        while self.returncode is None or self._somebody_writes():
            assert time.monotonic() < end, f"not done after {seconds} seconds: {self.read('err')}"
            self._process.join(0.01)
        return self.returncode

    def _somebody_writes(self) -> bool:
        """Return whether a process still holds the lock of the error output, which child processes inherit."""
        with open(Path(self._output.name) / "err") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


def run(
    script: str, *words: str, folder: Path | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script and wait until it ends."""
    with Process(script, *words, folder=folder, environment=environment) as process:
        return subprocess.CompletedProcess(words, process.wait(), process.read("out"), process.read("err"))


def _become(script: str, words: tuple[str, ...], folder: str, environment: dict[str, str], output: str) -> None:
    """Give the forked process the session, output, folder and environment of a new process, and run the script."""
    os.setsid()
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(Path(output) / name, os.O_WRONLY | os.O_APPEND)
        fcntl.flock(file, fcntl.LOCK_EX)
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if threads := environment.get("OMP_NUM_THREADS"):  # torch reads it on import only
        import torch

        torch.set_num_threads(int(threads))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["tgnn", *words]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(script, "<script>", "exec"), main.__dict__)
