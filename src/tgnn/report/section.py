"""A result as a part of the page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tgnn.experiments.failure_messages import in_full
from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import reference
from tgnn.report.figure import Figure
from tgnn.report.figures import MAKERS
from tgnn.report.scores import against_table, efficiency_table, score_table
from tgnn.report.tables import Cell, Table


@dataclass(frozen=True)
class Section:
    """What is shown of a result, or of a study.

    Args:
        key: Its id in the page.
        title: Its heading.
        name: Of the experiment.
        command: That makes it.
        notes: Above the tables.
        tables: Each with a heading, which may be empty.
        figures: After the first table, or before it where the result is a figure.
        environment: Versions and machine.
        drawn: Whether the figures are the result, and the tables only tell their numbers.
        order: Of its kind in the page.
        failures: Whose they are and why, where a cell is too small to say it.
        where: Its file, where others have the same title.
        summary: What opens the tables of one that is drawn.
        recipe: Settings to copy: a heading, and the text.
        lists: More about it, each with a heading.
    """

    key: str
    title: str
    name: str
    command: str
    notes: Sequence[str]
    tables: Sequence[tuple[str, Table]]
    figures: Sequence[Figure]
    environment: Mapping[str, Any]
    drawn: bool
    order: int
    failures: Sequence[tuple[str, str]] = ()
    where: str = ""
    summary: str = "The numbers"
    recipe: tuple[str, str] | None = None
    lists: Sequence[tuple[str, Mapping[str, str]]] = ()


def slug(text: str) -> str:
    """An id that is safe in a page and in an address.

    Example:
        >>> slug("Table 1: <citation>")
        'table-1-citation'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


def make_section(result: Result, number: int) -> Section:
    """Tables and figures of a result; ``number`` tells it from others of its name."""
    key = f"result-{number}-{slug(result.name)}"
    figures = [found for make in MAKERS.get(result.kind, MAKERS["table"]) if (found := make(result)) is not None]
    tables: list[tuple[str, Table]] = []
    if result.kind == "theorems":
        tables.append(("", _theorems_table(result, f"{key}-theorems")))
    elif result.kind == "efficiency":
        tables.append(("", efficiency_table(result, f"{key}-costs")))
    elif result.cells:
        tables.append(("", score_table(result, f"{key}-scores")))
    if result.kind not in ("theorems", "mixing", "rank", "interactions"):
        tests = against_table(result, f"{key}-tests")
        if tests is not None:
            tables.append((f"Paired tests against {reference(result)}", tests))
    drawn = result.kind in ("rank", "mixing", "interactions") and bool(figures)
    title = result.title or result.name
    order = list(MAKERS).index(result.kind) if result.kind in MAKERS else len(MAKERS)
    about = (key, title, result.name, result.command, result.all_notes)
    failures = [] if result.kind == "theorems" else in_full(result)
    return Section(*about, tables, figures, result.environment, drawn, order, failures)


def _theorems_table(result: Result, key: str) -> Table:
    """Each check: whether it holds, in a word, and what was checked."""
    rows = [
        [Cell(cell.row, cell.row), Cell(cell.column, cell.column), _holds(cell), Cell(cell.note, cell.note)]
        for cell in result.cells
    ]
    return Table(key, ["theorem", "case", "holds", "what was checked"], rows)


def _holds(cell: CellResult) -> Cell:
    if cell.failed:
        return Cell("✗ no", "no", (cell.failed,), "bad")
    return Cell("✓ yes", "yes", tone="good")
