"""Section of the report page for one result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tgnn.experiments.captions import result_layout, result_notes, result_title
from tgnn.experiments.failure_messages import long_reasons
from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import reference_row
from tgnn.report.charts import ReportFigure
from tgnn.report.result_figures import FIGURES_BY_LAYOUT
from tgnn.report.result_tables import efficiency_table, score_table, significance_table
from tgnn.report.tables import ReportTable, TableCell


@dataclass(frozen=True)
class ReportSection:
    """Section of the report page for a result or a study.

    Args:
        key: HTML id.
        title: Heading.
        name: Name of the experiment or study.
        command: Command line that reproduces it.
        notes: Notes above the tables.
        tables: Tables, each with a heading, which may be empty.
        figures: Figures after the first table, or before all tables if ``drawn``.
        environment: Software versions and machine.
        drawn: Whether to show the figures first and collapse the tables.
        order: Position of the layout on the page.
        failures: Names of failed cells and the full reason, if it is shortened in the table.
        where: Path of the file, if several sections have the same title.
        summary: Label of the collapsed tables.
        recipe: Heading and text of a recipe to copy.
        lists: Lists of names and values, each with a heading.
    """

    key: str
    title: str
    name: str
    command: str
    notes: Sequence[str]
    tables: Sequence[tuple[str, ReportTable]]
    figures: Sequence[ReportFigure]
    environment: Mapping[str, Any]
    drawn: bool
    order: int
    failures: Sequence[tuple[str, str]] = ()
    where: str = ""
    summary: str = "Show the numbers"
    recipe: tuple[str, str] | None = None
    lists: Sequence[tuple[str, Mapping[str, str]]] = ()


def slug(text: str) -> str:
    """Convert a text to a valid HTML id.

    Example:
        >>> slug("Table 1: <citation>")
        'table-1-citation'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


def make_section(result: Result, number: int) -> ReportSection:
    """Build the section of a result. ``number`` makes its HTML id unique."""
    key = f"result-{number}-{slug(result.name)}"
    layout = result_layout(result)
    figures = [figure for draw in FIGURES_BY_LAYOUT[layout] if (figure := draw(result)) is not None]
    tables: list[tuple[str, ReportTable]] = []
    if layout == "theorems":
        tables.append(("", _theorems_table(result, f"{key}-theorems")))
    elif layout == "efficiency":
        tables.append(("", efficiency_table(result, f"{key}-costs")))
    elif result.cells:
        tables.append(("", score_table(result, f"{key}-scores")))
    if layout not in ("theorems", "mixing", "rank", "interactions"):
        tests = significance_table(result, f"{key}-tests")
        if tests is not None:
            tables.append((f"Paired significance tests against {reference_row(result)}", tests))
    drawn = layout in ("rank", "mixing", "interactions") and bool(figures)
    return ReportSection(
        key=key,
        title=result_title(result),
        name=result.name,
        command=result.command,
        notes=result_notes(result),
        tables=tables,
        figures=figures,
        environment=result.environment,
        drawn=drawn,
        order=list(FIGURES_BY_LAYOUT).index(layout),
        failures=[] if layout == "theorems" else long_reasons(result),
    )


def _theorems_table(result: Result, key: str) -> ReportTable:
    """Build the table of theorem checks."""
    rows = [
        [
            TableCell(cell.row, cell.row),
            TableCell(cell.column, cell.column),
            _holds(cell),
            TableCell(cell.note, cell.note),
        ]
        for cell in result.cells
    ]
    return ReportTable(key, ["theorem", "case", "holds", "check"], rows)


def _holds(cell: CellResult) -> TableCell:
    if cell.failed:
        return TableCell("✗ no", "no", (cell.failed,), "bad")
    return TableCell("✓ yes", "yes", tone="good")
