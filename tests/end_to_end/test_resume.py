"""Killed, interrupted and resumed runs: all processes of a command stop, and a resumed run ends with the same bits."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import warm
from tgnn.training.checkpoint import read_tensors
from tgnn.training.interrupts import catch_interrupts
from tgnn.training.recipes import resolve
from tgnn.training.repeated_runs import train_repeated
from tgnn.training.run_folder import RunFolder

WAYS = {  # the learning rate is so large that the schedule halves it
    "whole graph": ["digits", "--set", "optimizer.schedule=plateau", "--lr", "0.1"],
    "sampled": ["digits", "--sample", "4,4", "--batch-size", "256"],
    "graphs": ["digits-graphs", "--batch-size", "256", "--set", "optimizer.schedule=cosine", "--hidden", "16"],
}
EPOCHS = {"whole graph": 60, "sampled": 15, "graphs": 6}
FOREVER = ("--set", "train.epochs=1000000", "--set", "train.patience=1000000")
TWO_JOBS = {
    "reproduce": ("reproduce", "table-1-citation", "--datasets", "karate", "--models", "gcn,tgnn", "--runs", "2"),
    "train": ("train", "karate", "--model", "gcn", "--runs", "4"),
}


def start(*arguments: str, script: str = warm.TGNN) -> warm.Process:
    return warm.Process(script, *arguments, environment=os.environ | {"OMP_NUM_THREADS": "1"})


def start_forever(command: str, folder: Path) -> warm.Process:
    """Start a command whose runs never end, two at a time."""
    return start(*TWO_JOBS[command], *FOREVER, "--jobs", "2", "--out", str(folder))


def read_epochs(folder: Path) -> list[int]:
    return [line["epoch"] for line in RunFolder(folder).history()]


def wait_for_epoch(folder: Path, epoch: int, process: warm.Process) -> None:
    process.until(lambda: len(read_epochs(folder)) > epoch)


def count_epochs(folder: Path) -> dict[Path, int]:
    """Return the number of epochs of each run in a folder."""
    return {path.parent: len(read_epochs(path.parent)) for path in folder.rglob("history.jsonl")}


def two_runs_train(folder: Path) -> bool:
    return sum(epochs > 2 for epochs in count_epochs(folder).values()) == 2


def assert_interrupted(process: warm.Process) -> str:
    """Wait for the end of a process that has received a signal, and return its error output."""
    code, output = process.wait(), process.read("err")
    assert code == 130, output
    assert "interrupted;" in output
    assert not {"Traceback", "killed"} & set(output.split())
    return output


def assert_checkpoints(*folders: Path) -> None:
    """Check that runs have saved a checkpoint after their last epoch."""
    for folder in folders:
        assert read_tensors(folder / "checkpoint.safetensors").metadata["epoch"] == len(read_epochs(folder))


# ---- one run ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_run_is_resumed_with_the_same_bits(tmp_path, way):
    chance = random.Random(way)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    arguments = ["train", *WAYS[way], "--epochs", str(EPOCHS[way]), "--patience", "1000", "--set", "train.save_every=0"]
    words = [*arguments, "--out", str(broken)]
    with start(*arguments, "--out", str(whole)) as process:
        for share in (0.2, 0.6):
            epoch = int(share * EPOCHS[way])
            script = warm.held_after(epoch + 2, tmp_path / "never")
            with start(*words, script=script) as part:  # killed at the end of the block
                wait_for_epoch(broken, epoch, part)
                time.sleep(chance.random() * 0.05)
            assert not (broken / "metrics.json").exists()
            words = ["train", "--resume", str(broken)]
        with start(*words) as part:
            assert part.wait() == 0, part.read("err")
        assert process.wait() == 0, process.read("err")
    for folder in (whole, broken):
        assert read_epochs(folder) == list(range(EPOCHS[way]))
    weights, expected = (read_tensors(folder / "model.safetensors").tensors for folder in (broken, whole))
    assert {name: tensor.tolist() for name, tensor in weights.items()} == {
        name: tensor.tolist() for name, tensor in expected.items()
    }
    one, other = (json.loads((folder / "metrics.json").read_text()) for folder in (broken, whole))
    assert one["test"] == other["test"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_a_checkpoint_and_prints_how_to_continue(tmp_path, number):
    with start("train", "digits", *FOREVER, "--out", str(tmp_path / "run")) as process:
        wait_for_epoch(tmp_path / "run", 3, process)
        process.send_signal(number)
        output = assert_interrupted(process)
    assert f"continue with: tgnn train --resume {tmp_path / 'run'}" in output
    assert_checkpoints(tmp_path / "run")


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


# ---- several runs in worker processes ---------------------------------------------------------------------------


@pytest.mark.slow
def test_runs_in_worker_processes_give_the_same_result(tmp_path):
    config = resolve("karate", "tgnn", "node", changes={"train.epochs": 5, "train.threads": 1})
    one = train_repeated(config, 3, tmp_path / "one", jobs=1)
    two = train_repeated(config, 3, tmp_path / "two", jobs=2)
    assert [row["test"] for row in one["each"]] == [row["test"] for row in two["each"]]
    assert one["mean"] == two["mean"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "reproduce"])
def test_sigterm_of_the_parent_saves_a_checkpoint_of_every_run(tmp_path, command):
    with start_forever(command, tmp_path) as process:
        process.until(lambda: two_runs_train(tmp_path))
        process.send_signal(signal.SIGTERM)
        assert_interrupted(process)
    assert_checkpoints(*count_epochs(tmp_path))


@pytest.mark.slow
def test_reproduce_is_interrupted_and_continued(tmp_path):
    """Ctrl-C goes to all processes. The same command then continues the runs, and does not start them again."""

    def train_and_interrupt() -> dict[Path, int]:
        before = count_epochs(tmp_path)
        with start_forever("reproduce", tmp_path) as process:
            process.until(lambda: two_runs_train(tmp_path))
            process.until(lambda: all(count_epochs(tmp_path)[run] > epochs for run, epochs in before.items()))
            process.send_signal(signal.SIGINT, to_all=True)
            assert "run the same command again" in assert_interrupted(process)
        assert_checkpoints(*count_epochs(tmp_path))
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("config.yaml")}

    assert train_and_interrupt() == train_and_interrupt()
    for run, epochs in count_epochs(tmp_path).items():
        assert read_epochs(run) == list(range(epochs))


def is_worker(pid: str) -> bool:
    """Whether a process exists and is a worker. The command line of a process that has ended is empty."""
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def find_workers(process: warm.Process) -> list[str]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [pid for pid in children if is_worker(pid)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds workers in /proc, which only Linux has")
def test_ctrl_c_during_the_import_of_the_workers(tmp_path):
    with start_forever("reproduce", tmp_path) as process:
        process.until(lambda: bool(find_workers(process)))
        process.send_signal(signal.SIGINT, to_all=True)
        assert_interrupted(process)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="uses PR_SET_PDEATHSIG, which only Linux has")
def test_workers_save_and_end_when_their_parent_is_killed(tmp_path):
    with start_forever("train", tmp_path) as process:
        process.until(lambda: two_runs_train(tmp_path))
        workers = find_workers(process)
        assert len(workers) == 2
        process.send_signal(signal.SIGKILL)
        process.wait()  # until the workers have ended, too
        assert not any(is_worker(pid) for pid in workers)
    assert_checkpoints(*count_epochs(tmp_path))
