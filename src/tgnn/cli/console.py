"""Output of the command line: results go to standard output, messages to standard error."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.logging import RichHandler

if TYPE_CHECKING:
    from rich.table import Table

out = Console() if Console().is_terminal else Console(width=200)
"""Console for results. Without a terminal it prints plain text, 200 columns wide."""

err = Console(stderr=True)
"""Console for progress, warnings and errors."""

DETAIL = 5
"""Log level of messages that go to the log file only, such as the metrics of every epoch."""

verbosity = 0
"""Verbosity: -1 prints results and errors only, 0 also progress and warnings, 1 also debug messages."""


def print_text(text: str, console: Console = out, style: str = "") -> None:
    """Print a text as it is: brackets are no markup, numbers get no color, and long lines are not wrapped."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as indented JSON to standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_rows(headers: Sequence[str], rows: Iterable[Sequence[str]], no_wrap: int = 0) -> None:
    """Print rows as a table without borders. The first ``no_wrap`` columns are not wrapped."""
    from rich.table import Table

    table = Table(*headers, box=None, pad_edge=False)
    for column in table.columns[:no_wrap]:
        column.no_wrap = True
    for row in rows:
        table.add_row(*row)
    print_table(table)


def print_table(table: Table) -> None:
    """Print a table to standard output. Without a terminal, trailing spaces are removed."""
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as text:
        out.print(table)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in text.get().splitlines()))


def format_duration(seconds: float) -> str:
    """Format an estimated time.

    Example:
        >>> format_duration(42.4), format_duration(600), format_duration(7200)
        ('42 s', '10 min', '2.0 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def format_speed(epochs: float, seconds: float) -> str:
    """Format a number of epochs per second, or of seconds per epoch if an epoch takes long.

    Example:
        >>> format_speed(3, 10), format_speed(640, 10), format_speed(2, 60)
        ('0.3 epochs/s', '64 epochs/s', '30 s/epoch')
    """
    speed = epochs / max(seconds, 1e-9)
    if speed < 0.1:
        return f"{seconds / max(epochs, 1e-9):.0f} s/epoch"
    return f"{speed:.1f} epochs/s" if speed < 9.95 else f"{speed:.0f} epochs/s"


class _DuplicateWarningFilter(logging.Filter):
    """Drop repeated warnings, such as the same warning about the data from each of ten runs."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        is_new = record.getMessage() not in self._seen
        self._seen.add(record.getMessage())
        return is_new


class _LogFile(logging.FileHandler):
    """Log file that is given up after the first error, such as a full disk."""

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        logging.getLogger("tgnn").removeHandler(self)
        stream, self.stream = self.stream, None
        with contextlib.suppress(OSError):
            if stream is not None:
                stream.close()
        reason = str(getattr(error, "strerror", None) or error)
        print_text(f"warning: the log file {self.baseFilename} cannot be written: {reason}", err)


def set_up_logging(level: int, log_file: Path | None) -> None:
    """Configure the ``tgnn`` logger for all commands. A log file receives all messages, whatever the terminal shows."""
    global verbosity
    verbosity = level
    logger = logging.getLogger("tgnn")
    logger.setLevel(DETAIL)
    logger.propagate = False  # PyG's loader configures the root logger, which would print every message twice
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.filters = [_DuplicateWarningFilter()]
    terminal: logging.Handler = logging.StreamHandler()
    if err.is_terminal:
        terminal = RichHandler(console=err, show_time=False, show_path=False, markup=False)
    terminal.setLevel({-1: logging.ERROR, 0: logging.INFO, 1: logging.DEBUG}[level])
    terminal.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(terminal)
    if log_file is not None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        logging.addLevelName(DETAIL, "DETAIL")
        file_handler = _LogFile(log_file, encoding="utf-8")
        file_handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(file_handler)


def note(message: str, *values: object) -> None:
    """Write a message to the log file only."""
    logging.getLogger("tgnn").log(DETAIL, message, *values)


def error_message(error: Exception) -> str:
    """Return the text of an error, without the ``[Errno ...]`` prefix of system errors."""
    if isinstance(error, OSError) and error.strerror:
        reason = f"{error.strerror[0].lower()}{error.strerror[1:]}"
        return f"{error.filename}: {reason}" if error.filename else f"output cannot be written: {reason}"
    return str(error) or type(error).__name__


def fail(message: str) -> None:
    """Print an error message to standard error and write it to the log file."""
    note("error: %s", message)
    err.print("[bold red]error:[/] ", end="")
    print_text(message, err)
    print_json_error(message)


def print_json_error(message: str) -> None:
    """Print an error to standard output, too, if the user asked for JSON."""
    if "--json" in sys.argv:
        print_json({"error": message})
