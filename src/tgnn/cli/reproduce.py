"""``tgnn reproduce``."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tgnn.cli import console
from tgnn.cli.console import err, out, print_json
from tgnn.cli.train import check_place, key_and_value, public

if TYPE_CHECKING:
    from tgnn.experiments.experiment import Experiment, Selection
    from tgnn.experiments.run_progress import Progress

_OFTEN = 15.0
"""Seconds between two lines where there is no terminal."""


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A table or figure; none: list them.")] = None,
    models: Annotated[str | None, typer.Option(help="Only these rows, such as tgnn,gcn.")] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Only these columns; any other data set by name has a column of its own.")
    ] = None,
    largest: Annotated[int | None, typer.Option(min=1, help="Only rows up to this rank or width.")] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Runs of each cell; by default the paper's number.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at once; by default one per core.")] = None,
    root: Annotated[
        Path | None, typer.Option(envvar="TGNN_DATA", help="Folder with files, looked into before cache and network.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never touch the network.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting for all cells.")
    ] = None,
    folder: Annotated[Path, typer.Option("--out", help="Folder of the results.")] = Path("runs/reproduce"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and stop.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one machine-readable object and nothing else.")] = False,
) -> None:
    """Make a table or figure of the paper again, with its own figures beside ours.

    What was run before with the same settings, data and split is found again: stop it whenever you like and type the
    same line again.

    Examples: `tgnn reproduce theorems`,
    `tgnn reproduce table-1-citation --models tgnn,gcn --datasets cora --runs 3 --jobs 2`.
    """
    from tgnn.experiments.definitions import EXPERIMENTS
    from tgnn.experiments.experiment import Selection

    if name is None:
        _list(EXPERIMENTS.values(), json)
        return
    experiment = _find(name)
    changes: dict[str, Any] = {"data.root": root and str(root), "data.offline": offline or None}
    changes = {key: value for key, value in changes.items() if value is not None}
    changes |= dict(key_and_value(text) for text in settings or [])
    ask = Selection(_names(models), _names(datasets), largest, runs, changes, jobs or os.cpu_count() or 1)
    if dry_run:
        _show_cells(experiment, ask, json)
        return
    check_place(folder)
    _run(experiment, ask, folder, _command(experiment, ask, settings or []), json)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _find(name: str) -> Experiment:
    from tgnn.experiments.definitions import EXPERIMENTS
    from tgnn.utils.suggest import closest_match

    if name not in EXPERIMENTS:
        near = closest_match(name, EXPERIMENTS)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(EXPERIMENTS)}"
        raise typer.BadParameter(f"there is no table or figure {name!r}: {hint}", param_hint="NAME")
    return EXPERIMENTS[name]


def _list(experiments: Any, json: bool) -> None:
    rows = [
        {
            "name": experiment.name,
            "title": experiment.title,
            "rows": [row for row, _, _ in experiment.rows] or _unique(row for row, _ in experiment.points),
            "columns": list(experiment.columns) or _unique(column for _, column in experiment.points),
            "cells": experiment.size,
            "runs": experiment.runs,
        }
        for experiment in experiments
    ]
    if json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table("name", "cells", "runs", "what", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row["name"], str(row["cells"]), str(row["runs"]), row["title"])
    out.print(table)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _show_cells(experiment: Experiment, ask: Selection, json: bool) -> None:
    if experiment.measure is not None:
        rows: list[dict[str, Any]] = [{"row": row, "column": column} for row, column in experiment.measured(ask)]
    else:
        cells = experiment.cells(ask)
        rows = [{"row": c.row, "column": c.column, "config": c.config.model_dump(mode="json")} for c in cells]
    for row in rows:
        figure = experiment.figure(row["row"], row["column"])
        row |= {"runs": ask.runs or experiment.runs, "paper": None if figure is None else figure.value}
    if json:
        print_json(rows)
        return
    for row in rows:
        known = "" if row["paper"] is None else f"  (paper {row['paper']:.4g})"
        words = f"{row['row']} on {row['column']}, {row['runs']} run{'s' if row['runs'] > 1 else ''}{known}"
        out.print(words, markup=False, highlight=False, soft_wrap=True)


def _run(experiment: Experiment, ask: Selection, folder: Path, command: str, json: bool) -> None:
    from tgnn.experiments.format_json import with_summaries
    from tgnn.experiments.format_markdown import markdown
    from tgnn.experiments.runner import run_experiment
    from tgnn.experiments.write_formats import write_texts
    from tgnn.training.interrupts import sigterm_as_interrupt

    view = _View(json)
    try:
        with sigterm_as_interrupt(), view:
            result = run_experiment(experiment, ask, folder, command, view.update)
    except KeyboardInterrupt:
        err.print("stopped; type the same line again to go on")
        raise typer.Exit(130) from None
    texts = write_texts(result, folder)
    asked = {(cell.row, cell.column) for cell in (experiment.cells(ask) if experiment.rows else result.cells)}
    failed = [cell for cell in result.cells if cell.failed and (cell.row, cell.column) in asked]
    if json:
        print_json(with_summaries(result))
    else:
        out.print(markdown(result), markup=False, highlight=False, soft_wrap=True)
        paths = ", ".join(str(path) for path in [folder / f"{experiment.name}.json", *texts])
        if console.verbosity >= 0:
            err.print(f"saved as {paths}\na page of it: tgnn report {folder}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _command(experiment: Experiment, ask: Selection, settings: list[str]) -> str:
    """What a reader can type to have the same; without what is private to a machine."""
    words = ["tgnn", "reproduce", experiment.name]
    words += ["--models", ",".join(ask.models)] if ask.models else []
    words += ["--datasets", ",".join(ask.datasets)] if ask.datasets else []
    words += ["--largest", str(ask.largest)] if ask.largest else []
    words += ["--runs", str(ask.runs)] if ask.runs else []
    words += [word for text in public(settings) for word in ("--set", text)]
    return shlex.join(words)


class _View:
    """Cells done, running and left, and the time to go: a moving line on a terminal, a line now and then elsewhere."""

    def __init__(self, json: bool) -> None:
        self._quiet = json or console.verbosity < 0
        self._said: float | None = None
        self._status: Any = None

    def __enter__(self) -> _View:
        if not self._quiet and err.is_terminal:
            self._status = err.status("reading the data")
            self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.stop()

    def update(self, progress: Progress) -> None:
        words = self._words(progress)
        if self._status is not None:
            self._status.update(words)
        elif not self._quiet and (self._is_time(progress) or not progress.left):
            self._said = time.monotonic()
            err.print(words, markup=False, highlight=False, soft_wrap=True)

    def _is_time(self, progress: Progress) -> bool:
        """Once all that can run at once does, and then now and then."""
        if self._said is None:
            return len(progress.running) >= min(progress.jobs, progress.left)
        return time.monotonic() - self._said > _OFTEN

    def _words(self, progress: Progress) -> str:
        left = progress.left
        words = f"{progress.done} of {progress.total} runs done"
        words += f" ({progress.found} found again)" if progress.found else ""
        words += f", {progress.failed} failed" if progress.failed else ""
        words += f", {left - len(progress.running)} waiting" if left > len(progress.running) else ""
        if progress.to_go is not None:
            words += f", about {_duration(progress.to_go)} to go"
        if progress.running:
            names = ", ".join(f"{row} on {column} #{seed}" for row, column, seed in sorted(progress.running))
            words += f"; running: {names}"
        return words


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
