"""Ids that are words, in two mapped arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from tgnn.data.readers.word_ids import WordIds


class MappedStringIds(WordIds):
    """One word for each node; those that are asked for are read from a file.

    Args:
        letters: All words one after the other, as bytes of UTF-8, uint8 ``[B]``.
        ends: Where each ends, int64 ``[N]``.

    Example:
        >>> words = MappedStringIds(*to_arrays(pl.Series(["ann", "", "Zoë"])))
        >>> len(words), words[2], words[np.array([2, 0])].tolist(), list(words)
        (3, 'Zoë', ['Zoë', 'ann'], ['ann', '', 'Zoë'])
    """

    def __init__(self, letters: np.ndarray, ends: np.ndarray) -> None:
        self._letters, self._ends = letters, ends

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), 2**16):
            yield from self[begin : begin + 2**16]

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            places: Any = range(*place.indices(len(self)))
        else:
            places = np.asarray(place)
            if places.size and places.dtype.kind not in "iub":
                raise IndexError(f"a place among {len(self):,} words must be a whole number, got {place!r}")
            if places.ndim == 0:
                return self._word(range(len(self))[int(places)])
            if places.dtype == bool:
                places = np.flatnonzero(places)
        return WordIds(np.array([self._word(range(len(self))[int(one)]) for one in places], dtype=object))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """For numpy."""
        return np.array(self.tolist(), dtype=dtype or object)

    def tolist(self) -> list[str]:
        """All of them."""
        return list(self)

    def _word(self, place: int) -> str:
        begin = int(self._ends[place - 1]) if place else 0
        return self._letters[begin : int(self._ends[place])].tobytes().decode()


def to_arrays(words: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """Words as ``letters`` and ``ends``."""
    ends = words.str.len_bytes().cast(pl.Int64).cum_sum().to_numpy()
    text = words.str.join("", ignore_nulls=False)
    return np.frombuffer((text[0] or "").encode(), dtype=np.uint8), ends
