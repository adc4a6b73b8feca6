"""Who does which trial: a row for each in the database, which lets one worker have it."""

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
"""Seconds between two signs of life of a worker, and without one until it counts as killed."""

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
    """Of one worker, and what it sees of the others'.

    Args:
        engine: Of the database.
        study: Name of the study.
    """

    def __init__(self, engine: Engine, study: str) -> None:
        self._engine, self._study, self._me = engine, study, uuid.uuid4().hex
        seconds: Any = func.strftime("%s", "now") if engine.name == "sqlite" else extract("epoch", func.now())
        self._now = cast(seconds, BigInteger)  # by the clock of the database: workers may have others
        _TABLE.create(engine, checkfirst=True)

    def held(self) -> set[int]:
        """Places that a living worker has."""
        rows = select(_ROW.place).where(_ROW.study == self._study, _ROW.beat >= self._now - GRACE)
        with self._engine.begin() as connection:
            return set(connection.scalars(rows))

    def take(self, place: int) -> int | None:
        """Tries to have a place.

        Returns:
            How many workers were killed while they had it; ``None`` where another has it.
        """
        killed = and_(self._at(place), _ROW.beat < self._now - GRACE)
        mine = {"worker": self._me, "beat": self._now}
        try:
            with self._engine.begin() as connection:
                if connection.execute(update(_TABLE).where(killed).values(**mine, lost=_ROW.lost + 1)).rowcount:
                    return int(connection.scalar(select(_ROW.lost).where(self._at(place))) or 0)
                connection.execute(insert(_TABLE).values(study=self._study, place=place, **mine, lost=0))
        except IntegrityError:
            return None
        return 0

    def keep(self, place: int) -> bool:
        """Gives a sign of life; ``False`` where another has taken the place from this worker, as from one killed."""
        with self._engine.begin() as connection:
            found = connection.execute(update(_TABLE).where(self._mine(place)).values(beat=self._now))
        return found.rowcount == 1

    def put_back(self, place: int) -> None:
        """Anybody may have it."""
        with self._engine.begin() as connection:
            connection.execute(delete(_TABLE).where(self._mine(place)))

    @contextlib.contextmanager
    def keeping(self, place: int) -> Iterator[None]:
        """While this lasts the place is kept, and then put back, whatever happens."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(BEAT):
                with contextlib.suppress(SQLAlchemyError):  # the worker itself will tell, if it does not pass
                    self.keep(place)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self.put_back(place)

    def _at(self, place: int) -> ColumnElement[bool]:
        return and_(_ROW.study == self._study, _ROW.place == place)

    def _mine(self, place: int) -> ColumnElement[bool]:
        return and_(self._at(place), _ROW.worker == self._me)
