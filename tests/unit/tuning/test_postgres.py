"""Two processes on one study, as on two machines; one of them is killed in the middle of a trial."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import optuna
from sqlalchemy import create_engine, text

from tests.unit.tuning.postgres import PASSWORD
from tgnn.tuning.result import RESULT, StudyResult

WORKER = """
import sys
from tgnn.cli.app import main
from tgnn.tuning import claims
claims.BEAT, claims.GRACE = 1, 6  # so that the test need not wait for long
main()
"""
TRIALS = 6


def start(url: str, folder: str, where) -> subprocess.Popen[str]:
    words = [
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
    words += ["--set", "train.epochs=40", "--set", "train.patience=40", "--search", "model.hidden=16,32"]
    words += ["--jobs", "1", "--storage", url, "--study", "shared", "--out", folder]
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, *words],
        cwd=where,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def test_no_trial_is_lost_or_done_twice_when_a_worker_is_killed(server, tmp_path):
    engine = create_engine(server.url.replace("postgresql:", "postgresql+psycopg2:"))
    first, second = (start(server.url, name, tmp_path) for name in ("first", "second"))
    try:
        until = time.monotonic() + 400
        claims: list[int] = []
        while len(claims) < 2:  # both are in the middle of a trial
            assert time.monotonic() < until
            assert first.poll() is None, first.communicate()
            time.sleep(0.1)
            with engine.connect() as connection:
                there = connection.scalar(text("select to_regclass('tgnn_claims')"))
                found = (
                    connection.execute(text("select place from tgnn_claims where study = 'shared'")) if there else ()
                )
                claims = [row.place for row in found]
        first.send_signal(signal.SIGKILL)
        _, said = second.communicate(timeout=400)
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()
    assert second.returncode == 0, said
    assert PASSWORD not in said
    with engine.connect() as connection:
        assert connection.scalar(text("select count(*) from tgnn_claims where study = 'shared'")) == 0
    engine.dispose()
    storage = optuna.storages.RDBStorage(server.url.replace("postgresql:", "postgresql+psycopg2:"))
    places = [trial.user_attrs["place"] for trial in optuna.load_study(study_name="shared", storage=storage).trials]
    storage.engine.dispose()
    assert sorted(places) == list(range(TRIALS))
    result = StudyResult.read(tmp_path / "second" / RESULT)
    assert [trial.number for trial in result.trials] == list(range(TRIALS))
    assert result.count("complete", "pruned") == TRIALS
    assert PASSWORD not in (tmp_path / "second" / RESULT).read_text()
