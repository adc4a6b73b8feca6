"""Run the command ``tgnn`` in this process or in another one."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import warm
from tgnn.cli import app

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys, monkeypatch, tmp_path) -> Run:
    """Run the command in this process and in ``tmp_path``. Return its exit code, output and error output.

    The first argument is split into words, and the others are words.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TGNN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TGNN_DATA", raising=False)
    monkeypatch.setattr(logging.getLogger("tgnn"), "propagate", True)  # the command disables it

    def command(text: str, *words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tgnn", *text.split(), *words])
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
    """Run a command that must succeed in this process and return its output."""

    def command(text: str, *words: str) -> str:
        code, out, err = run(text, *words)
        assert code == 0, err
        return out

    return command


@pytest.fixture
def read(succeed) -> Callable[..., Any]:
    """Run a command with ``--json`` that must succeed, and return what it prints."""
    return lambda text, *words: json.loads(succeed(text, *words, "--json"))


@pytest.fixture
def tgnn(tmp_path) -> Run:
    """Run the command in another process. ``installed`` starts the installed program."""

    def command(text: str, folder: Path = tmp_path, installed: bool = False) -> tuple[int, str, str]:
        if installed:
            program = str(Path(sys.executable).with_name("tgnn"))
            found = subprocess.run([program, *text.split()], capture_output=True, text=True, cwd=folder, timeout=300)
        else:
            found = warm.run(warm.TGNN, *text.split(), folder=folder)
        return found.returncode, found.stdout, found.stderr

    return command


def write_tables(folder: Path, nodes: dict[str, Any], sources: Any, targets: Any) -> None:
    """Write ``nodes.csv`` and ``edges.csv``."""
    folder.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(nodes).write_csv(folder / "nodes.csv")
    pl.DataFrame({"source": sources, "target": targets}).write_csv(folder / "edges.csv")


def write_friends(folder: Path, people: int = 60, seed: int = 0, labels: bool = True, **more: Any) -> None:
    """Write tables of two communities. The label is the community, and a feature contains it with noise."""
    rng = np.random.default_rng(seed)
    group = np.arange(people) % 2
    nodes = {
        "id": [f"p{seed}-{i}" for i in range(people)],
        "height": group + rng.normal(0, 0.5, people),
        "town": np.where(rng.random(people) < 0.5, "Rome", "Oslo"),
    }
    if labels:
        nodes["label"] = np.where(group == 0, "tea", "coffee")
    ends = rng.integers(0, people, (2, 4 * people))
    ends = ends[:, (group[ends[0]] == group[ends[1]]) & (ends[0] != ends[1])]
    names = np.array(nodes["id"])
    write_tables(folder, nodes | more, names[ends[0]], names[ends[1]])
