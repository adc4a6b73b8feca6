"""Processes that start at once.

A process that imports torch does nothing else for seconds. These are forked from one that has imported what they need
and done nothing with it: exit code, output, signals and files are those of a process of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import types
from pathlib import Path

TGNN = "from tgnn.cli.app import main\nmain()"  # what the installed command does

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tgnn.cli.app", "tgnn.training.many", "tgnn.training.predict", "pytest"])


class Process:
    """A Python script that runs; as much of ``subprocess.Popen`` as the tests need. After ``with``, it has ended."""

    def __init__(
        self, script: str, *words: str, folder: Path | None = None, environment: dict[str, str] | None = None
    ) -> None:
        self._output = tempfile.TemporaryDirectory()
        place = (str(folder or Path.cwd()), environment or dict(os.environ), self._output.name)
        self._process = _forks.Process(target=_become, args=(script, words, *place))
        self._process.start()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._output.cleanup()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def read(self, name: str) -> str:
        """What it has written so far: ``out`` or ``err``."""
        return (Path(self._output.name) / name).read_text()

    def wait(self, seconds: float = 300) -> int:
        self._process.join(seconds)
        assert self.returncode is not None, f"not done after {seconds} seconds: {self.read('err')}"
        return self.returncode


def run(
    script: str, *words: str, folder: Path | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a script to its end."""
    with Process(script, *words, folder=folder, environment=environment) as process:
        return subprocess.CompletedProcess(words, process.wait(), process.read("out"), process.read("err"))


def _become(script: str, words: tuple[str, ...], folder: str, environment: dict[str, str], output: str) -> None:
    """Makes of this process what a new one would be."""
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(Path(output) / name, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if threads := environment.get("OMP_NUM_THREADS"):  # read when torch is imported, which has been done
        import torch

        torch.set_num_threads(int(threads))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["tgnn", *words]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(script, "<script>", "exec"), main.__dict__)
