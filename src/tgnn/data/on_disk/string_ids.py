"""String ids of nodes, stored as a column of a Parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tgnn.data.on_disk.layout import REWRITE
from tgnn.data.tensors import StringIds

_COLUMN = "id"
_ROWS_AT_ONCE = 2**16


def write_string_ids(ids: pl.Series, path: Path) -> None:
    """Write strings to a Parquet file whose row groups can be read one by one.

    Args:
        ids: One string per node.
        path: Path of the file.
    """
    pl.DataFrame({_COLUMN: ids}).write_parquet(path, row_group_size=_ROWS_AT_ONCE)


class ParquetStringIds(StringIds):
    """One string per node, read from a Parquet file when it is accessed.

    A slice reads only its row groups, so that all ids can be read in pieces with little memory. Other indices read the
    whole column, which takes 0.7 s for ten million ids.

    Args:
        path: Path of the file.

    Example:
        >>> path = getfixture("tmp_path") / "node_id.parquet"
        >>> write_string_ids(pl.Series(["ann", "", "Zoë"]), path)
        >>> ids = ParquetStringIds(path)
        >>> len(ids), ids[2], ids[np.array([2, 0])].tolist(), list(ids)
        (3, 'Zoë', ['Zoë', 'ann'], ['ann', '', 'Zoë'])
    """

    def __init__(self, path: Path) -> None:
        self._path, self._rows = path, pl.scan_parquet(path, glob=False)
        self._length = int(self._collect(self._rows.select(pl.len())).item())
        schema = dict(self._rows.collect_schema())
        if schema != {_COLUMN: pl.String}:
            raise ValueError(f"{path} has the columns {schema}, but must have strings in {_COLUMN!r}; {REWRITE}")

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), _ROWS_AT_ONCE):
            yield from self[begin : begin + _ROWS_AT_ONCE]

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice) or index.step not in (None, 1):
            return self[:][index]
        begin, end, _ = index.indices(len(self))
        rows = self._collect(self._rows.slice(begin, max(end - begin, 0)))
        return StringIds(rows[_COLUMN].to_numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Convert to a numpy array of Python strings."""
        return np.array(self[:], dtype=dtype)

    def tolist(self) -> list[str]:
        """Return all ids as a list."""
        return list(self)

    def hashes(self) -> np.ndarray:
        """Return a hash of each id, uint64 ``[N]``."""
        return self._collect(self._rows.select(pl.col(_COLUMN).hash()))[_COLUMN].to_numpy()

    def _collect(self, rows: pl.LazyFrame) -> pl.DataFrame:
        try:
            return rows.collect(engine="streaming")
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"{self._path} is not a valid Parquet file ({reason}); {REWRITE}") from error
