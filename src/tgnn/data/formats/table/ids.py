"""Ids of any kind, to the numbers 0 to N - 1."""

from __future__ import annotations

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
    if among.dtype == pl.Int64 and len(among) and not values.null_count():
        ids, first = among.to_numpy(), int(among.min())  # type: ignore[arg-type]
        room = int(ids.max()) - first + 1
        if room <= _ROOMY * len(ids) + 1024:
            place = np.full(room + 1, -1, dtype=np.int64)  # one more, for all that are outside
            place[ids - first] = np.arange(len(ids))
            asked = values.to_numpy() - first
            return place[np.where((asked >= 0) & (asked < room), asked, room)]
    return _hashed(values, among) if len(values) > _MANY and len(among) else _joined(values, among)


def _joined(values: pl.Series, among: pl.Series) -> np.ndarray:
    left = pl.DataFrame({"value": values})
    right = pl.DataFrame({"value": among, "place": np.arange(len(among))})
    joined = left.join(right, on="value", how="left", maintain_order="left")
    return joined["place"].fill_null(-1).to_numpy(writable=True)


def _hashed(values: pl.Series, among: pl.Series) -> np.ndarray:
    """A table of hashes finds most of them in a third of the time of a join, which finds the others."""
    mask = np.uint64((1 << (len(among).bit_length() + 3)) - 1)
    table = np.zeros(int(mask) + 1, dtype=np.int64)
    table[among.hash().to_numpy() & mask] = np.arange(len(among))  # of those with the same hash, the last
    place: np.ndarray = table[values.hash().to_numpy() & mask]
    right = (among.gather(pl.Series(place)) == values).fill_null(False)
    others = ~right.to_numpy()
    place[others] = _joined(values.filter(~right), among)
    return place
