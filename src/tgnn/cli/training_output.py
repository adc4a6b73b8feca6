"""Terminal output of ``tgnn train``: progress of runs, and results with the values of the paper."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from tgnn.cli.console import err, format_speed, note, out, print_rows, print_text
from tgnn.experiments.results import paper_score
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.scores import METRICS

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
    """Show the progress of one run: a bar on a terminal, else a line every ten seconds. ``quiet`` only logs it."""
    interval = _BAR_SECONDS if err.is_terminal else _LINE_SECONDS
    updated = -math.inf
    criterion = ", by loss" if config.train.select_by == "loss" else ""  # the best epoch may have a lower metric
    with show_progress(_title(config), config.train.epochs, quiet) as show:

        def on_epoch(epoch: Epoch) -> None:
            nonlocal updated
            best = f"best {epoch.best_score:.4f} at {epoch.best_epoch + 1}{criterion}"
            text = f"loss {epoch.loss:.4f}, validation {epoch.score:.4f} ({best})"
            note("epoch %d: %s", epoch.number + 1, text)
            now = time.monotonic()
            if now - updated > interval:
                updated = now
                speed = format_speed(epoch.number + 1, epoch.record["seconds"])
                position = f"epoch {epoch.number + 1}/{config.train.epochs}"
                show(epoch.number + 1, f"{text}, {speed}", f"{position}, {text}, {speed}")

        yield on_epoch


@contextlib.contextmanager
def show_runs(config: Config, runs: int, quiet: bool = False) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Show the progress of several runs, and the mean of their test metrics. ``quiet`` only logs it."""
    title, scores = _title(config), []
    with show_progress(title, runs, quiet) as show:

        def on_run(metrics: dict[str, Any]) -> None:
            scores.append(metrics["test"])
            text = f"seed {metrics['seed']}: {metrics['test']:.4f}, mean {sum(scores) / len(scores):.4f}"
            line = f"{text} ({len(scores)}/{runs})"
            note("%s: %s", title, line)
            show(len(scores), text, line)

        yield on_run


@contextlib.contextmanager
def show_progress(title: str, total: int, quiet: bool) -> Iterator[Callable[[int, str, str], None]]:
    """Yield a function that shows the number of finished steps: with a status beside a bar, or as a line."""
    if quiet:
        yield lambda done, status, line: None
    elif not err.is_terminal:
        yield lambda done, status, line: print_text(f"{title}: {line}", err)
    else:
        columns = (
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(compact=True),
        )
        with Progress(*columns, console=err, transient=True, refresh_per_second=8) as bar:
            task = bar.add_task(title, total=total, status="")
            yield lambda done, status, line: bar.update(task, completed=done, status=status)


def _title(config: Config) -> str:
    """Return the names of the data and the model. User data is named by its folder or file, without the path."""
    return f"{Path(config.data.name).name} {config.model.name}"


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
    if not quiet and "baselines" in metrics:
        print_comparison(metrics)


