"""Checks of the arrays of a graph on disk that are cheap enough to run whenever it is opened.

Each function returns the rest of a sentence that starts with the file name, or an empty string if the array is valid.
"""

from __future__ import annotations

import numpy as np

_AT_ONCE = 2**20


def wrong_pointers(pointers: np.ndarray, last: int) -> str:
    """Check that an array of offsets ranges from 0 to the last offset and never decreases.

    Args:
        pointers: The offsets, int64.
        last: The expected last value.

    Example:
        >>> wrong_pointers(np.array([0, 3, 2, 4]), 4)
        'decreases after row 1 (from 3 to 2), but must never decrease'
    """
    begin, end = int(pointers[0]), int(pointers[-1])
    if begin != 0 or end != last:
        return f"ranges from {begin:,} to {end:,}, but must range from 0 to {last:,}"
    if len(rows := decreasing(pointers)):
        row = int(rows[0])
        return f"decreases after row {row:,} (from {pointers[row]:,} to {pointers[row + 1]:,}), but must never decrease"
    return ""


def decreasing(pointers: np.ndarray) -> np.ndarray:
    """Return the rows that are followed by a smaller number. The array is read in blocks."""
    found = [np.empty(0, dtype=np.int64)]
    for begin in range(0, len(pointers), _AT_ONCE):
        some = pointers[begin : begin + _AT_ONCE + 1]
        found.append(np.flatnonzero(some[1:] < some[:-1]) + begin)
    return np.concatenate(found)


def wrong_labels(y: np.ndarray, target: str, outputs: int) -> str:
    """Check that labels agree with the description of the data set.

    Args:
        y: All labels.
        target: ``"classes"``, ``"labels"`` or ``"number"``.
        outputs: Number of classes, labels or regression targets.

    Example:
        >>> wrong_labels(np.array([0, 4, -1]), "classes", 2)
        'has the class 4, but there are 2 classes (0 to 1)'
    """
    if target == "classes":
        if y.ndim != 1 or y.dtype.kind != "i":
            return f"has {y.dtype} {list(y.shape)}, but classes must be integers [nodes]"
        largest = int(y.max()) if len(y) else -1
        if largest < outputs:
            return ""
        return f"has the class {largest:,}, but there are {outputs:,} classes (0 to {outputs - 1:,})"
    columns = 1 if y.ndim == 1 else y.shape[1]
    return "" if columns == outputs else f"has {columns:,} targets per node, but there must be {outputs:,}"


def wrong_split(part: np.ndarray) -> str:
    """Check the stored split.

    Args:
        part: Set of each node: 0 none, 1 training, 2 validation, 3 test.
    """
    largest = int(part.max()) if len(part) else 0
    return "" if largest <= 3 else f"has the value {largest}, but the split must be 0, 1, 2 or 3"
