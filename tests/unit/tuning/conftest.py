"""Databases for the tests of hyperparameter searches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, event

from tests.unit.tuning.postgres import Server, postgres


@pytest.fixture(autouse=True)
def no_fsync() -> Iterator[None]:
    """Do not wait for the disk after every transaction, so that tests are fast on slow disks."""

    def switch_off(connection, record) -> None:
        if type(connection).__module__.startswith("sqlite3"):
            connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", switch_off)
    yield
    event.remove(Engine, "connect", switch_off)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with postgres() as started:
        yield started


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path) -> str:
    """The address of a SQLite and of a PostgreSQL database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    return str(request.getfixturevalue("server").url)
