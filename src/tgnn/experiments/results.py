"""Results of an experiment, stored as one JSON file, and the values that the paper reports (``paper_figures.csv``).

A result file stores scores, configurations and hashes, but no title, notes or layout.
:mod:`tgnn.experiments.captions` looks them up in the definition of the experiment when the result is rendered.
"""

from __future__ import annotations

import csv
import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from tgnn.utils.io import write_json
from tgnn.utils.read import STRICT, read_content, validate

logger = logging.getLogger("tgnn")

VERSION = 2
_MAIN_TABLES = ("table-1-citation", "table-1-ogb", "table-2-graph", "table-tu")


Score = Annotated[float, Field(allow_inf_nan=True), BeforeValidator(lambda value: math.nan if value is None else value)]
"""Metric of a run. NaN is written as null."""


class ResultFileError(ValueError):
    """Raised for a file that is not a valid result of ``tgnn reproduce``."""


@dataclass(frozen=True)
class RunResult:
    """Scores, costs and hashes of one training run of a cell.

    Args:
        seed: Random seed for initialization, shuffling and splitting.
        test: Metric on the test set.
        val: Metric on the validation set.
        epochs: Number of epochs trained.
        best_epoch: Epoch whose weights were kept, counted from 1.
        seconds: Training time in seconds.
        parameters: Number of parameters of the model.
        split_hash: Hash of the split.
        data_hash: Hash of the data.
        config_hash: Hash of the configuration.
    """

    __pydantic_config__ = STRICT

    seed: int
    test: Score
    val: Score
    epochs: int
    best_epoch: int
    seconds: float
    parameters: int
    split_hash: str
    data_hash: str
    config_hash: str


@dataclass(frozen=True)
class CellResult:
    """Runs of one cell of a table or one point of a figure.

    Args:
        row: Name of the row, such as a model.
        column: Name of the column, such as a data set.
        metric: Name of the metric, such as ``"accuracy"`` or ``"bit error rate"``.
        config: Resolved configuration of the first run.
        runs: One entry per seed. Runs with the same seed have the same split in every row of a column.
        paper: Value reported in the paper, ``None`` if it reports none.
        paper_spread: Standard deviation reported in the paper.
        failed: Why all or some of the runs are missing.
        note: How the data differs from the official files, or what was checked (theorems).
        series: Curves by name, such as ``a_high`` over epochs. Measured cells have one value per run instead, such as
            the number of wrong frames of a decoder. Missing values are ``None``.
        paper_runs: Number of runs behind the value of the paper. ``None`` means the same number as ours.
    """

    __pydantic_config__ = STRICT

    row: str
    column: str
    metric: str
    config: Mapping[str, Any] = field(default_factory=dict)
    runs: tuple[RunResult, ...] = ()
    paper: float | None = None
    paper_spread: float | None = None
    failed: str = ""
    note: str = ""
    series: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    paper_runs: int | None = None

    @property
    def tests(self) -> list[float]:
        """Test metric of every run."""
        return [run.test for run in self.runs]


