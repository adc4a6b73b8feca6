"""Definition of an experiment: its cells, the configuration of each cell, and the selection of a part of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tgnn.data.catalog import CATALOG
from tgnn.data.load import get_entry
from tgnn.experiments.paper_figures import PaperFigure, find_paper_figure
from tgnn.experiments.results import CellResult
from tgnn.training.config import Config
from tgnn.training.model_check import check_model
from tgnn.training.recipes import resolve


@dataclass(frozen=True)
class ExperimentCell:
    """One cell of a table, before it is run.

    Args:
        row: Name of the row, such as a model.
        column: Name of the column, such as a data set.
        config: Configuration of the first run. Further runs use the next seeds.
    """

    row: str
    column: str
    config: Config


@dataclass(frozen=True)
class Selection:
    """Part of an experiment to run.

    Args:
        models: Run only the rows of these models. ``None`` means all rows.
        datasets: Run only these data sets. A data set that the experiment does not have is added as a column.
        largest: Run only rows whose size (the number at the end of the name) is at most this.
        runs: Number of runs per cell. ``None`` means the number of the paper.
        changes: Options that override the recipe in every cell, as ``section.key``.
        jobs: Number of runs that train in parallel.
    """

    models: Sequence[str] | None = None
    datasets: Sequence[str] | None = None
    largest: int | None = None
    runs: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    jobs: int = 1


_FIXED_OPTIONS = {
    "data.name": "use --datasets",
    "model.name": "use --models",
    "train.seed": "the seeds are 0, 1, ... up to the number of --runs",
}
Row = tuple[str, str, Mapping[str, Any]]
"""Name of a row, its model, and the options that override the recipe."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or one beyond it.

    Args:
        name: Name on the command line and of the result file.
        title: Title shown above the table or figure.
        rows: Name, model and options of each row.
        columns: Data set and options of each column, by name.
        runs: Number of runs per cell.
        layout: How the result is displayed: ``"table"``, ``"efficiency"`` or ``"theorems"`` for tables, ``"rank"``,
            ``"mixing"`` or ``"interactions"`` for figures.
        notes: Notes shown with the result, such as differences from the protocol of the paper.
        only_reported: Whether to skip cells for which the paper reports no value.
        series: Keep the curves of the first run whose names start with one of these prefixes.
        points: Rows and columns of an experiment that ``measure`` runs instead of training recipes.
        measure: Measures one point. Called with its row, its column, the number of runs and a folder for its files.
    """

    name: str
    title: str
    rows: Sequence[Row] = ()
    columns: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    runs: int = 10
    layout: str = "table"
    notes: Sequence[str] = ()
    only_reported: bool = False
    series: Sequence[str] = ()
    points: Sequence[tuple[str, str]] = ()
    measure: Callable[[str, str, int, Path], CellResult] | None = None

    def cells(self, selection: Selection) -> list[ExperimentCell]:
        """Return the selected cells, ordered by row. Invalid options raise a ``ValueError``."""
        self._check(selection)
        cells = [
            ExperimentCell(
                row, column, resolve(data, model, CATALOG[data].level, changes={**own, **more, **selection.changes})
            )
            for (row, model, own), (column, (data, more)) in self._positions(selection)
        ]
        if self.rows and not cells:
            raise self._empty_selection([row for row, _, _ in self.rows], self.columns)
        if any(key.startswith("model.") for key in selection.changes):
            _check_models(cells)
        return cells

    @property
    def size(self) -> int:
        """Total number of cells or points."""
        return len(self.points) or len(self._positions(Selection()))

    def _positions(self, selection: Selection) -> list[tuple[Row, tuple[str, tuple[str, Mapping[str, Any]]]]]:
        return [
            ((row, model, own), column)
            for row, model, own in self.rows
            if self._is_selected(row, model, selection)
            for column in self._columns(selection).items()
            if not self.only_reported or column[0] not in self.columns or self.paper_figure(row, column[0]) is not None
        ]

    def select_points(self, selection: Selection) -> list[tuple[str, str]]:
        """Return the selected points. A row can be selected by its name without the size."""
        rows = {row: row.rpartition(" ")[0] or row for row, _ in self.points}
        self._check_points(selection, [*rows, *rows.values()], [column for _, column in self.points])
        selected = [
            (row, column)
            for row, column in self.points
            if self._is_selected(row, rows[row], selection)
            and (selection.datasets is None or column in selection.datasets)
        ]
        if not selected:
            raise self._empty_selection(rows, dict.fromkeys(column for _, column in self.points))
        return selected

    def paper_figure(self, row: str, column: str) -> PaperFigure | None:
        """Return the value that the paper reports for a cell, or ``None``."""
        return find_paper_figure(self.name, row, column)

    def _empty_selection(self, rows: Iterable[str], columns: Iterable[str]) -> ValueError:
        return ValueError(
            f"no cell of {self.name} is selected; its rows are {', '.join(rows)}, and its columns are "
            f"{', '.join(columns)}"
        )

    def _check_points(self, selection: Selection, rows: Sequence[str], columns: Sequence[str]) -> None:
        for requested, known in ((selection.models or (), rows), (selection.datasets or (), columns)):
            for name in requested:
                if name not in known:
                    names = ", ".join(dict.fromkeys(known))
                    raise ValueError(f"{self.name} has no {name!r}; it has {names}")
        options = [key for key in selection.changes if not key.startswith("data.")]
        if options:
            raise ValueError(f"{self.name} trains no recipe, so {options[0]} cannot be set")

    def _is_selected(self, row: str, model: str, selection: Selection) -> bool:
        size = row.split()[-1].partition("x")[0]
        if selection.largest is not None and size.isdigit() and int(size) > selection.largest:
            return False
        return selection.models is None or model in selection.models or row in selection.models

    def _columns(self, selection: Selection) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        if selection.datasets is None:
            return self.columns
        known = {
            name: value
            for name, value in self.columns.items()
            if name in selection.datasets or value[0] in selection.datasets
        }
        covered = {data for data, _ in known.values()} | set(known)
        return {**known, **{name: (name, {}) for name in selection.datasets if name not in covered}}

    def _check(self, selection: Selection) -> None:
        known = {name for row, model, _ in self.rows for name in (row, model)}
        for name in selection.models or ():
            if name not in known:
                rows = ", ".join(dict.fromkeys(model for _, model, _ in self.rows))
                raise ValueError(f"{self.name} has no model {name!r}; it has {rows}")
        for name in selection.datasets or ():
            if name not in self.columns:
                get_entry(name)
        for key in selection.changes:
            if key in _FIXED_OPTIONS:
                raise ValueError(f"{key} cannot be set for all cells: {_FIXED_OPTIONS[key]}")
            for (row, _, own), (column, (_, more)) in self._positions(selection):
                if key in own or key in more:
                    raise ValueError(
                        f"{key} cannot be set for all cells: {row} on {column} already sets it; leave it out, or use "
                        f"`tgnn train`"
                    )


def _check_models(cells: Sequence[ExperimentCell]) -> None:
    """Build each model once, so that an invalid hyperparameter raises before any run starts."""
    levels = [(CATALOG[cell.config.data.name].level, cell.config) for cell in cells]
    for (level, _), config in {(level, config.model.model_dump_json()): config for level, config in levels}.items():
        check_model(config, level)
