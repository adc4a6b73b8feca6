"""Ctrl-C and SIGTERM stop all processes of a command, after all have saved a checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import warm
from tgnn.training.checkpoint import read_tensors
from tgnn.training.interrupts import catch_interrupts
from tgnn.training.run_folder import RunFolder

pytestmark = pytest.mark.slow
FOREVER = ("--set", "train.epochs=1000000", "--set", "train.patience=1000000")
WAYS = {
    "reproduce": ("reproduce", "table-1-citation", "--datasets", "karate", "--models", "gcn,tgnn", "--runs", "2"),
    "train": ("train", "karate", "--model", "gcn", "--runs", "4"),
}


def start(way: str, folder: Path) -> warm.Process:
    arguments = [*WAYS[way], *FOREVER, "--jobs", "2", "--out", str(folder)]
    return warm.Process(warm.TGNN, *arguments, environment=os.environ | {"OMP_NUM_THREADS": "1"})


def stop(process: warm.Process, number: int, ready: Callable[[], bool], to_all: bool = True) -> None:
    """Send a signal to all processes, or to the parent, as soon as they are ready."""
    process.until(ready)
    process.send_signal(number, to_all=to_all)
    code, output = process.wait(60), process.read("err")
    assert "Traceback" not in output
    assert "interrupted;" in output
    assert "killed" not in output
    assert code == 130


def two_runs_train(folder: Path) -> bool:
    return sum(len(RunFolder(path.parent).history()) > 2 for path in folder.rglob("history.jsonl")) == 2


def is_worker(pid: str) -> bool:
    """Whether a process exists and is a worker. The command line of a process that has ended is empty."""
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def find_workers(process: warm.Process) -> list[str]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [pid for pid in children if is_worker(pid)]


def test_all_runs_save_a_checkpoint(tmp_path):
    with start("train", tmp_path) as process:
        stop(process, signal.SIGTERM, lambda: two_runs_train(tmp_path), to_all=False)
    started = [path.parent for path in tmp_path.rglob("history.jsonl")]
    assert len(started) == 2
    for folder in started:
        assert read_tensors(folder / "checkpoint.safetensors")[1]["epoch"] == len(RunFolder(folder).history())


def test_ctrl_c_during_the_import_of_the_command():
    script = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from tgnn.__main__ import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


@pytest.mark.skipif(sys.platform != "linux", reason="sees in /proc, which only Linux has, when workers have started")
@pytest.mark.parametrize("wait", [0.0, 1.5])
def test_ctrl_c_during_the_import_of_the_workers(wait, tmp_path):
    seen: list[float] = []

    def workers() -> bool:
        seen.extend([time.monotonic()] if find_workers(process) else [])
        return bool(seen) and time.monotonic() - seen[0] >= wait

    with start("reproduce", tmp_path) as process:
        stop(process, signal.SIGINT, workers)


@pytest.mark.skipif(sys.platform != "linux", reason="uses PR_SET_PDEATHSIG, which only Linux has")
def test_workers_save_and_end_when_their_parent_is_killed(tmp_path):
    with start("train", tmp_path) as process:
        process.until(lambda: two_runs_train(tmp_path))
        workers = find_workers(process)
        assert len(workers) == 2
        os.kill(process.pid, signal.SIGKILL)
        until = time.monotonic() + 60
        while any(is_worker(pid) for pid in workers) and time.monotonic() < until:
            time.sleep(0.1)
        assert not any(is_worker(pid) for pid in workers)
    assert len(list(tmp_path.rglob("checkpoint.safetensors"))) == 2


def test_a_forwarded_signal_counts_once():
    """Parent processes forward signals, so that they arrive twice. SIGTERM never kills."""
    with catch_interrupts() as event:
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGTERM):
            signal.raise_signal(number)
        assert event.is_set()
        with catch_interrupts() as inner:
            assert inner.is_set()
    with catch_interrupts() as event:
        assert not event.is_set()


def test_a_second_ctrl_c_stops_immediately(monkeypatch):
    monkeypatch.setattr("tgnn.training.interrupts._DUPLICATE_SECONDS", -1.0)
    with catch_interrupts():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
