"""Definition of an experiment: its cells, the configuration of each cell, and the selection of a part of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tgnn.data.load import get_entry, task_level
from tgnn.experiments.results import CellResult, PaperFigure, find_paper_figure
from tgnn.training.config import Config
from tgnn.training.prepare import check_model
from tgnn.training.recipes import resolve


@dataclass(frozen=True)
class ExperimentCell:
    """One cell of a table, before it is run.

    Args:
        row: Name of the row, such as a model.
        column: Name of the column, such as a data set.
        config: Configuration of the first run. Further runs use the next seeds. ``None`` if the cell is measured by
            a function instead of training a recipe.
    """

    row: str
    column: str
    config: Config | None


@dataclass(frozen=True)
class Selection:
    """Part of an experiment to run.

    Args:
        models: Run only these rows, or all rows of a model whose name is not that of a row. ``None`` means all rows.
        datasets: Run only these columns, or all columns of a data set whose name is not that of a column. A data set
            that the experiment does not have is added as a column.
        largest: Run only rows whose size (the number at the end of the name) is at most this.
        runs: Number of runs per cell. ``None`` means the default of the experiment.
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

Column = tuple[str, Mapping[str, Any]]
"""Data set of a column, and the options that override the recipe. Those of the row come after them."""

Measure = Callable[[str, str, int, Path, Mapping[str, Any]], CellResult]
"""Measures one run of a cell. Called with its row, its column, a seed, a folder for its files and the options of the
data, such as ``data.root``."""


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
            ``"mixing"``, ``"interactions"`` or ``"decoding"`` for figures.
        notes: Notes shown with the result, such as differences from the protocol of the paper. A ``Note`` is left
            out if ``--set`` changes what it describes.
        positions: Rows and columns that have a cell. ``None`` means all of them.
        series: Keep the curves of the first run whose names start with one of these prefixes.
        measure: Measures a run of a cell instead of training a recipe.
        describe: Returns the configuration of a measured cell. The runs of cells with a configuration are measured in
            parallel processes. They are kept in a result when other runs are measured.
        paper_table: Table of ``paper_figures.csv`` that the cells are compared with. Default: the name.
    """

    name: str
    title: str
    rows: Sequence[Row]
    columns: Mapping[str, Column]
    runs: int = 10
    layout: str = "table"
    notes: Sequence[str] = ()
    positions: Collection[tuple[str, str]] | None = None
    series: Sequence[str] = ()
    measure: Measure | None = None
    describe: Callable[[str, str], Mapping[str, Any]] | None = None
    paper_table: str = ""

    def paper_figure(self, row: str, column: str) -> PaperFigure | None:
        """Return the value of the paper for a cell, or ``None`` if the paper does not report it."""
        return find_paper_figure(self.paper_table or self.name, row, column)

    def cells(self, selection: Selection) -> list[ExperimentCell]:
        """Return the selected cells, ordered by row. Invalid options raise a ``ValueError``."""
        columns = self._columns(selection)
        self._check_names(selection)
        cells = [
            self._cell(row, column, columns[column], selection)
            for row in self.rows
            if self._is_selected(row, selection)
            for column in columns
            if self.positions is None or column not in self.columns or (row[0], column) in self.positions
        ]
        if not cells:
            rows = ", ".join(row for row, _, _ in self.rows)
            columns_text = ", ".join(self.columns)
            raise ValueError(
                f"no cell of {self.name} is selected; its rows are {rows}, and its columns are {columns_text}"
            )
        if any(key.startswith("model.") for key in selection.changes):
            _check_models(cells)
        return cells

    def _is_selected(self, row: Row, selection: Selection) -> bool:
        name, model, _ = row
        size = name.split()[-1].partition("x")[0]
        if selection.largest is not None and size.isdigit() and int(size) > selection.largest:
            return False
        names = {name for name, _, _ in self.rows}
        return (
            selection.models is None or name in selection.models or (model in selection.models and model not in names)
        )

    def _columns(self, selection: Selection) -> Mapping[str, Column]:
        """Return the selected columns, with one for each data set that the experiment does not have."""
        if selection.datasets is None:
            return self.columns
        known = {
            name: value
            for name, value in self.columns.items()
            if name in selection.datasets or (value[0] in selection.datasets and value[0] not in self.columns)
        }
        covered = {data for data, _ in known.values()} | set(known)
        return {**known, **{name: (name, {}) for name in selection.datasets if name not in covered}}

    def _check_names(self, selection: Selection) -> None:
        models = dict.fromkeys(model for _, model, _ in self.rows)
        for name in selection.models or ():
            if name not in models and name not in [row for row, _, _ in self.rows]:
                raise ValueError(f"{self.name} has no row {name!r}; it has {', '.join(models)}")
        for name in selection.datasets or ():
            if name in self.columns or name in {data for data, _ in self.columns.values()}:
                continue
            if self.measure is not None:
                raise ValueError(f"{self.name} has no column {name!r}; it has {', '.join(self.columns)}")
            get_entry(name)

    def _cell(self, row: Row, column: str, columns: Column, selection: Selection) -> ExperimentCell:
        (name, model, row_options), (data, column_options), changes = row, columns, selection.changes
        options = {**column_options, **row_options}
        for key in changes:
            if self.measure is not None and not key.startswith("data."):
                raise ValueError(f"{self.name} trains no recipe, so {key} cannot be set")
            if key in _FIXED_OPTIONS or key in options:
                reason = _FIXED_OPTIONS.get(
                    key, f"{name} on {column} already sets it; leave it out, or use `tgnn train`"
                )
                raise ValueError(f"{key} cannot be set for all cells: {reason}")
        if self.measure is not None:
            return ExperimentCell(name, column, None)
        config = resolve(data, model, task_level(data), changes={**options, **changes})
        return ExperimentCell(name, column, config)


def _check_models(cells: Sequence[ExperimentCell]) -> None:
    """Build each model once, so that an invalid hyperparameter raises before any run starts."""
    levels = [(task_level(cell.config.data.name), cell.config) for cell in cells if cell.config is not None]
    for (level, _), config in {(level, config.model.model_dump_json()): config for level, config in levels}.items():
        check_model(config, level)
