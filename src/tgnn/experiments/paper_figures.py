"""Values that the paper reports in its tables, read from ``paper_figures.csv``."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class PaperFigure:
    """Value of one cell in a table of the paper.

    Args:
        table: Name of the table, such as ``"table-1-citation"``.
        row: Name of the model.
        column: Name of the data set.
        value: Reported mean, as a fraction where the paper gives percent.
        spread: Reported standard deviation.
    """

    table: str
    row: str
    column: str
    value: float
    spread: float


@cache
def load_paper_figures() -> tuple[PaperFigure, ...]:
    """Load all cells."""
    with files("tgnn.experiments").joinpath("paper_figures.csv").open(encoding="utf-8") as file:
        return tuple(
            PaperFigure(row["table"], row["row"], row["column"], float(row["value"]), float(row["spread"]))
            for row in csv.DictReader(file)
        )


def find_paper_figure(table: str, row: str, column: str) -> PaperFigure | None:
    """Return a cell of a table, or ``None`` if the paper does not report it.

    Example:
        >>> find_paper_figure("table-efficiency/parameters", "tgnn 8", "3").value
        58128.0
    """
    return next((f for f in load_paper_figures() if (f.table, f.row, f.column) == (table, row, column)), None)


def reported(model: str, data: str) -> PaperFigure | None:
    """Return the value in the main tables of the paper for a model on a data set, or ``None``.

    Example:
        >>> reported("tgnn", "cora").value
        0.8808
    """
    main = ("table-1-citation", "table-1-ogb", "table-2-graph", "table-tu")
    return next((f for f in load_paper_figures() if f.table in main and (f.row, f.column) == (model, data)), None)
