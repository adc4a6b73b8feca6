"""The paper's own figures, as data."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class PaperFigure:
    """One cell of a table of the paper.

    Args:
        table: Such as ``"table-1-citation"``.
        row: The model.
        column: The data set.
        value: What the paper reports; a share where it writes per cent.
        spread: Its standard deviation.
    """

    table: str
    row: str
    column: str
    value: float
    spread: float


@cache
def figures() -> tuple[PaperFigure, ...]:
    """All cells."""
    with files("tgnn.experiments").joinpath("paper_figures.csv").open(encoding="utf-8") as file:
        return tuple(
            PaperFigure(row["table"], row["row"], row["column"], float(row["value"]), float(row["spread"]))
            for row in csv.DictReader(file)
        )


def find_paper_figure(table: str, row: str, column: str) -> PaperFigure | None:
    """A cell of a table, if the paper has it.

    Example:
        >>> find_paper_figure("table-efficiency/parameters", "tgnn 8", "3").value
        58128.0
    """
    return next((f for f in figures() if (f.table, f.row, f.column) == (table, row, column)), None)


def reported(model: str, data: str) -> PaperFigure | None:
    """What the paper's main tables report for a model on a data set, if they do.

    Example:
        >>> reported("tgnn", "cora").value
        0.8808
    """
    main = ("table-1-citation", "table-1-ogb", "table-2-graph", "table-tu")
    return next((f for f in figures() if f.table in main and (f.row, f.column) == (model, data)), None)