@dataclass(frozen=True)
class Result:
    """Result of one experiment.

    Args:
        name: Name of the experiment, such as ``"table-1-citation"``.
        cells: Cells ordered by row, then by column.
        command: Command line that reproduces the result.
        environment: Software versions and machine.
    """

    __pydantic_config__ = STRICT

    name: str
    cells: Sequence[CellResult]
    command: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> list[str]:
        """Names of the rows, in order."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of the row that has the most of them."""
        size = Counter(cell.row for cell in self.cells)
        return list(dict.fromkeys(cell.column for cell in sorted(self.cells, key=lambda cell: -size[cell.row])))

    def cell(self, row: str, column: str) -> CellResult | None:
        """Return the cell at a row and column, or ``None`` if it does not exist."""
        return next((cell for cell in self.cells if (cell.row, cell.column) == (row, column)), None)

    def write(self, path: Path) -> None:
        """Write the result to a JSON file atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"tgnn_result": VERSION, **asdict(self)})


def read_result(path: Path) -> Result:
    """Read a result file written by :meth:`Result.write`, and check the type of every field."""
    try:
        fields = read_content(path)
        version = fields.pop("tgnn_result")
        if version == VERSION:
            return validate(Result, fields, path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultFileError(f"{path} is not a result of `tgnn reproduce`: {error}") from error
    raise ResultFileError(
        f"{path} has the result format {version}, but this version of tgnn reads format {VERSION}. "
        f"Run `tgnn reproduce` again."
    )


# ---- merging ---------------------------------------------------------------------------------------------------


def merge(earlier: Result, new: Result, rows: Sequence[str], columns: Sequence[str]) -> Result:
    """Add the cells and the runs with other seeds of an earlier result to a new one.

    Running a part of a table therefore keeps the rest of it. The earlier cells must have the current configurations.
    ``rows`` and ``columns`` are the order of the table, and other columns follow them.
    """
    merged = [_with_earlier_runs(cell, earlier.cell(cell.row, cell.column)) for cell in new.cells]
    more = [
        cell for cell in earlier.cells if new.cell(cell.row, cell.column) is None and _has_same_splits(cell, merged)
    ]
    if merged == list(new.cells) and not more:
        return new
    columns = list(dict.fromkeys([*columns, *new.columns, *(cell.column for cell in more)]))
    cells = sorted([*merged, *more], key=lambda cell: (rows.index(cell.row), columns.index(cell.column)))
    commands = dict.fromkeys([*earlier.command.split("; "), new.command])
    return replace(new, cells=tuple(cells), command="; ".join(filter(None, commands)))


def join_runs(first: CellResult, second: CellResult) -> CellResult:
    """Join measurements of the same cell with different seeds. Each of their series has one value per run.

    If the data have changed, only the runs of ``second`` are kept.
    """
    reasons = dict.fromkeys(filter(None, (first.failed, second.failed)))
    if not second.runs or not first.runs:
        return replace(second if second.runs else first, failed="; ".join(reasons))
    if first.runs[0].data_hash != second.runs[0].data_hash:
        return second
    runs = [*first.runs, *second.runs]
    order = sorted(range(len(runs)), key=lambda index: runs[index].seed)
    series = {name: [*values, *second.series[name]] for name, values in first.series.items()}
    return replace(
        first,
        runs=tuple(runs[index] for index in order),
        series={name: [values[index] for index in order] for name, values in series.items()},
        failed="; ".join(reasons),
    )


def _with_earlier_runs(cell: CellResult, earlier: CellResult | None) -> CellResult:
    """Add the earlier runs of seeds that were not run now, or that failed now, if they have the same data."""
    if earlier is None:
        return cell
    seeds = {run.seed for run in cell.runs}
    runs = sorted([*cell.runs, *(run for run in earlier.runs if run.seed not in seeds)], key=lambda run: run.seed)
    if len(runs) == len(cell.runs) or len({run.data_hash for run in runs}) > 1:
        return cell
    missing = {name: getattr(cell, name) or getattr(earlier, name) for name in ("metric", "note", "series")}
    return replace(cell, runs=tuple(runs), **missing)


def _has_same_splits(cell: CellResult, others: Sequence[CellResult]) -> bool:
    """Check that a cell has the splits of the other rows of its column. With other data it would not."""
    splits = {run.seed: run.split_hash for other in others if other.column == cell.column for run in other.runs}
    same = all(splits.get(run.seed, run.split_hash) == run.split_hash for run in cell.runs)
    if not same:
        logger.warning("%s on %s is left out, because its runs have other splits or data", cell.row, cell.column)
    return same


# ---- values of the paper ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PaperFigure:
    """Value of one cell in a table of the paper.

    Args:
        table: Name of the table, such as ``"table-1-citation"``.
        value: Reported mean, as a fraction where the paper gives percent.
        spread: Reported standard deviation.
    """

    table: str
    value: float
    spread: float


@cache
def load_paper_figures() -> Mapping[tuple[str, str, str], PaperFigure]:
    """Load all values of the paper by table, row and column."""
    with files("tgnn.experiments").joinpath("paper_figures.csv").open(encoding="utf-8") as file:
        return {
            (line["table"], line["row"], line["column"]): PaperFigure(
                line["table"], float(line["value"]), float(line["spread"])
            )
            for line in csv.DictReader(file)
        }


def find_paper_figure(table: str, row: str, column: str) -> PaperFigure | None:
    """Return a cell of a table, or ``None`` if the paper does not report it.

    Example:
        >>> find_paper_figure("table-efficiency/parameters", "tgnn 8", "3").value
        58128.0
    """
    return load_paper_figures().get((table, row, column))


def paper_score(model: str, data: str) -> PaperFigure | None:
    """Return the value in the main tables of the paper for a model on a data set, or ``None``.

    Example:
        >>> paper_score("tgnn", "cora").value
        0.8808
    """
    return next((figure for table in _MAIN_TABLES if (figure := find_paper_figure(table, model, data))), None)
