"""Columns of numbers brought to mean 0 and deviation 1, so that an income can be learned from as well as a share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tgnn.data.check_parts import LARGE
from tgnn.data.formats.table.schema import Standardize
from tgnn.data.report import named


@dataclass
class Moments:
    """Mean, deviation and size of the numbers of a column, block by block (Chan et al. 1983); a list is one column.

    Example:
        >>> moments = Moments()
        >>> for block in ([20000.0, 30000.0], [40000.0, float("nan")]):
        ...     moments.see(np.array(block))
        >>> moments.count, moments.mean, round(moments.deviation, 1)
        (3, 30000.0, 8165.0)
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Of what is between the numbers and their mean, added up."""
    size: float = 0.0
    """Of the largest."""

    def see(self, values: np.ndarray) -> None:
        """Takes more numbers; what is missing or infinite is passed over.

        Args:
            values: Of any shape.
        """
        known = values[np.isfinite(values)].astype(np.float64)
        if not known.size:
            return
        mean, total = float(known.mean()), self.count + known.size
        apart = mean - self.mean
        self.squares += float(((known - mean) ** 2).sum()) + apart**2 * self.count * known.size / total
        self.mean += apart * known.size / total
        self.count, self.size = total, max(self.size, float(np.abs(known).max()))

    @property
    def deviation(self) -> float:
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    def standard(self, how: Standardize) -> dict[str, float]:
        """What an encoding keeps: ``mean`` and ``deviation``; nothing where the column stays as it is.

        Args:
            how: ``"large"``: only where a number is beyond what products and steps of usual size can take.
        """
        if not how or not self.count or (how == "large" and self.size <= LARGE):
            return {}
        return {"mean": self.mean, "deviation": self.deviation or 1.0}


def standardized(block: np.ndarray, encoding: dict[str, Any]) -> np.ndarray:
    """The numbers as the encoding has them.

    Args:
        block: Float32 ``[N, width]``.
        encoding: Of its column.

    Example:
        >>> standardized(np.float32([[10.0], [30.0]]), {"mean": 20.0, "deviation": 10.0}).tolist()
        [[-1.0], [1.0]]
    """
    if "deviation" not in encoding:
        return block
    mean, deviation = float(encoding["mean"]), float(encoding["deviation"])
    return ((block.astype(np.float64) - mean) / deviation).astype(np.float32)


def told_standard(encodings: Iterable[dict[str, Any]]) -> str | None:
    """Which columns were changed and how to keep them, for a report; ``None``: none were."""
    changed = [encoding["column"] for encoding in encodings if "deviation" in encoding]
    if not changed:
        return None
    return f"{named(changed)}: brought to mean 0 and deviation 1 (schema.yaml: standardize: false for as stored)"
