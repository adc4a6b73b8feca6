"""What a user watches while a model learns."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tgnn.cli.console import err, note

if TYPE_CHECKING:
    from tgnn.training.config import Config
    from tgnn.training.loop import Epoch

_OFTEN = 0.1  # seconds between two looks at the screen
_SELDOM = 10.0  # and between two lines where there is no screen


@contextlib.contextmanager
def watch_one(config: Config, quiet: bool = False) -> Iterator[Callable[[Epoch], None]]:
    """Epoch, loss, validation, epochs a second and time left; off a terminal a plain line now and then."""
    title = _title(config)
    start, last, first = time.monotonic(), 0.0, -1

    def speed(epoch: Epoch) -> float:
        nonlocal first
        if first < 0:
            first = epoch.number
        return (epoch.number - first + 1) / max(time.monotonic() - start, 1e-9)

    if quiet:
        yield _log
        return
    if not err.is_terminal:

        def line(epoch: Epoch) -> None:
            nonlocal last
            _log(epoch)
            now, rate = time.monotonic(), speed(epoch)
            if now - last > _SELDOM or epoch.number == 0:
                last = now
                text = (
                    f"{title}: epoch {epoch.number + 1}/{config.train.epochs}, {_numbers(epoch)}, {rate:.1f} epochs/s"
                )
                err.print(text, markup=False, highlight=False, soft_wrap=True)

        yield line
        return
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[now]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=err, transient=True, refresh_per_second=8) as shown:
        task = shown.add_task(title, total=config.train.epochs, now="")

        def move(epoch: Epoch) -> None:
            nonlocal last
            _log(epoch)
            now, rate = time.monotonic(), speed(epoch)
            if now - last > _OFTEN:
                last = now
                shown.update(task, completed=epoch.number + 1, now=f"{_numbers(epoch)}, {rate:.0f} epochs/s")

        yield move


def _title(config: Config) -> str:
    """Of own data the name of the folder or file, without the way there."""
    return f"{Path(config.data.name).name} {config.model.name}"


def _log(epoch: Epoch) -> None:
    note("epoch %d: %s", epoch.number + 1, _numbers(epoch))


def _numbers(epoch: Epoch) -> str:
    best = f"best {epoch.best:.4f} at {epoch.best_epoch + 1}"
    return f"loss {epoch.loss:.4f}, validation {epoch.score:.4f} ({best})"


@contextlib.contextmanager
def watch_many(config: Config, runs: int, quiet: bool = False) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Runs that are done, and their mean so far."""
    title, scores = _title(config), []

    def words(metrics: dict[str, Any]) -> str:
        scores.append(metrics["test"])
        text = f"seed {metrics['seed']}: {metrics['test']:.4f}, mean {sum(scores) / len(scores):.4f}"
        note("%s: %s (%d/%d)", title, text, len(scores), runs)
        return text

    if quiet:

        def silent(metrics: dict[str, Any]) -> None:
            words(metrics)

        yield silent
        return
    if not err.is_terminal:

        def line(metrics: dict[str, Any]) -> None:
            text = f"{title}: {words(metrics)} ({len(scores)}/{runs})"
            err.print(text, markup=False, highlight=False, soft_wrap=True)

        yield line
        return
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[now]}"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True) as shown:
        task = shown.add_task(title, total=runs, now="")
        yield lambda metrics: shown.update(task, advance=1, now=words(metrics))
