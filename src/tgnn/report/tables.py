"""What a table of the page is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cell:
    """One cell.

    Args:
        text: What is read first.
        value: What it is sorted by; ``None`` for nothing, which goes last.
        small: Lines under it.
        tone: ``"best"``, ``"failed"``, ``"damaged"``, ``"running"``, ``"good"``, ``"bad"``: how it looks.
        tip: More, for a pointer that rests on it.
        opens: Number of the run that a button here opens.
        badge: A word beside the text.
    """

    text: str
    value: float | str | None = None
    small: Sequence[str] = ()
    tone: str = ""
    tip: str = ""
    opens: int | None = None
    badge: str = ""


@dataclass(frozen=True)
class Table:
    """A table that can be sorted and filtered.

    Args:
        key: Its id in the page.
        headers: Of the columns; the first is that of the rows' names.
        rows: Each as long as the headers; the first cell names it.
        note: Under it.
        numbers: Which columns hold numbers, which stand at the right.
    """

    key: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    numbers: frozenset[int] = field(default=frozenset())
