"""A small search that takes about a second, and databases for it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tgnn.training.recipes import resolve
from tgnn.tuning.results import StudyResult
from tgnn.tuning.search_space import SearchPlan

SPACE = {
    "optimizer.lr": (0.0001, 0.001, 0.01, 0.05),
    "model.dropout": (0.0, 0.3, 0.6),
    "model.hidden_channels": (4, 8, 16),
    "data.features": ("stored", "row-l2"),
}


def small_plan(data: str = "karate", epochs: int = 5, **more: Any) -> SearchPlan:
    config = resolve(data, "gcn", "node", changes={"train.epochs": epochs, "model.hidden_channels": 16})
    options = {"space": SPACE, "trials": 10, "splits": 2} | more
    return SearchPlan(config, **options)


def comparable(result: StudyResult) -> list[tuple[Any, ...]]:
    """Return what two runs of the same search must have in common: everything about the trials but their duration."""
    return [(t.number, t.state, dict(t.params), t.score, list(t.scores), t.reason) for t in result.trials]


# ---- databases ---------------------------------------------------------------------------------------------------

PASSWORD = "open-sesame"


class Server:
    """A PostgreSQL server that listens on a socket in its folder."""

    def __init__(self, folder: Path, before: list[str]) -> None:
        self._folder, self._before = folder, before
        self.url = f"postgresql://me:{PASSWORD}@/postgres?host={folder}"

    def run(self, *words: str) -> None:
        done = subprocess.run([*self._before, *words], cwd=self._folder, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            pytest.skip(f"{words[0]}: {done.stderr.strip()}")

    def start(self) -> None:
        options = f"-c listen_addresses='' -c fsync=off -c max_connections=30 -k {self._folder}"
        self.run("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")


@contextmanager
def postgres() -> Iterator[Server]:
    """Start a server, or skip the test with the reason why there is none."""
    pytest.importorskip("psycopg2")
    missing = [name for name in ("initdb", "pg_ctl") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} of PostgreSQL is not in PATH")
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # pytest's folder is private, and its path is too long for a socket
    try:
        server = Server(folder, _unprivileged_command(folder))
        (folder / "password").write_text(PASSWORD)
        os.chmod(folder / "password", 0o644)
        server.run("initdb", "-D", "data", "-U", "me", "-A", "scram-sha-256", "--pwfile", "password", "-N")
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _unprivileged_command(folder: Path) -> list[str]:
    """Return a command prefix that drops root privileges, because PostgreSQL does not run as root."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no setpriv to run it as another user")
    users = {user.pw_name: user for user in pwd.getpwall()}
    user = users.get("postgres") or users.get("nobody")
    if user is None:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


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
