"""Two processes share a study in PostgreSQL, and one of them is killed during a trial."""

from __future__ import annotations

import os
import signal

import optuna
import pytest

from tests import warm
from tests.unit.tuning.conftest import PASSWORD
from tgnn.tuning.results import STUDY_FILE, StudyResult

WORKER = """
from tgnn.cli.app import main
from tgnn.tuning import storage
storage.HEARTBEAT_SECONDS, storage.GRACE_SECONDS = 1, 6  # so that the test need not wait for long
main()
"""
HELD_WORKER = f"""
import time
import optuna

report = optuna.Trial.report

def hold(*arguments):
    report(*arguments)
    print("held", flush=True)
    time.sleep(3600)

optuna.Trial.report = hold
{WORKER}
"""
"""Worker that stays in its first trial until it is killed."""
TRIALS = 6


def start(script: str, url: str, folder: str, where) -> warm.Process:
    arguments = ["tune", "digits", "--model", "gcn", "--trials", str(TRIALS), "--splits", "1", "--finals", "2"]
    arguments += ["--set", "train.epochs=40", "--set", "train.patience=40", "--search", "model.hidden_channels=16,32"]
    arguments += ["--jobs", "1", "--storage", url, "--study", "shared", "--out", folder]
    return warm.Process(script, *arguments, folder=where, environment=os.environ | {"OMP_NUM_THREADS": "1"})


@pytest.mark.slow
@pytest.mark.postgres
def test_the_trial_of_a_killed_worker_is_retried(server, tmp_path):
    url = server.url.replace("postgresql:", "postgresql+psycopg2:")
    with start(HELD_WORKER, server.url, "first", tmp_path) as first:
        first.until(lambda: "held" in first.read("out"))
        with start(WORKER, server.url, "second", tmp_path) as second:
            first.send_signal(signal.SIGKILL)
            code, errors = second.wait(), second.read("err")
    assert code == 0, errors
    assert PASSWORD not in errors
    storage = optuna.storages.RDBStorage(url)
    attempts = optuna.load_study(study_name="shared", storage=storage).trials
    storage.engine.dispose()
    (retried,) = (trial for trial in attempts if "failed_trial" in trial.system_attrs)
    killed = attempts[retried.system_attrs["failed_trial"]]
    assert killed.state.name == "FAIL"
    assert retried.params == killed.params
    result = StudyResult.read(tmp_path / "second" / STUDY_FILE)
    assert [trial.number for trial in result.trials] == list(range(TRIALS))
    assert result.count("complete", "pruned") == TRIALS
    assert result.finals
    assert result.finals_left == 0
    assert PASSWORD not in (tmp_path / "second" / STUDY_FILE).read_text()
