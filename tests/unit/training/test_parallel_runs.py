"""Runs in worker processes: failures, and log records that arrive in the parent."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from tgnn.training import parallel_runs
from tgnn.training.parallel_runs import WorkerKilledError, mute_logs, receive_logs, run_parallel
from tgnn.training.recipes import resolve


def test_a_missing_package_fails_one_run(monkeypatch, tmp_path):
    def train(config, folder, resume):
        if folder.name == "b":
            raise ImportError("no module of that name")
        return {"test": 1.0}

    monkeypatch.setattr(parallel_runs, "train_run", train)
    config = resolve("karate", "gcn", "node")
    done, failed = [], {}
    run_parallel(
        {name: (config, tmp_path / name) for name in "abc"},
        1,
        False,
        lambda key, metrics: done.append(key),
        lambda key, error: failed.update({key: str(error)}),
    )
    assert (done, failed) == (["a", "c"], {"b": "no module of that name"})


class Odd(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def test_an_error_that_cannot_be_pickled_keeps_its_message():
    sent = parallel_runs._portable(Odd(1, 2))
    assert (type(sent), str(sent)) == (RuntimeError, "Odd: 1 and 2")
    same = ValueError("x")
    assert parallel_runs._portable(same) is same


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="finds the process to kill in /proc, which only Linux has"
)
def test_a_killed_process_fails_one_run(tmp_path):
    forever = {"train.epochs": 10**6, "train.patience": 10**6}
    plans = {
        "long": (resolve("karate", "gcn", "node", changes=forever), tmp_path / "long"),
        "short": (resolve("karate", "gcn", "node", changes={"train.epochs": 2}), tmp_path / "short"),
        "next": (resolve("karate", "gcn", "node", changes={"train.epochs": 2}), tmp_path / "next"),
    }
    done, failed = [], {}

    def end(key, metrics):
        done.append(key)
        if len(done) == 2:
            _kill_worker_of(tmp_path / "long")

    run_parallel(plans, 2, False, end, lambda key, error: failed.update({key: error}))
    assert (sorted(done), list(failed)) == (["next", "short"], ["long"])
    assert isinstance(failed["long"], WorkerKilledError)
    assert "ran out of memory" in str(failed["long"])


def _kill_worker_of(folder: Path) -> None:
    """Kill the child process that has a file of the folder open."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
            if any(file.startswith(f"{folder}/") for file in _open_files(pid)):
                os.kill(int(pid), signal.SIGKILL)
                return
        time.sleep(0.05)
    raise AssertionError(f"no process trains in {folder}")


def _open_files(pid: str) -> list[str]:
    found = []
    with contextlib.suppress(OSError):  # it has ended, or closes one at this moment
        for file in Path(f"/proc/{pid}/fd").iterdir():
            found.append(os.readlink(file))
    return found


# ---- log records -----------------------------------------------------------------------------------------------


def test_log_records_of_other_processes_are_handled():
    records = []
    logger = logging.getLogger("tgnn.records")
    logger.handlers = [logging.NullHandler()]
    logger.handlers[0].handle = records.append
    with receive_logs(get_context("spawn")) as queue:
        queue.put(logging.makeLogRecord({"name": "tgnn.records", "levelno": logging.WARNING, "msg": "odd"}))
    assert [record.getMessage() for record in records] == ["odd"]


def test_a_locked_log_queue_does_not_block():
    """A process that is killed while it writes a record keeps the lock of the queue, but the block ends."""
    with receive_logs(get_context("spawn")) as queue:
        queue._wlock.acquire()
    queue._wlock.release()


def test_one_thread_is_muted_and_others_are_logged(caplog):
    logger = logging.getLogger("tgnn")
    with caplog.at_level("INFO", logger="tgnn"):
        with mute_logs():
            logger.info("mine")
            with mute_logs():
                pass
            logger.info("still mine")
            other = threading.Thread(target=logger.info, args=("another's",))
            other.start()
            other.join()
        logger.info("mine again")
    assert [record.getMessage() for record in caplog.records] == ["another's", "mine again"]
