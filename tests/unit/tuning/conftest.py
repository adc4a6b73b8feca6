"""A database for the tests that want one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.tuning.postgres import Server, postgres


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with postgres() as started:
        yield started


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path) -> str:
    """Of each kind of database in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    return str(request.getfixturevalue("server").url)
