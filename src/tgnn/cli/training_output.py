"""Terminal output of ``tgnn train``: the progress of runs, and their results beside the paper's."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from tgnn.cli.console import err, note, out
from tgnn.experiments.results import reported

if TYPE_CHECKING:
    from tgnn.training.config import Config
    from tgnn.training.loop import Epoch

_BAR_SECONDS = 0.1
"""Seconds between two updates of the progress bar on a terminal."""
_LINE_SECONDS = 10.0
"""Seconds between two progress lines where the output is not a terminal."""


# ---- progress --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def show_epochs(config: Config, quiet: bool = False) -> Iterator[Callable[[Epoch], None]]:
    """Show the progress of one run: a bar on a terminal, else a line every ten seconds.

    Args:
        config: Configuration of the run.
        quiet: Whether to write to the log file only.
    """
    title = _title(config)
    started, updated, first_epoch = time.monotonic(), 0.0, -1

    def epochs_per_second(epoch: Epoch) -> float:
        nonlocal first_epoch
        if first_epoch < 0:
            first_epoch = epoch.number
        return (epoch.number - first_epoch + 1) / max(time.monotonic() - started, 1e-9)

    if quiet:
        yield _log_epoch
        return
    if not err.is_terminal:

        def print_line(epoch: Epoch) -> None:
            nonlocal updated
            _log_epoch(epoch)
            now, speed = time.monotonic(), epochs_per_second(epoch)
            if now - updated > _LINE_SECONDS or epoch.number == 0:
                updated = now
                position = f"epoch {epoch.number + 1}/{config.train.epochs}"
                text = f"{title}: {position}, {_describe(epoch)}, {speed:.1f} epochs/s"
                err.print(text, markup=False, highlight=False, soft_wrap=True)

        yield print_line
        return
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=err, transient=True, refresh_per_second=8) as bar:
        task = bar.add_task(title, total=config.train.epochs, status="")

        def update_bar(epoch: Epoch) -> None:
            nonlocal updated
            _log_epoch(epoch)
            now, speed = time.monotonic(), epochs_per_second(epoch)
            if now - updated > _BAR_SECONDS:
                updated = now
                bar.update(task, completed=epoch.number + 1, status=f"{_describe(epoch)}, {speed:.0f} epochs/s")

        yield update_bar


@contextlib.contextmanager
def show_runs(config: Config, runs: int, quiet: bool = False) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Show the progress of several runs, and the mean of their test metrics.

    Args:
        config: Configuration of the runs.
        runs: Number of runs.
        quiet: Whether to write to the log file only.
    """
    title, scores = _title(config), []

    def describe(metrics: dict[str, Any]) -> str:
        scores.append(metrics["test"])
        text = f"seed {metrics['seed']}: {metrics['test']:.4f}, mean {sum(scores) / len(scores):.4f}"
        note("%s: %s (%d/%d)", title, text, len(scores), runs)
        return text

    if quiet:

        def log_only(metrics: dict[str, Any]) -> None:
            describe(metrics)

        yield log_only
        return
    if not err.is_terminal:

        def print_line(metrics: dict[str, Any]) -> None:
            text = f"{title}: {describe(metrics)} ({len(scores)}/{runs})"
            err.print(text, markup=False, highlight=False, soft_wrap=True)

        yield print_line
        return
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True) as bar:
        task = bar.add_task(title, total=runs, status="")
        yield lambda metrics: bar.update(task, advance=1, status=describe(metrics))


def _title(config: Config) -> str:
    """Name the data and the model. Own data is named by its folder or file, without the path to it."""
    return f"{Path(config.data.name).name} {config.model.name}"


def _log_epoch(epoch: Epoch) -> None:
    note("epoch %d: %s", epoch.number + 1, _describe(epoch))


def _describe(epoch: Epoch) -> str:
    best = f"best {epoch.best_score:.4f} at {epoch.best_epoch + 1}"
    return f"loss {epoch.loss:.4f}, validation {epoch.score:.4f} ({best})"


# ---- results ---------------------------------------------------------------------------------------------------


def print_result(metrics: dict[str, Any], folder: Path, quiet: bool = False) -> None:
    """Print the result of one or several runs, and write it to the log file.

    Args:
        metrics: ``metrics.json`` of a run, or ``summary.json`` of several.
        folder: Folder of the run or runs.
        quiet: Whether to write to the log file only.
    """
    rows = _rows(metrics, folder)
    width = max(len(name) for name, _ in rows) + 2
    for name, text in rows:
        note("%s", f"{name}: {text}" if name else text)
        if not quiet:
            out.print(Text(f"{name:<{width}}", style="bold") + Text(text), soft_wrap=True)


def _rows(metrics: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    runs = metrics["each"] if "runs" in metrics else [metrics]
    rows = [("data", f"{metrics['data']} ({_describe_split(runs)})")]
    if runs[0]["differs"]:
        rows.append(("", runs[0]["differs"]))
    rows.append(("model", f"{metrics['model']}, {runs[0]['parameters']:,} parameters"))
    rows += _summary_rows(metrics) if "runs" in metrics else _run_rows(metrics)
    if (figure := reported(metrics["model"], metrics["data"])) is not None:
        rows.append(("paper", f"{figure.value:.4f} ± {figure.spread:.4f} ({figure.table})"))
    return [*rows, ("saved in", str(folder))]


def _run_rows(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    seconds, epochs = metrics["seconds"], metrics["epochs"]
    return [
        (f"test {metrics['metric']}", f"{metrics['test']:.4f}"),
        ("validation", f"{metrics['val']:.4f} at epoch {metrics['best_epoch']} of {epochs}"),
        ("time", f"{seconds:.1f} s, {epochs / max(seconds, 1e-9):.1f} epochs/s"),
    ]


def _summary_rows(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    low, high = metrics["interval"]
    return [
        (f"test {metrics['metric']}", f"{metrics['mean']:.4f} ± {metrics['std']:.4f} over {metrics['runs']} runs"),
        ("", f"95% confidence interval {low:.4f} to {high:.4f} (Student's t)"),
    ]


def _describe_split(runs: list[dict[str, Any]]) -> str:
    """Give the name and the hash of the split, if all runs share them."""
    names, hashes = {run["split"] for run in runs}, {run["split_hash"] for run in runs}
    name = f"{names.pop()} split" if len(names) == 1 else "splits"
    return f"{name}, {hashes.pop() if len(hashes) == 1 else 'one per seed'}"
