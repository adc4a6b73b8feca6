"""``tgnn reproduce``: run the experiments of the paper."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tgnn.cli import console
from tgnn.cli.console import err, format_duration, print_json, print_rows, print_text
from tgnn.cli.options import Offline, Root
from tgnn.cli.train import check_output_folder, parse_option, shareable_options

if TYPE_CHECKING:
    from tgnn.experiments.experiment import Experiment, Selection
    from tgnn.experiments.runner import ExperimentProgress

_LINE_INTERVAL = 15.0
"""Seconds between two progress lines if the output is not a terminal."""


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Table, figure or check to run. Without a name, list all of them."),
    ] = None,
    models: Annotated[
        str | None, typer.Option(help="Run only these rows, or all rows of a model, e.g. tgnn,gcn.")
    ] = None,
    datasets: Annotated[
        str | None,
        typer.Option(help="Run only these columns, e.g. cora,pubmed. A data set that is not in the table is added."),
    ] = None,
    largest: Annotated[
        int | None, typer.Option(min=1, help="Run only rows up to this rank or number of hidden channels.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Number of runs per cell. Default: as listed by `tgnn reproduce`.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of runs to train in parallel. Default: number of cores.")
    ] = None,
    root: Root = None,
    offline: Offline = False,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a hyperparameter or option in every cell."),
    ] = None,
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("runs/reproduce"),
    list_all: Annotated[bool, typer.Option("--list", help="List all tables, figures and checks.")] = False,
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
    from tgnn.utils.suggest import closest_match

    if name is None or list_all:
        _list(EXPERIMENTS.values(), json)
        return
    if name not in EXPERIMENTS:
        similar = closest_match(name, EXPERIMENTS)
        hint = f"did you mean {similar}?" if similar else f"choose one of {', '.join(EXPERIMENTS)}"
        raise typer.BadParameter(f"unknown table or figure {name!r}; {hint}", param_hint="NAME")
    experiment = EXPERIMENTS[name]
    changes: dict[str, Any] = {"data.root": root and str(root), "data.offline": offline or None}
    changes = {key: value for key, value in changes.items() if value is not None}
    changes |= dict(parse_option(text) for text in overrides or [])
    selection = Selection(
        _split_names(models), _split_names(datasets), largest, runs, changes, jobs or os.cpu_count() or 1
    )
    if dry_run:
        _print_cells(experiment, selection, json)
        return
    check_output_folder(folder)
    _run(experiment, selection, folder, _command(experiment, selection, overrides or []), json)


def _split_names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _list(experiments: Iterable[Experiment], json: bool) -> None:
    from tgnn.experiments.experiment import Selection

    descriptions: list[dict[str, Any]] = [
        {
            "name": experiment.name,
            "title": experiment.title,
            "rows": [row for row, _, _ in experiment.rows],
            "columns": list(experiment.columns),
            "cells": len(experiment.cells(Selection())),
            "runs": experiment.runs,
        }
        for experiment in experiments
    ]
    if json:
        print_json(descriptions)
        return
    headers = ("name", "cells", "runs", "title")
    print_rows(headers, ([str(description[key]) for key in headers] for description in descriptions))


def _print_cells(experiment: Experiment, selection: Selection, json: bool) -> None:
    cells, runs = [], selection.runs or experiment.runs
    for cell in experiment.cells(selection):
        config = {} if cell.config is None else {"config": cell.config.model_dump(mode="json")}
        figure = experiment.paper_figure(cell.row, cell.column)
        paper = None if figure is None else figure.value
        cells.append({"row": cell.row, "column": cell.column, **config, "runs": runs, "paper": paper})
        if not json:
            line = f"{cell.row} on {cell.column}, {runs} run{'s' if runs > 1 else ''}"
            line += "" if paper is None else f"  (paper {paper:.4g})"
            print_text(line)
    if json:
        print_json(cells)


def _run(experiment: Experiment, selection: Selection, folder: Path, command: str, json: bool) -> None:
    from tgnn.experiments.formats import to_json_object, to_markdown, write_tables
    from tgnn.experiments.runner import run_experiment
    from tgnn.training.interrupts import sigterm_as_interrupt

    try:
        with sigterm_as_interrupt(), show_progress(quiet=json or console.verbosity < 0) as on_progress:
            result = run_experiment(experiment, selection, folder, command, on_progress)
    except KeyboardInterrupt:
        err.print("interrupted; run the same command again to continue")
        raise typer.Exit(130) from None
    tables = write_tables(result, folder)
    if json:
        print_json(to_json_object(result))
    else:
        print_text(to_markdown(result))
        paths = ", ".join(str(path) for path in [folder / f"{experiment.name}.json", *tables])
        if console.verbosity >= 0:
            print_text(f"saved {paths}\nshow them as a page: tgnn report {folder}", err)
    selected = [result.cell(cell.row, cell.column) for cell in experiment.cells(selection)]
    if any(cell is not None and cell.failed for cell in selected):
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


@contextlib.contextmanager
def show_progress(quiet: bool) -> Iterator[Callable[[ExperimentProgress], None]]:
    """Yield a callback that shows a status line on a terminal, and otherwise prints a line every few seconds."""
    if quiet:
        yield lambda progress: None
        return
    if err.is_terminal:
        with err.status("loading the data") as status:
            yield lambda progress: status.update(_describe(progress))
        return
    last_line: float | None = None

    def print_line(progress: ExperimentProgress) -> None:
        nonlocal last_line
        if last_line is None:  # the first line is printed once all parallel runs have started
            is_due = len(progress.running) >= min(progress.jobs, progress.left)
        else:
            is_due = time.monotonic() - last_line > _LINE_INTERVAL
        if is_due or not progress.left:
            last_line = time.monotonic()
            print_text(_describe(progress), err)

    yield print_line


def _describe(progress: ExperimentProgress) -> str:
    waiting = progress.left - len(progress.running)
    line = f"{progress.done} of {progress.total} runs done"
    line += f" ({progress.reused} reused)" if progress.reused else ""
    line += f", {progress.failed} failed" if progress.failed else ""
    line += f", {waiting} waiting" if waiting > 0 else ""
    if (seconds := progress.seconds_left) is not None:
        line += f", about {format_duration(seconds)} left"
    if progress.running:
        names = ", ".join(f"{row} on {column} (seed {seed})" for row, column, seed in sorted(progress.running))
        line += f"; running: {names}"
    return line
