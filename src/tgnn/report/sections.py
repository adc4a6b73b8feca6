"""Sections of the report page as data: tables, figures and texts, which the template ``page/page.html`` renders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tgnn.report.charts import ReportFigure


@dataclass(frozen=True)
class TableCell:
    """One cell of a table.

    Args:
        text: Main text.
        value: Sort key. Cells with ``None`` are sorted last.
        small: Lines below the text, in small print. Empty lines are left out.
        tone: Style class, such as ``"best"`` or ``"failed"``.
        tip: Tooltip.
        opens: HTML id of the run whose details a click opens.
    """

    text: str = ""
    value: float | str | None = None
    small: Sequence[str] = ()
    tone: str = ""
    tip: str = ""
    opens: str = ""


def text_cell(text: str, *small: str, tone: str = "", opens: str = "") -> TableCell:
    """Build a cell that is sorted by its text."""
    return TableCell(text, text or None, small, tone, opens=opens)


def number_cell(value: float | None, show: Callable[[float | None], str], *small: str) -> TableCell:
    """Build a cell with a number, which ``show`` formats."""
    return TableCell(show(value), value, small)


@dataclass(frozen=True)
class ReportTable:
    """Table that can be sorted and filtered, with a heading and a note. The first column names the rows."""

    headers: Sequence[str]
    rows: Sequence[Sequence[TableCell]]
    note: str = ""
    title: str = ""

    @property
    def without_empty_columns(self) -> ReportTable:
        """The table without columns in which no cell has a text. The first column is kept."""
        kept = [
            column
            for column in range(len(self.headers))
            if column == 0 or not self.rows or any(row[column].text or any(row[column].small) for row in self.rows)
        ]
        if len(kept) == len(self.headers):
            return self
        rows = [[row[column] for column in kept] for row in self.rows]
        return replace(self, headers=[self.headers[column] for column in kept], rows=rows)

    @property
    def number_columns(self) -> set[int]:
        """Indices of the columns with numbers, which are right-aligned. The names of the rows are text."""
        return {
            column
            for row in self.rows
            for column, cell in enumerate(row)
            if column and isinstance(cell.value, int | float)
        }


@dataclass(frozen=True)
class Card:
    """Best model of a data set: its name, its score, and lines below them."""

    title: str
    name: str
    score: str
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class ReportSection:
    """Section of the report page.

    Args:
        key: HTML id.
        title: Heading.
        lead: Introduction below the heading.
        cards: Best models, above everything else.
        name: Name of the experiment or study.
        command: Command line that reproduces it.
        notes: Notes, collapsed below tables and figures.
        problems: What failed or is damaged, and the reason.
        tables: Tables. Figures come after the first one.
        figures: Figures.
        collapsed: Label of the collapsed tables, which come after the figures. Empty: the tables are not collapsed.
        recipe: Heading and text of a recipe to copy.
        lists: Lists of names and values, each with a heading.
        environment: Software versions and machine.
        order: Position on the page.
        where: Path of the file, if several sections have the same title.
    """

    key: str
    title: str
    lead: str = ""
    name: str = ""
    command: str = ""
    notes: Sequence[str] = ()
    problems: Sequence[tuple[str, str]] = ()
    tables: Sequence[ReportTable] = ()
    figures: Sequence[ReportFigure] = ()
    collapsed: str = ""
    recipe: tuple[str, str] | None = None
    lists: Sequence[tuple[str, Mapping[str, str]]] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    order: int = 0
    where: str = ""
    cards: Sequence[Card] = ()


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten a nested configuration to dotted names.

    Example:
        >>> flatten({"model": {"rank": 8, "mix": None}})
        {'model.rank': '8', 'model.mix': 'none'}
    """
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            flat[f"{prefix}{key}"] = " ".join(str(part) for part in value)
        else:
            flat[f"{prefix}{key}"] = "none" if value is None else str(value)
    return flat
