"""Progress bar on a terminal; without a terminal, one line in the log."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

logger = logging.getLogger("tgnn")

T = TypeVar("T")
_ITEMS_PER_TICK = 64

Tick = Callable[[int], None]
"""Callback that is called with the amount of work done since its last call."""


def no_tick(_: int) -> None:
    """Ignore progress."""


@contextlib.contextmanager
def bar(description: str, total: int | None = None, *, in_bytes: bool = False) -> Iterator[Tick]:
    """Show a progress bar on standard error, and yield the callback that advances it.

    Args:
        description: Description of the work.
        total: Total amount of work, if it is known.
        in_bytes: Whether the amount is a number of bytes.

    Example:
        >>> with bar("counting", 3) as tick:
        ...     for _ in range(3):
        ...         tick(1)
    """
    if not sys.stderr.isatty():
        logger.info("%s", description)
        yield no_tick
        return
    from rich import progress  # imported late, because most calls need no bar
    from rich.console import Console

    columns = [
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn() if in_bytes else progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    ]
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(description, total=total)
        yield lambda amount: display.update(task, advance=amount)


def track(items: Sequence[T], description: str) -> Iterator[T]:
    """Iterate over items, and show a progress bar.

    Example:
        >>> list(track("ab", "reading"))
        ['a', 'b']
    """
    with bar(description, len(items)) as tick:
        for start in range(0, len(items), _ITEMS_PER_TICK):
            some = items[start : start + _ITEMS_PER_TICK]
            yield from some
            tick(len(some))
