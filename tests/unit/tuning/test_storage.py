"""Databases that cannot be used, and studies that are of something else."""

from __future__ import annotations

import sqlite3
import sys

import optuna
import pytest

from tests.unit.tuning.postgres import PASSWORD
from tests.unit.tuning.small import small_plan, told
from tgnn.tuning import storage
from tgnn.tuning.results import RESULT, StudyResult
from tgnn.tuning.storage import LostStorage, Shared, StudyError
from tgnn.tuning.study import tune


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "",
        "sqlite://",
        "sqlite:///:memory:",
        "postgres://me:secret@host/name",
        "mysql://me:secret@host/name",
        "postgresql://me:sec@secret@host/name",
        "postgresql://me:secret@host:port/name",
        "nothing+at+all://me:secret@host",
    ],
)
def test_a_wrong_address(url):
    with pytest.raises(StudyError, match="give sqlite:///FILE or postgresql://") as found:
        Shared(url, "study", "maximize", {})
    assert "sec" not in str(found.value)
    assert found.value.__cause__ is None


@pytest.mark.parametrize("more", ["", "?connect_timeout=1", "?no_such_option=1", "?password=secret"])
def test_nobody_is_there(more):
    with pytest.raises(StudyError, match=r"postgresql://127.0.0.1:9/name cannot be opened") as found:
        Shared(f"postgresql://me:secret@127.0.0.1:9/name{more}", "study", "maximize", {})
    assert "secret" not in str(found.value)


def test_a_wrong_password(server):
    with pytest.raises(StudyError, match="password authentication failed") as found:
        Shared(server.url.replace(PASSWORD, "wrong-{one}"), "study", "maximize", {})
    assert "wrong" not in str(found.value)


def test_a_driver_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(ImportError, match=r"the storage needs psycopg2: pip install 'tgnn\[postgres\]'"):
        Shared("postgresql://me@127.0.0.1:9/name", "study", "maximize", {})


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "study.db").write_text("x" * 5000)
    with pytest.raises(StudyError, match=r"study.db cannot be opened: file is not a database"):
        tune(small_plan(), tmp_path)
    assert not (tmp_path / RESULT).exists()


def test_a_file_in_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(StudyError, match="unable to open database file"):
        Shared(f"sqlite:///{tmp_path}/none/study.db", "study", "maximize", {})


def test_a_file_that_cannot_be_written(tmp_path):
    tune(small_plan(trials=1), tmp_path)
    with pytest.raises(StudyError, match="cannot be used: attempt to write a readonly database"):
        tune(small_plan(trials=1), tmp_path, storage=f"sqlite:///file:{tmp_path}/study.db?mode=ro&uri=true")


def test_a_file_that_another_program_keeps_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_PATIENCE", 0.2)
    tune(small_plan(trials=1), tmp_path)
    other = sqlite3.connect(tmp_path / "study.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StudyError, match="database is locked"):
        tune(small_plan(trials=1), tmp_path)
    other.close()
    assert len(tune(small_plan(trials=2), tmp_path).trials) == 2


def test_a_database_that_goes_away(server, tmp_path):
    """What was done is kept here, too; when it is back the search goes on."""

    def stop(result: StudyResult) -> None:
        if len(result.trials) == 3:
            server.stop()

    with pytest.raises(LostStorage, match="does not answer: .*; type the same line again") as found:
        tune(small_plan(trials=6, epochs=1), tmp_path, storage=server.url, name="away", tell=stop)
    server.start()
    assert PASSWORD not in str(found.value)
    before = StudyResult.read(tmp_path / RESULT)
    assert before.count("complete") == 3
    after = tune(small_plan(trials=6, epochs=1), tmp_path, storage=server.url, name="away")
    assert told(after)[:3] == told(before)
    assert [trial.number for trial in after.trials] == list(range(6))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 1}, "other seed"),
        ({"splits": 1}, "other splits"),
        ({"together": 5}, "other together"),
        ({"epochs": 6}, r"other train.epochs \(\d+ then, 6 now\)"),
        ({"space": {"optimizer.lr": (1.0,)}}, r"other values of .* \(.* then, .* now\)"),
        ({"data": "digits"}, "other data"),
    ],
)
def test_a_study_is_not_continued_with_something_else(tmp_path_factory, tmp_path, changed, said):
    tune(small_plan(trials=1), tmp_path, name="study")
    before = (tmp_path / RESULT).read_text()
    with pytest.raises(StudyError, match=f"the study study was begun with {said}"):
        tune(small_plan(**{"trials": 1, **changed}), tmp_path, name="study")
    assert (tmp_path / RESULT).read_text() == before


def test_a_study_of_another_program_is_left_alone(tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    optuna.create_study(storage=url, study_name="theirs").optimize(lambda trial: 1.0, n_trials=1)
    with pytest.raises(StudyError, match="is not of tgnn"):
        tune(small_plan(), tmp_path, name="theirs")
