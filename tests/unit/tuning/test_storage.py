"""Storages that cannot be opened, and studies that cannot be resumed."""

from __future__ import annotations

import sqlite3
import sys
import time

import optuna
import pytest

from tests.unit.tuning.conftest import PASSWORD, comparable, small_plan
from tgnn.tuning import storage
from tgnn.tuning.results import STUDY_FILE, StudyResult
from tgnn.tuning.storage import StorageLostError, StudyError, open_storage
from tgnn.tuning.study import tune

USE = "use sqlite:///FILE or postgresql://"
NO_SERVER = r"postgresql://127.0.0.1:9/name cannot be opened"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        *((url, USE) for url in ("nonsense", "", "sqlite://", "sqlite:///:memory:")),
        *((f"{scheme}://me:secret@host/name", USE) for scheme in ("nothing+at+all", "postgres", "mysql")),
        *((f"postgresql://me:{rest}/name", USE) for rest in ("sec@secret@host", "secret@host:port")),
        *(
            (f"postgresql://me:secret@127.0.0.1:9/name{options}", NO_SERVER)
            for options in ("", "?connect_timeout=1", "?no_such_option=1", "?password=secret")
        ),
        ("sqlite:////no/such/folder/study.db", "unable to open database file"),
    ],
)
def test_storages_that_cannot_be_opened(url, message):
    with pytest.raises(StudyError, match=message) as found:
        open_storage(url)
    assert "sec" not in str(found.value)
    assert message != USE or found.value.__cause__ is None


@pytest.mark.postgres
def test_a_wrong_password(server):
    with pytest.raises(StudyError, match="password authentication failed") as found:
        open_storage(server.url.replace(PASSWORD, "wrong-{one}"))
    assert "wrong" not in str(found.value)


def test_a_driver_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(ImportError, match=r"the storage needs psycopg2: pip install '.\[postgres\]'"):
        open_storage("postgresql://me@127.0.0.1:9/name")


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "study.db").write_text("x" * 5000)
    with pytest.raises(StudyError, match=r"study.db cannot be opened: file is not a database"):
        tune(small_plan(), tmp_path)
    assert not (tmp_path / STUDY_FILE).exists()


def test_a_file_that_cannot_be_written(tmp_path):
    tune(small_plan(trials=1), tmp_path)
    with pytest.raises(StudyError, match="cannot be used: attempt to write a readonly database"):
        tune(small_plan(trials=1), tmp_path, storage=f"sqlite:///file:{tmp_path}/study.db?mode=ro&uri=true")


def test_a_file_that_another_program_keeps_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_TIMEOUT", 0.2)
    tune(small_plan(trials=1), tmp_path)
    other = sqlite3.connect(tmp_path / "study.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StudyError, match="database is locked"):
        tune(small_plan(trials=1), tmp_path)
    other.close()
    assert len(tune(small_plan(trials=2), tmp_path).trials) == 2


@pytest.mark.postgres
def test_a_database_that_goes_away(server, tmp_path):
    """Finished trials are kept, and the search is resumed when the database is back."""

    def stop(result: StudyResult) -> None:
        if len(result.trials) == 3:
            server.stop()

    with pytest.raises(StorageLostError, match="does not respond: .*Run the same command again") as found:
        tune(small_plan(trials=6, epochs=1), tmp_path, storage=server.url, name="away", on_progress=stop)
    server.start()
    assert PASSWORD not in str(found.value)
    before = StudyResult.read(tmp_path / STUDY_FILE)
    assert before.count("complete") == 3
    after = tune(small_plan(trials=6, epochs=1), tmp_path, storage=server.url, name="away")
    assert comparable(after)[:3] == comparable(before)
    assert [trial.number for trial in after.trials] == list(range(6))


@pytest.mark.postgres
def test_a_database_that_goes_away_during_a_trial(server, tmp_path, monkeypatch):
    """The error is one line, without a traceback of the heartbeat thread."""
    monkeypatch.setattr(storage, "HEARTBEAT_SECONDS", 1)

    def score(config, on_epoch):
        server.stop()
        time.sleep(1.5)
        on_epoch(0, 0.5)
        return 0.5

    with monkeypatch.context() as patch:
        patch.setattr("tgnn.tuning.objective.validation_score", score)
        with pytest.raises(StorageLostError, match="does not respond: .*Run the same command again"):
            tune(small_plan(trials=2, epochs=1), tmp_path, storage=server.url, name="during")
    server.start()
    monkeypatch.setattr(storage, "GRACE_SECONDS", 2)
    assert tune(small_plan(trials=2, epochs=1), tmp_path, storage=server.url, name="during").count("complete") == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": 1}, "seed"),
        ({"splits": 1}, "splits"),
        ({"epochs": 6}, r"train.epochs \(\d+ before, 6 now\)"),
        ({"space": {"optimizer.lr": (1.0,)}}, r"search space of .* \(.* before, .* now\)"),
        ({"data": "digits"}, "data"),
    ],
)
def test_a_study_is_not_continued_with_something_else(tmp_path_factory, tmp_path, changed, message):
    tune(small_plan(trials=1), tmp_path, name="study")
    before = (tmp_path / STUDY_FILE).read_text()
    with pytest.raises(StudyError, match=f"study study was started with a different {message}"):
        tune(small_plan(**{"trials": 1, **changed}), tmp_path, name="study")
    assert (tmp_path / STUDY_FILE).read_text() == before


def test_a_study_of_another_program_is_left_alone(tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    optuna.create_study(storage=url, study_name="theirs").optimize(lambda trial: 1.0, n_trials=1)
    with pytest.raises(StudyError, match="was not created by tgnn"):
        tune(small_plan(), tmp_path, name="theirs")
