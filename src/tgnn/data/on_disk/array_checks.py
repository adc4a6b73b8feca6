"""What is wrong in a graph on disk although its files are of the right size: what is cheap to tell when it is opened.

Each function gives the rest of a sentence that begins with the name of the file; empty: nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_AT_ONCE = 2**20


def wrong_info(about: Mapping[str, Any]) -> str:
    """Of what ``graph.json`` says of the target.

    Args:
        about: The fields of :class:`~tgnn.data.dataset_info.DatasetInfo`.
    """
    from tgnn.data.dataset_info import METRIC_OF  # which knows graphs on disk

    for name, known in (("level", ["node"]), ("target", list(METRIC_OF)), ("metric", list(METRIC_OF.values()))):
        if about.get(name) not in known:
            return f"has {about.get(name)!r} as {name}, which is none of {', '.join(known)}"
    outputs = about.get("outputs")
    if not isinstance(outputs, int) or isinstance(outputs, bool) or outputs < 0:
        return f"has {outputs!r} as outputs, which is no number of them"
    for name in ("name", "differs", "stored_split"):
        if not isinstance(about.get(name, ""), str):
            return f"has {about[name]!r} as {name}, which is no text"
    return ""


def wrong_pointers(pointers: np.ndarray, first: int | None, last: int) -> str:
    """Of numbers that must begin and end somewhere, and never fall.

    Args:
        pointers: Some, int64.
        first: The first; ``None``: any from 0 on.
        last: The last.

    Example:
        >>> wrong_pointers(np.array([0, 3, 2, 4]), 0, 4)
        'falls behind its row 1 (from 3 to 2), and must never fall'
    """
    if not len(pointers):
        return "" if last == 0 else f"is empty, and should end with {last:,}"
    begin, end = int(pointers[0]), int(pointers[-1])
    if end != last or (begin != first if first is not None else begin < 0):
        return f"runs from {begin:,} to {end:,}, and should run from {first or 0} to {last:,}"
    if len(rows := falling(pointers)):
        row = int(rows[0])
        return f"falls behind its row {row:,} (from {pointers[row]:,} to {pointers[row + 1]:,}), and must never fall"
    return ""


def falling(pointers: np.ndarray) -> np.ndarray:
    """Rows after which a smaller number comes. They are read block by block."""
    found = [np.empty(0, dtype=np.int64)]
    for begin in range(0, len(pointers), _AT_ONCE):
        some = pointers[begin : begin + _AT_ONCE + 1]
        found.append(np.flatnonzero(some[1:] < some[:-1]) + begin)
    return np.concatenate(found)


def wrong_labels(y: np.ndarray, target: str, outputs: int) -> str:
    """Of targets that are not those that ``graph.json`` tells of.

    Args:
        y: All of them.
        target: ``"classes"``, ``"labels"`` or ``"number"``.
        outputs: How many classes, labels or numbers there are.

    Example:
        >>> wrong_labels(np.array([0, 4, -1]), "classes", 2)
        'has the class 4, but there are 2 (0 to 1)'
    """
    if target == "classes":
        if y.ndim != 1 or y.dtype.kind != "i":
            return f"has {y.dtype} {list(y.shape)}, which are no classes"
        most = int(y.max()) if len(y) else -1
        return "" if most < outputs else f"has the class {most:,}, but there are {outputs:,} (0 to {outputs - 1:,})"
    columns = 1 if y.ndim == 1 else y.shape[1]
    return "" if columns == outputs else f"has {columns:,} for each node, but {outputs:,} are to be predicted"


def wrong_parts(part: np.ndarray) -> str:
    """Of the parts of a split.

    Args:
        part: Of each node.
    """
    most = int(part.max()) if len(part) else 0
    return "" if most <= 3 else f"has a node in part {most}, and there are only 0 to 3"
