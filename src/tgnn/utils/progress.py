"""A bar for long work: on a terminal it moves, elsewhere one line in the log says what has begun."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator

logger = logging.getLogger("tgnn")

Tick = Callable[[int], None]
"""Called with how much more is done."""


def no_tick(_: int) -> None:
    """For those who do not want to know."""


@contextlib.contextmanager
def bar(what: str, total: int | None = None, *, in_bytes: bool = False) -> Iterator[Tick]:
    """Shows how far some work is, on standard error; gives what to call as it advances.

    Args:
        what: The work, in a few words.
        total: How much there is, if that is known.
        in_bytes: Whether to write the amount and its speed as sizes of files.

    Example:
        >>> with bar("counting", 3) as tick:
        ...     for _ in range(3):
        ...         tick(1)
    """
    if not sys.stderr.isatty():
        logger.info("%s", what)
        yield no_tick
        return
    from rich import progress  # not needed by those who never wait
    from rich.console import Console

    amount = (
        [progress.DownloadColumn(), progress.TransferSpeedColumn()] if in_bytes else [progress.MofNCompleteColumn()]
    )
    columns = [progress.TextColumn("{task.description}"), progress.BarColumn(), *amount, progress.TimeRemainingColumn()]
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda more: shown.update(task, advance=more)
