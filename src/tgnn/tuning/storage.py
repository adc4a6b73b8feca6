"""Storage of a study: a SQLite file, or a PostgreSQL database that several machines share."""

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

_FINGERPRINT = "tgnn"
_TIMEOUT = 30
"""Seconds to wait for a locked file or an unresponsive server."""


class StudyError(ValueError):
    """The study or its storage cannot be used. The message says why."""


class StorageLostError(StudyError):
    """The connection to the database was lost during the search."""

    exit_code = 1  # of the command line, because the usage was correct


class SharedStudy:
    """An Optuna study that several workers share. It is created if it does not exist.

    Args:
        url: ``sqlite:///path`` or ``postgresql://...``.
        name: Name of the study.
        direction: ``"maximize"`` or ``"minimize"``.
        fingerprint: Values that must be equal for all workers, by name.
    """

    def __init__(self, url: str, name: str, direction: Direction, fingerprint: Mapping[str, Any]) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.name, self._fingerprint = name, fingerprint
        self._storage, self.claims = _open(url, name)
        try:
            with storage_errors(url, StudyError, "cannot be used"):
                self.study = optuna.create_study(
                    storage=self._storage, study_name=name, direction=direction, load_if_exists=True
                )
                self.check()
        except StudyError:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections to the database."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def check(self) -> None:
        """Raise a ``StudyError`` if the study was started with another fingerprint."""
        stored = self.study.user_attrs.get(_FINGERPRINT)
        if stored is None:
            if self.study.get_trials(deepcopy=False):
                raise StudyError(f"study {self.name} was not created by tgnn: choose another name with --study")
            self.study.set_user_attr(_FINGERPRINT, dict(self._fingerprint))
            return
        for key in (*self._fingerprint, *stored):
            if (before := stored.get(key, "none")) != (now := self._fingerprint.get(key, "none")):
                raise StudyError(
                    f"study {self.name} was started with a different {key} ({before} before, {now} now): resume it "
                    "with the same options, or start another study with --out or --study"
                )


@contextlib.contextmanager
def storage_errors(
    url: str, error_type: type[StudyError] = StorageLostError, problem: str = "does not respond"
) -> Iterator[None]:
    """Turn database errors in the block into a ``StudyError`` that does not contain the password."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        advice = ". Run the same command again to resume." if error_type is StorageLostError else ""
        raise error_type(f"storage {_without_password(make_url(url))} {problem}: {_reason(error)}{advice}") from error


def _open(url: str, name: str) -> tuple[optuna.storages.RDBStorage, Claims]:
    """Open the database and create its tables."""
    try:
        parsed = make_url(url)
        is_file = parsed.get_backend_name() == "sqlite"
        is_valid = is_file or parsed.get_backend_name() == "postgresql"
        is_valid = is_valid and not (is_file and parsed.database in (None, "", ":memory:"))
        is_valid = is_valid and "@" not in (parsed.host or "")  # an unescaped @ of the password
        if parsed.drivername == "postgresql":  # the default driver depends on the version of SQLAlchemy
            parsed = parsed.set(drivername="postgresql+psycopg2")
        # Optuna calls str.format on the URL, so braces are escaped.
        full_url = parsed.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    except (ArgumentError, NoSuchModuleError, ValueError):  # their messages may contain the password
        is_valid = False
    if not is_valid:
        raise StudyError(
            "invalid --storage: use sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME, with %40 for an @ in the "
            "password"
        ) from None
    for attempt in range(6):
        try:
            storage = optuna.storages.RDBStorage(
                full_url, engine_kwargs=_file_options() if is_file else _server_options()
            )
            if is_file:  # SQLite has no row locks, so transactions take the write lock first
                event.listen(storage.engine, "begin", _begin_immediate)
            return storage, Claims(storage.engine, name)
        except ImportError as error:
            driver = getattr(error.__cause__, "name", None) or error.name or "a driver"
            raise ImportError(f"the storage needs {driver}: pip install 'tgnn[postgres]'") from error
        except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
            reason = _reason(error)
            # Another process may be creating the same tables.
            is_race = "exists" in reason or "duplicate" in reason or "UNIQUE" in reason
            if not is_race or attempt == 5:
                raise StudyError(f"storage {_without_password(parsed)} cannot be opened: {reason}") from error
            time.sleep(random.random())
    raise AssertionError


def _file_options() -> dict[str, Any]:
    return {"connect_args": {"timeout": _TIMEOUT, "isolation_level": None}}


def _server_options() -> dict[str, Any]:
    arguments = {"connect_timeout": _TIMEOUT, "tcp_user_timeout": _TIMEOUT * 1000}
    return {"pool_pre_ping": True, "connect_args": arguments}


def _begin_immediate(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _reason(error: BaseException) -> str:
    """Return the message of a database error as one line."""
    if isinstance(error, StorageInternalError) and error.__cause__ is not None:
        error = error.__cause__
    text = str(error.orig if isinstance(error, DBAPIError) else error)
    return " ".join(text.split()) or type(error).__name__


def _without_password(url: URL) -> str:
    """Return a URL without user, password and options."""
    return URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database).render_as_string()
