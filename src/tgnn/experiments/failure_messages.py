"""Failure messages of cells: shortened inside a table, and once in full below it."""

from __future__ import annotations

import re

from tgnn.experiments.results import Result

_MAX_LENGTH = 120


def shorten_reason(reason: str) -> str:
    r"""Return the first sentence of a failure message, for a table cell.

    Example:
        >>> shorten_reason("cora was not found. Looked in:\n  here\n  there"), shorten_reason("out of memory")
        ('cora was not found …', 'out of memory')
    """
    first = re.split(r"(?<=\.)\s|\n", reason.strip(), maxsplit=1)[0]
    if first == reason.strip() and len(first) <= _MAX_LENGTH:
        return first
    return first[:_MAX_LENGTH].rstrip(" .:;") + " …"


def long_reasons(result: Result) -> list[tuple[str, str]]:
    """Return each failure message that was shortened once: the names of its cells and the full message."""
    cells_by_reason: dict[str, list[str]] = {}
    for cell in result.cells:
        if cell.failed and shorten_reason(cell.failed) != cell.failed.strip():
            cells_by_reason.setdefault(cell.failed.strip(), []).append(f"{cell.row} on {cell.column}")
    return [(", ".join(cells), reason) for reason, cells in cells_by_reason.items()]
