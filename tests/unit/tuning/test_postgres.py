"""Two processes on one study, as on two machines; one of them is killed in the middle of a trial."""

from __future__ import annotations

import os
import signal

import optuna
from sqlalchemy import create_engine, text

from tests import warm
from tests.unit.tuning.postgres import PASSWORD
from tgnn.tuning.results import STUDY_FILE, StudyResult

WORKER = """
import sys
from tgnn.cli.app import main
from tgnn.tuning import claims
claims.BEAT, claims.GRACE = 1, 6  # so that the test need not wait for long
main()
"""
TRIALS = 6


def start(url: str, folder: str, where) -> warm.Process:
    arguments = [
        "tune",
        "digits",
        "--model",
        "gcn",
        "--trials",
        str(TRIALS),
        "--together",
        "4",
        "--splits",
        "1",
        "--jobs",
        "1",
    ]
    arguments += ["--set", "train.epochs=40", "--set", "train.patience=40", "--search", "model.hidden_channels=16,32"]
    arguments += ["--jobs", "1", "--finals", "2", "--storage", url, "--study", "shared", "--out", folder]
    return warm.Process(WORKER, *arguments, folder=where, environment=os.environ | {"OMP_NUM_THREADS": "1"})


def test_no_trial_is_lost_or_done_twice_when_a_worker_is_killed(server, tmp_path):
    engine = create_engine(server.url.replace("postgresql:", "postgresql+psycopg2:"))

    def both_are_in_a_trial() -> bool:
        with engine.connect() as connection:
            if connection.scalar(text("select to_regclass('tgnn_claims')")) is None:
                return False
            return connection.scalar(text("select count(*) from tgnn_claims where study = 'shared'")) >= 2

    with start(server.url, "first", tmp_path) as first, start(server.url, "second", tmp_path) as second:
        first.until(both_are_in_a_trial)
        first.send_signal(signal.SIGKILL)
        code, errors = second.wait(), second.read("err")
    assert code == 0, errors
    assert PASSWORD not in errors
    with engine.connect() as connection:
        assert connection.scalar(text("select count(*) from tgnn_claims where study = 'shared'")) == 0
    engine.dispose()
    storage = optuna.storages.RDBStorage(server.url.replace("postgresql:", "postgresql+psycopg2:"))
    places = [trial.user_attrs["place"] for trial in optuna.load_study(study_name="shared", storage=storage).trials]
    storage.engine.dispose()
    assert len(places) == len(set(places))
    assert sorted(places)[:TRIALS] == list(range(TRIALS))
    assert len(places) == TRIALS + 2  # and two final evaluations
    result = StudyResult.read(tmp_path / "second" / STUDY_FILE)
    assert [trial.number for trial in result.trials] == list(range(TRIALS))
    assert result.count("complete", "pruned") == TRIALS
    assert PASSWORD not in (tmp_path / "second" / STUDY_FILE).read_text()
