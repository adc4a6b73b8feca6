"""Ids that are words, kept beside the tensors of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor


class WordIds:
    """One word for each node. It is no list and no array on purpose: PyG's loaders fail on those if they hold words.

    They leave this as it is, as ``subgraph()`` does: the words of a part of the graph are ``ids[batch.n_id]``.

    Args:
        words: One for each.

    Example:
        >>> ids = WordIds(np.array(["ann", "bob", "carol"], dtype=object))
        >>> len(ids), ids[1], ids[torch.tensor([2, 0])].tolist()
        (3, 'bob', ['carol', 'ann'])
    """

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def __len__(self) -> int:
        return len(self._words)

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __getitem__(self, place: int | slice | np.ndarray | Tensor) -> Any:
        found = self._words[place.cpu().numpy() if isinstance(place, Tensor) else place]
        return WordIds(found) if isinstance(found, np.ndarray) else found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """For numpy."""
        return np.array(self._words, dtype=dtype)

    def tolist(self) -> list[str]:
        """As numpy and torch call it."""
        return list(self._words)

    def __repr__(self) -> str:
        return f"WordIds({len(self):,})"


def keep_ids(ids: pl.Series) -> Tensor | WordIds:
    """Numbers as a tensor, which PyG cuts as it cuts all tensors; words as they are.

    Example:
        >>> keep_ids(pl.Series([3, 1])), keep_ids(pl.Series(["b", "a"]))
        (tensor([3, 1]), WordIds(2))
    """
    values = ids.to_numpy(writable=True)
    return torch.from_numpy(values) if ids.dtype == pl.Int64 else WordIds(values)
