"""Why cells failed: in short where there is little room, and once in full."""

from __future__ import annotations

import re

from tgnn.experiments.results import Result

_MOST = 120


def in_short(reason: str) -> str:
    r"""The first sentence, for a cell.

    Example:
        >>> in_short("cora could not be had. Looked in:\n  here\n  there"), in_short("out of memory")
        ('cora could not be had …', 'out of memory')
    """
    first = re.split(r"(?<=\.)\s|\n", reason.strip(), maxsplit=1)[0]
    if first == reason.strip() and len(first) <= _MOST:
        return first
    return first[:_MOST].rstrip(" .:;") + " …"


def in_full(result: Result) -> list[tuple[str, str]]:
    """Reasons that were cut short, each once: whose it is, and all of it."""
    found: dict[str, list[str]] = {}
    for cell in result.cells:
        if cell.failed and in_short(cell.failed) != cell.failed.strip():
            found.setdefault(cell.failed.strip(), []).append(f"{cell.row} on {cell.column}")
    return [(", ".join(places), reason) for reason, places in found.items()]
