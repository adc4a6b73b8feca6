"""String ids of nodes, stored as two memory-mapped arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from tgnn.data.readers.string_ids import StringIds


class MappedStringIds(StringIds):
    """One string per node, read from disk when it is accessed.

    Args:
        letters: All strings concatenated, as UTF-8 bytes, uint8 ``[B]``.
        ends: The end of each string in ``letters``, int64 ``[N]``.

    Example:
        >>> ids = MappedStringIds(*to_byte_arrays(pl.Series(["ann", "", "Zoë"])))
        >>> len(ids), ids[2], ids[np.array([2, 0])].tolist(), list(ids)
        (3, 'Zoë', ['Zoë', 'ann'], ['ann', '', 'Zoë'])
    """

    def __init__(self, letters: np.ndarray, ends: np.ndarray) -> None:
        self._letters, self._ends = letters, ends

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), 2**16):
            yield from self[begin : begin + 2**16]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            indices: Any = range(*index.indices(len(self)))
        else:
            indices = np.asarray(index)
            if indices.size and indices.dtype.kind not in "iub":
                raise IndexError(f"An index into {len(self):,} ids must be an integer, got {index!r}.")
            if indices.ndim == 0:
                return self._string(range(len(self))[int(indices)])
            if indices.dtype == bool:
                indices = np.flatnonzero(indices)
        return StringIds(np.array([self._string(range(len(self))[int(one)]) for one in indices], dtype=object))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Convert to a numpy array of Python strings."""
        return np.array(self.tolist(), dtype=dtype or object)

    def tolist(self) -> list[str]:
        """Return all ids as a list."""
        return list(self)

    def _string(self, index: int) -> str:
        begin = int(self._ends[index - 1]) if index else 0
        return self._letters[begin : int(self._ends[index])].tobytes().decode()


def to_byte_arrays(strings: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """Convert strings to the arrays ``letters`` and ``ends`` of :class:`MappedStringIds`."""
    ends = strings.str.len_bytes().cast(pl.Int64).cum_sum().to_numpy()
    text = strings.str.join("", ignore_nulls=False)
    return np.frombuffer((text[0] or "").encode(), dtype=np.uint8), ends