def _rows(metrics: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    runs = metrics["each"] if "runs" in metrics else [metrics]
    rows = [
        ("data", f"{metrics['data']} ({_describe_split(runs)})"),
        *([("", runs[0]["differs"])] if runs[0]["differs"] else []),
        ("model", f"{metrics['model']}, {runs[0]['parameters']:,} parameters"),
    ]
    if "runs" in metrics:
        low, high = metrics["interval"]
        rows += [
            (f"test {metrics['metric']}", f"{metrics['mean']:.4f} ± {metrics['std']:.4f} over {metrics['runs']} runs"),
            ("", f"95% confidence interval {low:.4f} to {high:.4f} (Student's t)"),
        ]
    else:
        seconds, epochs = metrics["seconds"], metrics["epochs"]
        rows += [
            (f"test {metrics['metric']}", f"{metrics['test']:.4f}"),
            ("validation", f"{metrics['val']:.4f} at epoch {metrics['best_epoch']} of {epochs}"),
            ("time", f"{seconds:.1f} s, {format_speed(epochs, seconds)}"),
        ]
    calibration = (metrics.get("details") or {}).get("calibration") or {}
    if (before := calibration.get("error_before")) is not None:
        error = f"expected calibration error {calibration['error']:.4f} (before: {before:.4f})"
        rows.append(("calibration", f"{error}, temperature {calibration['temperature']:.2f}"))
    if (figure := paper_score(metrics["model"], metrics["data"])) is not None:
        rows.append(("paper", f"{figure.value:.4f} ± {figure.spread:.4f} ({figure.table})"))
    return [*rows, ("saved in", str(folder))]


_MAX_ROWS = 12
"""Number of classes or targets up to which their scores are printed."""


def print_comparison(metrics: dict[str, Any]) -> None:
    """Print the scores of the model and of its baselines, and the scores of each class or target."""
    details = metrics.get("details", {})
    scores = metrics["scores"] if "runs" in metrics else details["scores"]
    metric = metrics["metric"]
    names = [metric, *(name for name in scores if name != metric)][:5]
    rows = [(metrics["model"], scores), *((row["name"], row["scores"]) for row in metrics["baselines"])]
    out.print()
    print_rows(["test set", *names], [[name, *(_digits(row.get(key)) for key in names)] for name, row in rows], 1)
    if len(details.get("targets") or []) > 1:
        print_text("mae and rmse of several targets are means in units of each target's standard deviation")
    better = [row["name"] for row in metrics["baselines"] if _is_better(metric, row["test"], scores.get(metric))]
    if better:
        print_text(f"{better[-1]} scores better than {metrics['model']}: compare models with `tgnn compare`", err)
    print_details(details)


def print_details(details: dict[str, Any], alone: bool = False, is_new: bool = False) -> None:
    """Print the scores of each class or target.

    Args:
        details: ``details`` of a result.
        alone: Whether to print all metrics, too, and the confusion matrix if it is small.
        is_new: Whether the examples are new data, without a training set.
    """
    classes, targets = details.get("classes") or [], details.get("targets") or []
    if alone and (scores := details["scores"]):
        out.print()
        print_rows(list(scores), [list(map(_digits, scores.values()))], 0)
    if 0 < len(classes) <= _MAX_ROWS:
        out.print()
        keys = ("precision", "recall", "f1")
        counts = {"test": "examples"} if is_new else {"test": "in test set", "train": "in training set"}
        rows = [
            [row["name"], *(_digits(row[key]) for key in keys), *(str(row[key]) for key in counts)] for row in classes
        ]
        print_rows(["class", *keys, *counts.values()], rows, 1)
        if alone and (matrix := details.get("confusion")) is not None:
            out.print()
            names = [row["name"] for row in classes]
            print_rows(["true \\ predicted", *names], [[name, *map(str, row)] for name, row in zip(names, matrix)], 1)
    elif 1 < len(targets) <= _MAX_ROWS:
        out.print()
        keys = ("mae", "rmse", "r2")
        print_rows(["target", *keys], [[row["name"], *(_digits(row.get(key)) for key in keys)] for row in targets], 1)


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _is_better(metric: str, value: float, than: float | None) -> bool:
    return than is not None and (value > than if HIGHER_IS_BETTER[metric] else value < than)


def _describe_split(runs: list[dict[str, Any]]) -> str:
    """Give the name and the hash of the split, if all runs share them."""
    names, hashes = {run["split"] for run in runs}, {run["split_hash"] for run in runs}
    if names == {"stratified"} and runs[0]["metric"] in METRICS["regression"]:
        names = {"random"}  # targets that are numbers have no classes to stratify by
    name = f"{names.pop()} split" if len(names) == 1 else "splits"
    return f"{name}, {hashes.pop() if len(hashes) == 1 else 'one per seed'}"
