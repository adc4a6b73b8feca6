"""Results of an experiment, stored as one JSON file with scores, configurations and hashes.

A result file stores no title, notes or layout. :mod:`tgnn.experiments.captions` looks them up in the definition of the
experiment when the result is rendered.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tgnn.utils.io import write_json

VERSION = 2


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

    seed: int
    test: float
    val: float
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
        metric: ``"accuracy"``, ``"roc-auc"`` or ``"mae"``.
        config: Resolved configuration of the first run.
        runs: One entry per seed. Runs with the same seed have the same split in every row of a column.
        paper: Value reported in the paper, ``None`` if it reports none.
        paper_spread: Standard deviation reported in the paper.
        failed: Why all or some of the runs are missing.
        note: How the data differs from the official files, or what was checked (theorems).
        series: Curves by name, such as ``a_high`` over epochs. Missing values are ``None``.
        paper_runs: Number of runs behind the value of the paper. ``None`` means the same number as ours.
    """

    row: str
    column: str
    metric: str
    config: Mapping[str, Any] = field(default_factory=dict)
    runs: Sequence[RunResult] = ()
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
    """Read a result file written by :meth:`Result.write`."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        version = fields.pop("tgnn_result")
        if version != VERSION:
            raise ResultFileError(
                f"{path} has the result format {version}, but this version of tgnn reads format {VERSION}. "
                f"Run `tgnn reproduce` again."
            )
        cells = [
            CellResult(**{**cell, "runs": tuple(_run_result(run) for run in cell["runs"])})
            for cell in fields.pop("cells")
        ]
        return Result(cells=tuple(cells), **fields)
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ResultFileError(f"{path} is not a result of `tgnn reproduce`: {error}") from error


def _run_result(run: Mapping[str, Any]) -> RunResult:
    """Convert null scores back to NaN, because NaN is written as null."""
    return RunResult(**{**run, **{name: math.nan for name in ("test", "val") if run[name] is None}})
