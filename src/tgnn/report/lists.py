"""The tables of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tgnn.experiments.paper_figures import reported
from tgnn.report.numbers import count, metric, rate, signed
from tgnn.report.runs import Run
from tgnn.report.tables import Cell, Table
from tgnn.training.repeated_runs import summarize

_TONES = {"running": "running", "unfinished": "running", "damaged": "damaged"}


def runs_table(runs: Sequence[Run]) -> Table:
    """All runs; the name of each opens it."""
    headers = ["run", "state", "data", "model", "val", "test", "epochs", "seconds", "parameters"]
    rows = [_run_row(run, place) for place, run in enumerate(runs)]
    return Table("runs-table", headers, rows, numbers=frozenset(range(4, 9)))


def _run_row(run: Run, place: int) -> list[Cell]:
    epochs = count(run.epochs)
    if run.state in ("running", "unfinished") and run.planned:
        epochs += f" of {count(run.planned)}"
    small = (run.reason,) if run.reason else ()
    return [
        Cell(run.name, run.name, small, opens=place),
        Cell(run.state, run.state, (), _TONES.get(run.state, "finished")),
        Cell(run.data, run.data, (run.metric,) if run.metric else ()),
        Cell(run.model, run.model),
        Cell(metric(run.val), run.val),
        Cell(metric(run.test), run.test),
        Cell(epochs, run.epochs),
        Cell(rate(run.seconds), run.seconds),
        Cell(count(run.parameters), run.parameters),
    ]


def several_table(groups: Sequence[tuple[str, int | None, str, Sequence[Run]]]) -> Table:
    """Folders of several runs, each with its mean.

    Args:
        groups: Name of the folder, how many runs are planned, why it is damaged, and the runs.
    """
    headers = ["folder", "data", "model", "metric", "mean ± std", "95 % interval", "paper", "runs"]
    rows = []
    for name, planned, reason, runs in groups:
        done = [run for run in runs if run.test is not None and run.state == "finished"]
        known = done or list(runs)
        data, model, name_of_metric = (known[0].data, known[0].model, known[0].metric) if known else ("", "", "")
        state = f"{len(done)} of {planned}" if planned is not None else str(len(done))
        tone = "damaged" if reason else "running" if len(done) != planned else ""
        rows.append(
            [
                Cell(name, name),
                Cell(data, data),
                Cell(model, model),
                Cell(name_of_metric, name_of_metric),
                *_means(done, data, model),
                Cell("damaged" if reason else state, len(done), (reason,) if reason else (), tone),
            ]
        )
    note = "Intervals are Student's t, as tgnn train --runs prints them; those of results are bootstrap."
    return Table("several-table", headers, rows, note, frozenset(range(4, 8)))


def _means(done: Sequence[Run], data: str, model: str) -> list[Cell]:
    figure = reported(model, data)
    paper = Cell("") if figure is None else Cell(f"{metric(figure.value)} ± {metric(figure.spread)}", figure.value)
    if not done:
        return [Cell(""), Cell(""), paper]
    found = summarize(
        [{"test": r.test, "data": r.data, "model": r.model, "metric": r.metric, "split": ""} for r in done]
    )
    mean, (low, high) = found["mean"], found["interval"]
    if figure is not None:
        paper = Cell(paper.text, paper.value, (f"difference {signed(mean - figure.value)}",))
    text = metric(mean) + (f" ± {metric(found['std'])}" if len(done) > 1 else "")
    interval = Cell(f"{metric(low)} to {metric(high)}", low) if len(done) > 1 else Cell("")
    return [Cell(text, mean), interval, paper]


def within(runs: Sequence[tuple[Path, Run]], folder: Path) -> list[Run]:
    """The runs right under a folder."""
    return [run for path, run in runs if path.parent == folder]
