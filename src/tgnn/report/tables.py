"""Data classes of the tables on the report page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TableCell:
    """One cell of a table.

    Args:
        text: Main text.
        value: Sort key. Cells with ``None`` are sorted last.
        small: Lines below the text, in small print.
        tone: Style class: ``"best"``, ``"failed"``, ``"damaged"``, ``"running"``, ``"finished"``, ``"good"`` or
            ``"bad"``.
        tip: Tooltip.
        opens: Number of the run whose details a click opens.
        badge: Symbol before the text.
    """

    text: str
    value: float | str | None = None
    small: Sequence[str] = ()
    tone: str = ""
    tip: str = ""
    opens: int | None = None
    badge: str = ""


@dataclass(frozen=True)
class ReportTable:
    """Table that can be sorted and filtered.

    Args:
        key: HTML id.
        headers: Headers of the columns. The first column contains the names of the rows.
        rows: Cells of each row, as many as headers.
        note: Text below the table.
        numbers: Indices of the columns with numbers, which are right-aligned.
    """

    key: str
    headers: Sequence[str]
    rows: Sequence[Sequence[TableCell]]
    note: str = ""
    numbers: frozenset[int] = field(default=frozenset())
