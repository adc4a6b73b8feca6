"""Ids that are strings, as an attribute of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor


class StringIds:
    """The string id of each node or graph.

    This is neither a list nor an array, because PyG's loaders fail on lists and arrays of strings. Loaders and
    ``subgraph()`` leave it unchanged: the ids of a batch are ``ids[batch.n_id]``.

    Args:
        ids: Array of strings.

    Example:
        >>> ids = StringIds(np.array(["ann", "bob", "carol"], dtype=object))
        >>> len(ids), ids[1], ids[torch.tensor([2, 0])].tolist()
        (3, 'bob', ['carol', 'ann'])
    """

    def __init__(self, ids: np.ndarray) -> None:
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __getitem__(self, index: int | slice | np.ndarray | Tensor) -> Any:
        selected = self._ids[index.cpu().numpy() if isinstance(index, Tensor) else index]
        return StringIds(selected) if isinstance(selected, np.ndarray) else selected

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the ids as a numpy array."""
        return np.array(self._ids, dtype=dtype)

    def tolist(self) -> list[str]:
        """Return the ids as a list."""
        return list(self._ids)

    def __repr__(self) -> str:
        return f"StringIds({len(self):,})"


def keep_ids(ids: pl.Series) -> Tensor | StringIds:
    """Convert integer ids to a tensor, which PyG's loaders slice, and string ids to :class:`StringIds`.

    Example:
        >>> keep_ids(pl.Series([3, 1])), keep_ids(pl.Series(["b", "a"]))
        (tensor([3, 1]), StringIds(2))
    """
    values = ids.to_numpy(writable=True)
    return torch.from_numpy(values) if ids.dtype == pl.Int64 else StringIds(values)
