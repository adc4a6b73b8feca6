"""The command, in this process where that is enough, and for real where it is not."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import warm
from tgnn.cli import app

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys, monkeypatch, tmp_path) -> Run:
    """The command in this process, in ``tmp_path``: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TGNN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TGNN_DATA", raising=False)
    monkeypatch.setattr(logging.getLogger("tgnn"), "propagate", True)  # the command turns it off, for good

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tgnn", *words])
        try:
            app.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        output = capsys.readouterr()
        return code, output.out, output.err

    return command


@pytest.fixture
def succeed(run) -> Callable[..., str]:
    """A command in this process that must succeed: standard output."""

    def command(*words: str) -> str:
        code, out, err = run(*words)
        assert code == 0, err
        return out

    return command


@pytest.fixture
def tgnn(tmp_path) -> Run:
    """The command in a process and a folder of its own; ``installed``: the program that a user calls."""

    def command(*words: str, folder: Path = tmp_path, installed: bool = False) -> tuple[int, str, str]:
        if installed:
            program = str(Path(sys.executable).with_name("tgnn"))
            found = subprocess.run([program, *words], capture_output=True, text=True, cwd=folder, timeout=300)
        else:
            found = warm.run(warm.TGNN, *words, folder=folder)
        return found.returncode, found.stdout, found.stderr

    return command
