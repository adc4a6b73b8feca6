"""``tgnn reproduce``: run the experiments of the paper."""

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
from tgnn.cli.train import check_output_folder, parse_option, shareable_options

if TYPE_CHECKING:
    from tgnn.experiments.experiment import Experiment, Selection
    from tgnn.experiments.experiment_progress import ExperimentProgress

_LINE_INTERVAL = 15.0
"""Seconds between two progress lines if the output is not a terminal."""


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Table, figure or check to run. Without a name, list all of them."),
    ] = None,
    models: Annotated[
        str | None, typer.Option(help="Run only these rows, by model or by row name, e.g. tgnn,gcn.")
    ] = None,
    datasets: Annotated[
        str | None,
        typer.Option(help="Run only these columns. A data set that the table does not have is added as a column."),
    ] = None,
    largest: Annotated[
        int | None, typer.Option(min=1, help="Run only rows up to this rank or number of hidden channels.")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Number of runs per cell. Default: as in the paper.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of runs to train in parallel. Default: number of cores.")
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(envvar="TGNN_DATA", help="Folder searched for data files before the cache and the network."),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not access the network.")] = False,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override an option of the recipe in every cell."),
    ] = None,
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("runs/reproduce"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells without running them.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Reproduce a table or figure of the paper and compare it with the reported values.

    Finished runs with the same configuration, data and split are reused.
    You can interrupt the command at any time and run it again to continue.

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
    changes |= dict(parse_option(text) for text in overrides or [])
    selection = Selection(
        _split_names(models), _split_names(datasets), largest, runs, changes, jobs or os.cpu_count() or 1
    )
    if dry_run:
        _show_cells(experiment, selection, json)
        return
    check_output_folder(folder)
    _run(experiment, selection, folder, _command(experiment, selection, overrides or []), json)


def _split_names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _find(name: str) -> Experiment:
    from tgnn.experiments.definitions import EXPERIMENTS
    from tgnn.utils.suggest import closest_match

    if name not in EXPERIMENTS:
        similar = closest_match(name, EXPERIMENTS)
        hint = f"did you mean {similar}?" if similar else f"choose one of {', '.join(EXPERIMENTS)}"
        raise typer.BadParameter(f"unknown table or figure {name!r}; {hint}", param_hint="NAME")
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

    table = Table("name", "cells", "runs", "title", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row["name"], str(row["cells"]), str(row["runs"]), row["title"])
    out.print(table)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _show_cells(experiment: Experiment, selection: Selection, json: bool) -> None:
    if experiment.measure is not None:
        rows: list[dict[str, Any]] = [
            {"row": row, "column": column} for row, column in experiment.select_points(selection)
        ]
    else:
        cells = experiment.cells(selection)
        rows = [{"row": c.row, "column": c.column, "config": c.config.model_dump(mode="json")} for c in cells]
    for row in rows:
        figure = experiment.paper_figure(row["row"], row["column"])
        row |= {"runs": selection.runs or experiment.runs, "paper": None if figure is None else figure.value}
    if json:
        print_json(rows)
        return
    for row in rows:
        paper = "" if row["paper"] is None else f"  (paper {row['paper']:.4g})"
        line = f"{row['row']} on {row['column']}, {row['runs']} run{'s' if row['runs'] > 1 else ''}{paper}"
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _run(experiment: Experiment, selection: Selection, folder: Path, command: str, json: bool) -> None:
    from tgnn.experiments.format_json import to_json_object
    from tgnn.experiments.format_markdown import to_markdown
    from tgnn.experiments.runner import run_experiment
    from tgnn.experiments.write_formats import write_tables
    from tgnn.training.interrupts import sigterm_as_interrupt

    display = _ProgressDisplay(json)
    try:
        with sigterm_as_interrupt(), display:
            result = run_experiment(experiment, selection, folder, command, display.update)
    except KeyboardInterrupt:
        err.print("interrupted; run the same command again to continue")
        raise typer.Exit(130) from None
    tables = write_tables(result, folder)
    selected = {(cell.row, cell.column) for cell in (experiment.cells(selection) if experiment.rows else result.cells)}
    failed = [cell for cell in result.cells if cell.failed and (cell.row, cell.column) in selected]
    if json:
        print_json(to_json_object(result))
    else:
        out.print(to_markdown(result), markup=False, highlight=False, soft_wrap=True)
        paths = ", ".join(str(path) for path in [folder / f"{experiment.name}.json", *tables])
        if console.verbosity >= 0:
            err.print(f"saved {paths}\nshow them as a page: tgnn report {folder}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _command(experiment: Experiment, selection: Selection, overrides: list[str]) -> str:
    """Return the command line that reproduces the result, without local paths."""
    arguments = ["tgnn", "reproduce", experiment.name]
    arguments += ["--models", ",".join(selection.models)] if selection.models else []
    arguments += ["--datasets", ",".join(selection.datasets)] if selection.datasets else []
    arguments += ["--largest", str(selection.largest)] if selection.largest else []
    arguments += ["--runs", str(selection.runs)] if selection.runs else []
    arguments += [argument for text in shareable_options(overrides) for argument in ("--set", text)]
    return shlex.join(arguments)


class _ProgressDisplay:
    """Progress of an experiment: a status line on a terminal, otherwise one line every few seconds."""

    def __init__(self, json: bool) -> None:
        self._quiet = json or console.verbosity < 0
        self._last_line: float | None = None
        self._status: Any = None

    def __enter__(self) -> _ProgressDisplay:
        if not self._quiet and err.is_terminal:
            self._status = err.status("loading the data")
            self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.stop()

    def update(self, progress: ExperimentProgress) -> None:
        line = self._line(progress)
        if self._status is not None:
            self._status.update(line)
        elif not self._quiet and (self._is_due(progress) or not progress.left):
            self._last_line = time.monotonic()
            err.print(line, markup=False, highlight=False, soft_wrap=True)

    def _is_due(self, progress: ExperimentProgress) -> bool:
        """Print the first line once all parallel runs have started, then one per interval."""
        if self._last_line is None:
            return len(progress.running) >= min(progress.jobs, progress.left)
        return time.monotonic() - self._last_line > _LINE_INTERVAL

    def _line(self, progress: ExperimentProgress) -> str:
        left = progress.left
        line = f"{progress.done} of {progress.total} runs done"
        line += f" ({progress.reused} reused)" if progress.reused else ""
        line += f", {progress.failed} failed" if progress.failed else ""
        line += f", {left - len(progress.running)} waiting" if left > len(progress.running) else ""
        if progress.seconds_left is not None:
            line += f", about {_duration(progress.seconds_left)} left"
        if progress.running:
            names = ", ".join(f"{row} on {column} (seed {seed})" for row, column, seed in sorted(progress.running))
            line += f"; running: {names}"
        return line


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
