"""Storage of a study: a SQLite file, or a PostgreSQL database that several machines share.

Optuna's ``JournalStorage`` is not used, because it has no heartbeats: a trial of a killed worker would be lost.
"""

from __future__ import annotations

import contextlib
import random
import time
import warnings
from collections.abc import Iterator
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from sqlalchemy import URL, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

HEARTBEAT_SECONDS, GRACE_SECONDS = 2, 15
"""Seconds between two heartbeats of a trial, and without a heartbeat until the trial is retried."""

MAX_RETRIES = 2
"""A trial fails if more workers than this die while they run it, because it may be the cause."""

DATABASE_ERRORS = (SQLAlchemyError, StorageInternalError)
"""Exceptions of a database that cannot be reached or used."""

_TIMEOUT = 30
"""Seconds to wait for a locked file or an unresponsive server."""

_OPEN_ATTEMPTS = 6
"""Number of attempts to open a database in which other processes may be creating the same tables."""


class StudyError(ValueError):
    """The study or its storage cannot be used. The message says why."""


class StorageLostError(StudyError):
    """The connection to the database was lost during the search."""

    exit_code = 1  # of the command line, because the usage was correct


class HeartbeatStorage(RDBStorage):
    """Optuna storage whose heartbeats continue after a temporary failure of the database."""

    def record_heartbeat(self, trial_id: int) -> None:
        """Record a heartbeat. A lasting failure is reported by the worker, not by its heartbeat thread."""
        with contextlib.suppress(*DATABASE_ERRORS):
            super().record_heartbeat(trial_id)


@contextlib.contextmanager
def storage_errors(
    url: str, error_type: type[StudyError] = StorageLostError, problem: str = "does not respond"
) -> Iterator[None]:
    """Turn database errors in the block into a ``StudyError`` that does not contain the password."""
    try:
        yield
    except DATABASE_ERRORS as error:
        advice = ". Run the same command again to resume." if error_type is StorageLostError else ""
        raise error_type(f"storage {_without_password(make_url(url))} {problem}: {_reason(error)}{advice}") from error


def open_storage(url: str) -> HeartbeatStorage:
    """Open a database, create its tables if needed, and turn on heartbeats and the retry of stale trials.

    An invalid URL and a database that cannot be opened raise a ``StudyError``, which does not contain the password.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=ExperimentalWarning)  # Optuna calls its heartbeats experimental
    parsed = _parse_url(url)
    for attempt in range(1, _OPEN_ATTEMPTS + 1):
        try:
            return _connect(parsed)
        except ImportError as error:
            driver = getattr(error.__cause__, "name", None) or error.name or "a driver"
            raise ImportError(f"the storage needs {driver}: pip install '.[postgres]'") from error
        except (*DATABASE_ERRORS, RuntimeError) as error:
            reason = _reason(error)
            is_race = any(word in reason for word in ("exists", "duplicate", "UNIQUE"))
            if not is_race or attempt == _OPEN_ATTEMPTS:
                raise StudyError(f"storage {_without_password(parsed)} cannot be opened: {reason}") from error
            time.sleep(random.random())
    raise AssertionError


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        is_file = backend == "sqlite" and parsed.database not in (None, "", ":memory:")
        is_server = backend == "postgresql" and "@" not in (parsed.host or "")  # an unescaped @ of the password
    except (ArgumentError, NoSuchModuleError, ValueError):  # their messages may contain the password
        is_file = is_server = False
    if not is_file and not is_server:
        raise StudyError(
            "invalid --storage: use sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME, with %40 for an @ in the "
            "password"
        ) from None
    # The default driver depends on the version of SQLAlchemy.
    return parsed.set(drivername="postgresql+psycopg2") if parsed.drivername == "postgresql" else parsed


def _connect(url: URL) -> HeartbeatStorage:
    is_file = url.get_backend_name() == "sqlite"
    file_options = {"timeout": _TIMEOUT, "isolation_level": None}
    server_options = {"connect_timeout": _TIMEOUT, "tcp_user_timeout": _TIMEOUT * 1000}
    storage = HeartbeatStorage(
        # Optuna calls str.format on the URL, so braces are escaped.
        url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}"),
        engine_kwargs={"pool_pre_ping": True, "connect_args": file_options if is_file else server_options},
        heartbeat_interval=HEARTBEAT_SECONDS,
        grace_period=GRACE_SECONDS,
        heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=MAX_RETRIES),
    )
    if is_file:  # SQLite has no row locks, so transactions take the write lock first
        event.listen(storage.engine, "begin", _begin_immediate)
    return storage


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
