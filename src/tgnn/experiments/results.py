"""What came out of an experiment, as one small JSON file: the report and the pages read nothing else."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tgnn.utils.io import write_json

VERSION = 1


class ResultError(ValueError):
    """A file that is not a result; the text says why."""


@dataclass(frozen=True)
class Outcome:
    """One run of a cell.

    Args:
        seed: Of weights, batches and split.
        test: The metric on the test part.
        val: The same on validation.
        epochs: That were trained.
        best_epoch: Whose weights were kept, counted from 1.
        seconds: Of training.
        parameters: Of the model.
        split_hash: Of the split.
        data_hash: Of the data.
        config_hash: Of the settings.
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
    """One cell of a table, or one point of a figure.

    Args:
        row: Such as a model.
        column: Such as a data set.
        metric: ``"accuracy"``, ``"roc-auc"`` or ``"mae"``.
        config: Resolved settings of the first run.
        runs: Outcomes; runs of the same seed have the same split in every row of a column.
        paper: The paper's figure, ``None`` where it has none.
        paper_spread: Its standard deviation.
        failed: Why there is no outcome, or not all.
        note: What a reader must know of this cell.
        series: Curves, by name, such as ``a_high`` over epochs.
        paper_runs: Of how many runs the paper's figure is the mean; ``None``: as many as ours.
    """

    row: str
    column: str
    metric: str
    config: Mapping[str, Any] = field(default_factory=dict)
    runs: Sequence[Outcome] = ()
    paper: float | None = None
    paper_spread: float | None = None
    failed: str = ""
    note: str = ""
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)
    paper_runs: int | None = None

    @property
    def tests(self) -> list[float]:
        """The metric of every run."""
        return [run.test for run in self.runs]


@dataclass(frozen=True)
class Result:
    """An experiment.

    Args:
        name: Such as ``"table-1-citation"``.
        title: In words.
        cells: In the order of rows, then columns.
        command: That made it.
        environment: Versions and machine.
        notes: Where the protocol differs from the paper's, and the like.
        kind: ``"table"``; ``"rank"``, ``"mixing"`` or ``"interactions"`` (figures); ``"efficiency"``; ``"theorems"``.
    """

    name: str
    title: str
    cells: Sequence[CellResult]
    command: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    kind: str = "table"

    @property
    def rows(self) -> list[str]:
        """Rows in their order."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        """Columns in their order: that of the row that has most of them."""
        size = Counter(cell.row for cell in self.cells)
        return list(dict.fromkeys(cell.column for cell in sorted(self.cells, key=lambda cell: -size[cell.row])))

    @property
    def all_notes(self) -> list[str]:
        """Those of the whole, then those of columns, each once."""
        if self.kind == "theorems":  # whose cells say how far they are off
            return list(self.notes)
        return [*self.notes, *dict.fromkeys(f"{cell.column}: {cell.note}" for cell in self.cells if cell.note)]

    def cell(self, row: str, column: str) -> CellResult | None:
        """The cell there, if there is one."""
        return next((cell for cell in self.cells if (cell.row, cell.column) == (row, column)), None)

    def write(self, path: Path) -> None:
        """To a file, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"tgnn_result": VERSION, **asdict(self)})


def read_result(path: Path) -> Result:
    """From a file that :meth:`Result.write` made."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found.pop("tgnn_result") != VERSION:
            raise ResultError(f"{path} is a result of another version of tgnn; make it again with `tgnn reproduce`")
        cells = [
            CellResult(**{**cell, "runs": tuple(_outcome(run) for run in cell["runs"])}) for cell in found.pop("cells")
        ]
        return Result(cells=tuple(cells), **found)
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ResultError(f"{path} is not a result of `tgnn reproduce`: {error}") from error


def _outcome(run: Mapping[str, Any]) -> Outcome:
    """What is not a number was written as null."""
    return Outcome(**{**run, **{name: math.nan for name in ("test", "val") if run[name] is None}})
