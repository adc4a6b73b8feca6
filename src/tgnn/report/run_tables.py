"""Tables of single runs and of repeated runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tgnn.experiments.paper_figures import reported
from tgnn.report.number_format import count, metric, rate, signed
from tgnn.report.runs import Run
from tgnn.report.tables import ReportTable, TableCell
from tgnn.training.repeated_runs import summarize

_TONES = {"running": "running", "unfinished": "running", "damaged": "damaged"}


def runs_table(runs: Sequence[Run]) -> ReportTable:
    """Build the table of all runs. The name of a run opens its details."""
    headers = ["run", "state", "data", "model", "val", "test", "epochs", "seconds", "parameters"]
    rows = [_run_row(run, number) for number, run in enumerate(runs)]
    return ReportTable("runs-table", headers, rows, numbers=frozenset(range(4, 9)))


def _run_row(run: Run, number: int) -> list[TableCell]:
    epochs = count(run.epochs)
    if run.state in ("running", "unfinished") and run.planned:
        epochs += f" of {count(run.planned)}"
    small = (run.reason,) if run.reason else ()
    return [
        TableCell(run.name, run.name, small, opens=number),
        TableCell(run.state, run.state, (), _TONES.get(run.state, "finished")),
        TableCell(run.data, run.data, (run.metric,) if run.metric else ()),
        TableCell(run.model, run.model),
        TableCell(metric(run.val), run.val),
        TableCell(metric(run.test), run.test),
        TableCell(epochs, run.epochs),
        TableCell(rate(run.seconds), run.seconds),
        TableCell(count(run.parameters), run.parameters),
    ]


def repeated_runs_table(groups: Sequence[tuple[str, int | None, str, Sequence[Run]]]) -> ReportTable:
    """Build the table of repeated runs, with the mean of each folder.

    Args:
        groups: Name of the folder, number of planned runs, reason if its plan is damaged, and the runs.
    """
    headers = ["folder", "data", "model", "metric", "mean ± std", "95% confidence interval", "paper", "runs"]
    rows = []
    for name, planned, reason, runs in groups:
        done = [run for run in runs if run.test is not None and run.state == "finished"]
        known = done or list(runs)
        data, model, metric_name = (known[0].data, known[0].model, known[0].metric) if known else ("", "", "")
        state = f"{len(done)} of {planned}" if planned is not None else str(len(done))
        tone = "damaged" if reason else "running" if len(done) != planned else ""
        rows.append(
            [
                TableCell(name, name),
                TableCell(data, data),
                TableCell(model, model),
                TableCell(metric_name, metric_name),
                *_means(done, data, model),
                TableCell("damaged" if reason else state, len(done), (reason,) if reason else (), tone),
            ]
        )
    note = (
        "Confidence intervals are Student's t intervals, as in `tgnn train --runs`. Results have bootstrap intervals."
    )
    return ReportTable("repeated-runs-table", headers, rows, note, frozenset(range(4, 8)))


def _means(done: Sequence[Run], data: str, model: str) -> list[TableCell]:
    figure = reported(model, data)
    paper = (
        TableCell("")
        if figure is None
        else TableCell(f"{metric(figure.value)} ± {metric(figure.spread)}", figure.value)
    )
    if not done:
        return [TableCell(""), TableCell(""), paper]
    summary = summarize(
        [{"test": r.test, "data": r.data, "model": r.model, "metric": r.metric, "split": ""} for r in done]
    )
    mean, (low, high) = summary["mean"], summary["interval"]
    if figure is not None:
        paper = TableCell(paper.text, paper.value, (f"difference {signed(mean - figure.value)}",))
    text = metric(mean) + (f" ± {metric(summary['std'])}" if len(done) > 1 else "")
    interval = TableCell(f"{metric(low)} to {metric(high)}", low) if len(done) > 1 else TableCell("")
    return [TableCell(text, mean), interval, paper]


def runs_in_folder(runs: Sequence[tuple[Path, Run]], folder: Path) -> list[Run]:
    """Return the runs directly inside a folder."""
    return [run for path, run in runs if path.parent == folder]
