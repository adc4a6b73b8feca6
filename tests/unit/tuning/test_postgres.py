"""Two processes share a study in PostgreSQL, and one of them is killed during a trial."""

from __future__ import annotations

import os
import signal

import optuna
import pytest
from sqlalchemy import create_engine, text

from tests import warm
from tests.unit.tuning.postgres import PASSWORD
from tgnn.tuning.results import STUDY_FILE, StudyResult

WORKER = """
from tgnn.cli.app import main
from tgnn.tuning import storage
storage.HEARTBEAT_SECONDS, storage.GRACE_SECONDS = 1, 6  # so that the test need not wait for long
main()
"""
TRIALS = 6

RUNNING_TRIALS = """
select count(distinct trial_id) from trials
join trial_intermediate_values using (trial_id) join studies using (study_id)
where study_name = 'shared' and state = 'RUNNING'
"""
"""Number of trials that have reported a score and are not finished."""


def start(url: str, folder: str, where) -> warm.Process:
    arguments = ["tune", "digits", "--model", "gcn", "--trials", str(TRIALS), "--splits", "1", "--finals", "2"]
    arguments += ["--set", "train.epochs=40", "--set", "train.patience=40", "--search", "model.hidden_channels=16,32"]
    arguments += ["--jobs", "1", "--storage", url, "--study", "shared", "--out", folder]
    return warm.Process(WORKER, *arguments, folder=where, environment=os.environ | {"OMP_NUM_THREADS": "1"})


@pytest.mark.slow
@pytest.mark.postgres
def test_the_trial_of_a_killed_worker_is_retried(server, tmp_path):
    url = server.url.replace("postgresql:", "postgresql+psycopg2:")
    engine = create_engine(url)

    def both_are_in_a_trial() -> bool:
        with engine.connect() as connection:
            if connection.scalar(text("select to_regclass('trial_intermediate_values')")) is None:
                return False
            return connection.scalar(text(RUNNING_TRIALS)) >= 2

    with start(server.url, "first", tmp_path) as first, start(server.url, "second", tmp_path) as second:
        first.until(both_are_in_a_trial)
        first.send_signal(signal.SIGKILL)
        code, errors = second.wait(), second.read("err")
    engine.dispose()
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
