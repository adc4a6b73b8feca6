"""Ids of any kind, to the numbers 0 to N - 1."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl

_ROOMY = 8
"""A table over all whole numbers between the ids is worth it while it is at most so many times as long as the ids."""

_MANY = 100_000


def as_ids(values: pl.Series) -> pl.Series:
    """Whole numbers as ``Int64`` if all are written plainly (``7``, not ``007``) and fit into it, else words.

    Example:
        >>> as_ids(pl.Series(["7", "12"])).to_list(), as_ids(pl.Series(["007", "12"])).to_list()
        ([7, 12], ['007', '12'])
    """
    if values.dtype.is_integer() or values.dtype.is_float():
        values = values.fill_nan(None) if values.dtype.is_float() else values
        numbers = values.cast(pl.Int64, strict=False)  # null for those that have no room there
        same = numbers == values
        if numbers.null_count() == values.null_count() and bool(same.all()):
            return numbers
        plain = pl.when(same).then(numbers.cast(pl.String)).otherwise(values.cast(pl.String))  # 2, not 2.0
        return pl.select(plain.alias(values.name)).to_series()
    words = values.cast(pl.String)
    numbers = words.cast(pl.Int64, strict=False)
    if numbers.null_count() > words.null_count():
        return words
    leading = words.str.starts_with("0") & (words.str.len_bytes() > 1)
    return words if bool((leading | words.str.starts_with("+") | words.str.starts_with("-0")).any()) else numbers


def alike(*columns: pl.Series) -> list[pl.Series]:
    """Ids of several columns as one type: numbers if all are, else words."""
    found = [as_ids(values) for values in columns]
    if all(values.dtype == pl.Int64 for values in found):
        return found
    return [values.cast(pl.String) for values in found]


def positions(values: pl.Series, among: pl.Series) -> np.ndarray:
    """Where each value stands in a list without repetitions; -1: nowhere.

    Args:
        values: What to look up.
        among: The list, of the same type.

    Example:
        >>> positions(pl.Series(["b", "c", "b"]), pl.Series(["a", "b"])).tolist()
        [1, -1, 1]
    """
    return Lookup(among).positions(values)


class Lookup:
    """Where values stand in a list, for who asks again and again: its tables are made once.

    Args:
        among: The list, without repetitions.

    Example:
        >>> Lookup(pl.Series([7, 5])).positions(pl.Series([5, 6])).tolist()
        [1, -1]
    """

    def __init__(self, among: pl.Series) -> None:
        self._among = among
        self._first = self._room = 0
        if among.dtype == pl.Int64 and len(among):
            self._first = int(among.min())  # type: ignore[arg-type]
            self._room = int(among.max()) - self._first + 1  # type: ignore[arg-type]
        self._plain = 0 < self._room <= _ROOMY * len(among) + 1024

    def positions(self, values: pl.Series) -> np.ndarray:
        """Of each value, which is of the type of the list; -1: nowhere."""
        if self._plain and not values.null_count():
            asked = values.to_numpy() - self._first
            found: np.ndarray = self._table[np.where((asked >= 0) & (asked < self._room), asked, self._room)]
            return found
        many = len(values) > _MANY and len(self._among)
        return self._hashed(values) if many else _joined(values, self._among)

    @cached_property
    def _table(self) -> np.ndarray:
        """The place of every whole number between the ids; one more, for all that are outside."""
        place = np.full(self._room + 1, -1, dtype=np.int64)
        place[self._among.to_numpy() - self._first] = np.arange(len(self._among))
        return place

    @cached_property
    def _hashes(self) -> np.ndarray:
        table = np.zeros(1 << (len(self._among).bit_length() + 3), dtype=np.int64)
        table[self._among.hash().to_numpy() & np.uint64(len(table) - 1)] = np.arange(len(self._among))
        return table  # of those with the same hash, the last

    def _hashed(self, values: pl.Series) -> np.ndarray:
        """A table of hashes finds most of them in a third of the time of a join, which finds the others."""
        place: np.ndarray = self._hashes[values.hash().to_numpy() & np.uint64(len(self._hashes) - 1)]
        right = (self._among.gather(pl.Series(place)) == values).fill_null(False)
        others = ~right.to_numpy()
        place[others] = _joined(values.filter(~right), self._among)
        return place


def _joined(values: pl.Series, among: pl.Series) -> np.ndarray:
    left = pl.DataFrame({"value": values})
    right = pl.DataFrame({"value": among, "place": np.arange(len(among))})
    joined = left.join(right, on="value", how="left", maintain_order="left")
    return joined["place"].fill_null(-1).to_numpy(writable=True)
