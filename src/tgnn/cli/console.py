"""How verbs speak: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.logging import RichHandler

out = Console()
"""For results. Off a terminal it writes plain text of any width."""

err = Console(stderr=True)
"""For progress, warnings and errors."""

if not out.is_terminal:
    out = Console(width=200)


verbosity = 0
"""Below 0: results and errors only; above 0: everything."""


def print_json(value: Any) -> None:
    """One machine-readable object, and nothing else, on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def set_up_logging(level: int, log_file: Path | None) -> None:
    """Once for all verbs.

    Args:
        level: Below 0: errors only; 0: warnings and news; above 0: everything.
        log_file: Gets everything, with times, whatever the terminal shows.
    """
    global verbosity
    verbosity = level
    logger = logging.getLogger("tgnn")
    logger.setLevel(logging.DEBUG)
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
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
        written = logging.FileHandler(log_file, encoding="utf-8")
        written.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(written)


def fail(message: str) -> None:
    """Says what went wrong, in red where there are colours."""
    logging.getLogger("tgnn").debug("error: %s", message)
    err.print("[bold red]error:[/] ", end="")
    err.print(message, markup=False, highlight=False, soft_wrap=True)
