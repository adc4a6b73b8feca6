"""How verbs speak: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.logging import RichHandler

if TYPE_CHECKING:
    from rich.table import Table

out = Console()
"""For results. Off a terminal it writes plain text of any width."""

err = Console(stderr=True)
"""For progress, warnings and errors."""

if not out.is_terminal:
    out = Console(width=200)


DETAIL = 5
"""A level for what goes to the log file only, such as every epoch."""

verbosity = 0
"""Below 0: results and errors only; above 0: everything."""


def print_json(value: Any) -> None:
    """One machine-readable object, and nothing else, on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(table: Table) -> None:
    """A table of results; off a terminal without spaces at the ends of lines."""
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as text:
        out.print(table)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in text.get().splitlines()))


class _Once(logging.Filter):
    """Lets a warning through once: of ten runs on the same data, one says what is odd about it."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        said, text = self._said, record.getMessage()
        again = text in said
        said.add(text)
        return not again


def set_up_logging(level: int, log_file: Path | None) -> None:
    """Once for all verbs.

    Args:
        level: Below 0: errors only; 0: warnings and news; above 0: everything.
        log_file: Gets everything, with times, whatever the terminal shows.
    """
    global verbosity
    verbosity = level
    logger = logging.getLogger("tgnn")
    logger.setLevel(DETAIL)
    logger.propagate = False  # PyG's loader sets up the root logger by the way, and would say everything again
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    for filtered in list(logger.filters):
        logger.removeFilter(filtered)
    logger.addFilter(_Once())
    terminal: logging.Handler
    if err.is_terminal:
        terminal = RichHandler(console=err, show_time=False, show_path=False, markup=False)
    else:
        terminal = logging.StreamHandler()
    terminal.setLevel({-1: logging.ERROR, 0: logging.INFO}.get(max(-1, min(level, 1)), logging.DEBUG))
    terminal.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(terminal)
    if log_file is not None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        logging.addLevelName(DETAIL, "DETAIL")
        written = logging.FileHandler(log_file, encoding="utf-8")
        written.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(written)


def note(message: str, *values: object) -> None:
    """A line for the log file; the screen does not show it."""
    logging.getLogger("tgnn").log(DETAIL, message, *values)


def in_words(error: Exception) -> str:
    """What an error says, without the number that the system has for it."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error) or type(error).__name__


def fail(message: str) -> None:
    """Says what went wrong, in red where there are colours."""
    note("error: %s", message)
    err.print("[bold red]error:[/] ", end="")
    err.print(message, markup=False, highlight=False, soft_wrap=True)
