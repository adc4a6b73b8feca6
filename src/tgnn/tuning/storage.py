"""Where a study is kept: a file, or a database that many machines share."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import optuna
from optuna.exceptions import StorageInternalError
from sqlalchemy import URL, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from tgnn.tuning.claims import Claims

Direction = Literal["maximize", "minimize"]

_FACTS = "tgnn"
_PATIENCE = 30
"""Seconds to wait for others who write to the same file, or for a machine that does not answer."""


class StudyError(ValueError):
    """A study that cannot be used, or a place where none can be kept; the text says why."""


class LostStorage(StudyError):
    """The database went away in the middle."""

    exit_code = 1  # of the command line: nothing is wrong with what was typed


class Shared:
    """A study as its workers share it, made if it is not there.

    Args:
        url: ``sqlite:///path`` or ``postgresql://...``.
        name: Of the study.
        direction: ``"maximize"`` or ``"minimize"``.
        facts: What must be the same for all who work on it, in words and values.
    """

    def __init__(self, url: str, name: str, direction: Direction, facts: Mapping[str, Any]) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.name, self._facts = name, facts
        self._storage, self.claims = _open(url, name)
        how: dict[str, Any] = {"study_name": name, "direction": direction, "load_if_exists": True}
        try:
            with in_words(url, StudyError, "cannot be used"):
                self.study = optuna.create_study(storage=self._storage, **how)
                self.check()
        except StudyError:
            self.close()
            raise

    def close(self) -> None:
        """And all connections to it."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def check(self) -> None:
        """Refuses a study that was begun with something else."""
        found = self.study.user_attrs.get(_FACTS)
        if found is None:
            if self.study.get_trials(deepcopy=False):
                raise StudyError(f"the study {self.name} there is not of tgnn: begin another with --study")
            self.study.set_user_attr(_FACTS, dict(self._facts))
            return
        for what in (*self._facts, *found):
            if (then := found.get(what, "none")) != (now := self._facts.get(what, "none")):
                raise StudyError(
                    f"the study {self.name} was begun with other {what} ({then} then, {now} now): continue it with "
                    "what it had, or begin another with --out or --study"
                )


@contextlib.contextmanager
def in_words(url: str, kind: type[StudyError] = LostStorage, what: str = "does not answer") -> Iterator[None]:
    """Around what uses the database: errors of it say what happened, and no password."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        more = "; type the same line again to go on when it does" if kind is LostStorage else ""
        raise kind(f"the storage {_shown(make_url(url))} {what}: {_reason(error)}{more}") from error


def _open(url: str, name: str) -> tuple[optuna.storages.RDBStorage, Claims]:
    """The database, with all tables; one that cannot be used is an error that says why."""
    try:
        parsed = make_url(url)
        is_file = parsed.get_backend_name() == "sqlite"
        known = is_file or parsed.get_backend_name() == "postgresql"
        known = known and not (is_file and parsed.database in (None, "", ":memory:"))
        known = known and "@" not in (parsed.host or "")  # but in the password
        if parsed.drivername == "postgresql":  # which driver that is depends on the version of SQLAlchemy
            parsed = parsed.set(drivername="postgresql+psycopg2")
        whole = parsed.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")  # Optuna formats it
    except (ArgumentError, NoSuchModuleError, ValueError):  # their texts may have the password
        known = False
    if not known:
        raise StudyError(
            "the storage cannot be read: give sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME, "
            "with %40 for an @ in the password"
        ) from None
    for attempt in range(6):
        try:
            storage = optuna.storages.RDBStorage(whole, engine_kwargs=_file() if is_file else _server())
            if is_file:  # what is read is still so when it is written: SQLite locks rows for nobody
                event.listen(storage.engine, "begin", _lock)
            return storage, Claims(storage.engine, name)
        except ImportError as error:
            missing = getattr(error.__cause__, "name", None) or error.name or "a driver"
            raise ImportError(f"the storage needs {missing}: pip install 'tgnn[postgres]'") from error
        except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
            reason = _reason(error)
            both = "exists" in reason or "duplicate" in reason or "UNIQUE" in reason  # two make the tables at once
            if not both or attempt == 5:
                raise StudyError(f"the storage {_shown(parsed)} cannot be opened: {reason}") from error
            time.sleep(random.random())
    raise AssertionError


def _file() -> dict[str, Any]:
    return {"connect_args": {"timeout": _PATIENCE, "isolation_level": None}}


def _server() -> dict[str, Any]:
    arguments = {"connect_timeout": _PATIENCE, "tcp_user_timeout": _PATIENCE * 1000}
    return {"pool_pre_ping": True, "connect_args": arguments}


def _lock(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _reason(error: BaseException) -> str:
    """What the database says, in one line."""
    if isinstance(error, StorageInternalError) and error.__cause__ is not None:
        error = error.__cause__
    text = str(error.orig if isinstance(error, DBAPIError) else error)
    return " ".join(text.split()) or type(error).__name__


def _shown(url: URL) -> str:
    """Without user, password and options."""
    return URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database).render_as_string()
