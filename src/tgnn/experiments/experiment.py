"""What an experiment is: cells, each a recipe, and how the paper names them."""

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
class Cell:
    """One cell of a table.

    Args:
        row: Its row, such as a model.
        column: Its column, such as a data set.
        config: Of the first run; others have the seeds that follow.
    """

    row: str
    column: str
    config: Config


@dataclass(frozen=True)
class Selection:
    """What part of an experiment is asked for.

    Args:
        models: Only rows of these models; ``None``: all.
        datasets: Only these data sets; one that the paper does not have there stands in a column of its own.
        largest: Only rows whose size (the number at their end) is at most this.
        runs: Of each cell; ``None``: as many as the paper has.
        changes: Settings for all cells, as ``section.key``, such as the folder of the data.
        jobs: Runs at once.
    """

    models: Sequence[str] | None = None
    datasets: Sequence[str] | None = None
    largest: int | None = None
    runs: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    jobs: int = 1


_NEVER = {
    "data.name": "give --datasets",
    "model.name": "give --models",
    "train.seed": "seeds are 0, 1, ... for as many as --runs says",
}
Row = tuple[str, str, Mapping[str, Any]]
"""Name of a row, its model, and settings beside the recipe's."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Args:
        name: To call it by.
        title: In words.
        rows: Name, model and settings of each row.
        columns: Data sets; or named variants of one, with their settings.
        runs: Of each cell.
        kind: How it is shown (:class:`~tgnn.experiments.results.Result`).
        notes: Where the protocol differs from the paper's, and what that does.
        only_reported: Whether cells that the paper leaves empty stay empty.
        series: Of the history of the first run, the keys that begin so are kept.
        points: Rows and columns where nothing is trained by a recipe, and ``measure`` does it in its own way.
        measure: One of those points: its row and column, how many runs, and where to keep what was measured.
    """

    name: str
    title: str
    rows: Sequence[Row] = ()
    columns: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    runs: int = 10
    kind: str = "table"
    notes: Sequence[str] = ()
    only_reported: bool = False
    series: Sequence[str] = ()
    points: Sequence[tuple[str, str]] = ()
    measure: Callable[[str, str, int, Path], CellResult] | None = None

    def cells(self, ask: Selection) -> list[Cell]:
        """The cells that are asked for, row by row; settings that cannot be are an error."""
        self._check(ask)
        found = [
            Cell(row, column, resolve(data, model, CATALOG[data].level, changes={**own, **more, **ask.changes}))
            for (row, model, own), (column, (data, more)) in self._places(ask)
        ]
        if self.rows and not found:
            raise self._nothing([row for row, _, _ in self.rows], self.columns)
        if any(key.startswith("model.") for key in ask.changes):
            _check_models(found)
        return found

    @property
    def size(self) -> int:
        """How many cells or points there are in all."""
        return len(self.points) or len(self._places(Selection()))

    def _places(self, ask: Selection) -> list[tuple[Row, tuple[str, tuple[str, Mapping[str, Any]]]]]:
        return [
            ((row, model, own), column)
            for row, model, own in self.rows
            if self._wanted(row, model, ask)
            for column in self._columns(ask).items()
            if not self.only_reported or column[0] not in self.columns or self.figure(row, column[0]) is not None
        ]

    def measured(self, ask: Selection) -> list[tuple[str, str]]:
        """The points that are asked for; of a row, its name without the size will do."""
        rows = {row: row.rpartition(" ")[0] or row for row, _ in self.points}
        self._check_points(ask, [*rows, *rows.values()], [column for _, column in self.points])
        found = [
            (row, column)
            for row, column in self.points
            if self._wanted(row, rows[row], ask) and (ask.datasets is None or column in ask.datasets)
        ]
        if not found:
            raise self._nothing(rows, dict.fromkeys(column for _, column in self.points))
        return found

    def figure(self, row: str, column: str) -> PaperFigure | None:
        """What the paper reports there."""
        return find_paper_figure(self.name, row, column)

    def _nothing(self, rows: Iterable[str], columns: Iterable[str]) -> ValueError:
        return ValueError(
            f"nothing of {self.name} is asked for: its rows are {', '.join(rows)}; its columns {', '.join(columns)}"
        )

    def _check_points(self, ask: Selection, rows: Sequence[str], columns: Sequence[str]) -> None:
        for asked, known in ((ask.models or (), rows), (ask.datasets or (), columns)):
            for name in asked:
                if name not in known:
                    there = ", ".join(dict.fromkeys(known))
                    raise ValueError(f"there is no {name!r} in {self.name}; it has {there}")
        settings = [key for key in ask.changes if not key.startswith("data.")]
        if settings:
            raise ValueError(f"{self.name} is no recipe: it has no setting {settings[0]}")

    def _wanted(self, row: str, model: str, ask: Selection) -> bool:
        size = row.split()[-1].partition("x")[0]
        if ask.largest is not None and size.isdigit() and int(size) > ask.largest:
            return False
        return ask.models is None or model in ask.models or row in ask.models

    def _columns(self, ask: Selection) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        if ask.datasets is None:
            return self.columns
        known = {
            name: value for name, value in self.columns.items() if name in ask.datasets or value[0] in ask.datasets
        }
        there = {data for data, _ in known.values()} | set(known)
        return {**known, **{name: (name, {}) for name in ask.datasets if name not in there}}

    def _check(self, ask: Selection) -> None:
        known = {name for row, model, _ in self.rows for name in (row, model)}
        for name in ask.models or ():
            if name not in known:
                rows = ", ".join(dict.fromkeys(model for _, model, _ in self.rows))
                raise ValueError(f"there is no {name!r} in {self.name}; it has {rows}")
        for name in ask.datasets or ():
            if name not in self.columns:
                get_entry(name)
        for key in ask.changes:
            if key in _NEVER:
                raise ValueError(f"{key} cannot be set for all cells: {_NEVER[key]}")
            for (row, _, own), (column, (_, more)) in self._places(ask):
                if key in own or key in more:
                    raise ValueError(
                        f"{key} cannot be set for all cells: {row} on {column} has one of its own; leave it out, or "
                        f"train with it (tgnn train)"
                    )


def _check_models(cells: Sequence[Cell]) -> None:
    """Makes each model once, so that a setting that it has not is told before anything runs."""
    levels = [(CATALOG[cell.config.data.name].level, cell.config) for cell in cells]
    for (level, _), config in {(level, config.model.model_dump_json()): config for level, config in levels}.items():
        check_model(config, level)
