"""Trial leases: database rows that assign each trial to one worker, with heartbeats."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    and_,
    cast,
    delete,
    extract,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

BEAT, GRACE = 2, 15
"""Seconds between two heartbeats of a worker, and without a heartbeat until its trial is given to another worker."""

_TABLE = Table(
    "tgnn_claims",
    MetaData(),
    Column("study", String(512), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("worker", String(32), nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("lost", Integer, nullable=False),
)
_ROW = _TABLE.c


class Claims:
    """Leases of one worker on the trials of a study.

    A place is the number of a trial, or the number of a final evaluation.

    Args:
        engine: Engine of the database.
        study: Name of the study.
    """

    def __init__(self, engine: Engine, study: str) -> None:
        self._engine, self._study, self._me = engine, study, uuid.uuid4().hex
        seconds: Any = func.strftime("%s", "now") if engine.name == "sqlite" else extract("epoch", func.now())
        self._now = cast(seconds, BigInteger)  # clock of the database, because the clocks of workers may differ
        _TABLE.create(engine, checkfirst=True)

    def held(self) -> set[int]:
        """Return the places leased by workers that are alive."""
        rows = select(_ROW.place).where(_ROW.study == self._study, _ROW.beat >= self._now - GRACE)
        with self._engine.begin() as connection:
            return set(connection.scalars(rows))

    def take(self, place: int) -> int | None:
        """Try to lease a place.

        Returns:
            The number of workers that died while they held the lease, or ``None`` if another worker holds it.
        """
        expired = and_(self._at(place), _ROW.beat < self._now - GRACE)
        mine = {"worker": self._me, "beat": self._now}
        try:
            with self._engine.begin() as connection:
                if connection.execute(update(_TABLE).where(expired).values(**mine, lost=_ROW.lost + 1)).rowcount:
                    return int(connection.scalar(select(_ROW.lost).where(self._at(place))) or 0)
                connection.execute(insert(_TABLE).values(study=self._study, place=place, **mine, lost=0))
        except IntegrityError:
            return None
        return 0

    def keep(self, place: int) -> bool:
        """Send a heartbeat. Return ``False`` if the lease expired and another worker has taken the place."""
        with self._engine.begin() as connection:
            updated = connection.execute(update(_TABLE).where(self._mine(place)).values(beat=self._now))
        return updated.rowcount == 1

    def put_back(self, place: int) -> None:
        """Release a place, so that any worker can lease it."""
        with self._engine.begin() as connection:
            connection.execute(delete(_TABLE).where(self._mine(place)))

    @contextlib.contextmanager
    def keeping(self, place: int) -> Iterator[None]:
        """Send heartbeats while the block runs, then release the place."""
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(BEAT):
                with contextlib.suppress(SQLAlchemyError):  # a lasting failure is reported by the worker itself
                    self.keep(place)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self.put_back(place)

    def _at(self, place: int) -> ColumnElement[bool]:
        return and_(_ROW.study == self._study, _ROW.place == place)

    def _mine(self, place: int) -> ColumnElement[bool]:
        return and_(self._at(place), _ROW.worker == self._me)
