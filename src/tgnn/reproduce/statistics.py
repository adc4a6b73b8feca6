"""Means, intervals and tests over runs, from SciPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from tgnn.reproduce.result import CellResult, Result
from tgnn.training.task import HIGHER_IS_BETTER


@dataclass(frozen=True)
class Summary:
    """Of some runs.

    Args:
        mean: Of the test metric.
        std: Its standard deviation.
        low: Lower end of the 95 % bootstrap interval of the mean.
        high: Upper end.
        runs: How many.
    """

    mean: float
    std: float
    low: float
    high: float
    runs: int


def summary(values: Sequence[float]) -> Summary | None:
    """Mean, spread and interval; ``None`` where there are no runs.

    Example:
        >>> summary([0.8, 0.8, 0.8])
        Summary(mean=0.8, std=0.0, low=0.8, high=0.8, runs=3)
    """
    array = np.asarray([value for value in values if value == value], dtype=float)
    if not len(array):
        return None
    mean = float(np.round(array.mean(), 12))
    if len(array) == 1 or np.ptp(array) == 0:
        return Summary(mean, 0.0, mean, mean, len(array))
    found = scipy.stats.bootstrap(
        (array,), np.mean, n_resamples=9999, method="percentile", rng=np.random.default_rng(0)
    )
    interval = found.confidence_interval
    return Summary(mean, float(array.std(ddof=1)), float(interval.low), float(interval.high), len(array))


def differs_from_paper(cell: CellResult) -> float | None:
    """p-value of a two-sided t test that our mean is the paper's figure; ``None`` where that cannot be asked."""
    tests = [value for value in cell.tests if value == value]
    if cell.paper is None or len(tests) < 3 or np.ptp(tests) == 0:
        return None
    return float(scipy.stats.ttest_1samp(tests, cell.paper).pvalue)


def paired(one: CellResult, other: CellResult) -> float | None:
    """p-value of Wilcoxon's signed-rank test over the splits that both have; ``None`` for fewer than five."""
    mine, yours = ({(r.seed, r.split_hash): r.test for r in cell.runs} for cell in (one, other))
    common = sorted(set(mine) & set(yours))
    differences = np.array([mine[key] - yours[key] for key in common])
    if len(common) < 5 or not differences.any():
        return None
    return float(scipy.stats.wilcoxon(differences).pvalue)


def holm(pvalues: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction for having asked several questions.

    Example:
        >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
        {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    order = sorted(pvalues, key=lambda name: pvalues[name])
    corrected, least = {}, 0.0
    for place, name in enumerate(order):
        least = max(least, min(1.0, pvalues[name] * (len(order) - place)))
        corrected[name] = round(least, 12)
    return {name: corrected[name] for name in pvalues}


def against(result: Result, column: str, reference: str = "tgnn") -> dict[str, float]:
    """Corrected p-values of the paired tests of a column's rows against one of them."""
    base = result.cell(reference, column)
    found: dict[str, float] = {}
    for row in result.rows if base is not None else []:
        cell = result.cell(row, column)
        if row != reference and cell is not None and base is not None and (p := paired(cell, base)) is not None:
            found[row] = p
    return holm(found)


@dataclass(frozen=True)
class Ranking:
    """Average ranks over columns, 1 is best.

    Args:
        ranks: By row, best first.
        critical: Ranks that differ by less are not told apart (Nemenyi, 5 %); ``None`` for too few rows or columns.
        columns: Over which columns.
    """

    ranks: Mapping[str, float]
    critical: float | None
    columns: Sequence[str]


def ranking(result: Result) -> Ranking | None:
    """Ranks of the rows that have a mean in every column (Demšar 2006); ``None`` for fewer than two such rows."""
    blocks: dict[str, dict[str, float]] = {}
    for cell in result.cells:
        found = summary(cell.tests)
        if found is not None:
            sign = -1.0 if HIGHER_IS_BETTER.get(cell.metric, True) else 1.0
            blocks.setdefault(cell.column, {})[cell.row] = sign * found.mean
    rows = [row for row in result.rows if all(row in block for block in blocks.values())] if blocks else []
    if len(rows) < 2:
        return None
    table = np.array([scipy.stats.rankdata([block[row] for row in rows]) for block in blocks.values()])
    mean = dict(sorted(zip(rows, table.mean(0).tolist()), key=lambda pair: pair[1]))
    k, n = len(rows), len(blocks)
    critical = None
    if n > 1:
        q = float(scipy.stats.studentized_range.ppf(0.95, k, np.inf)) / np.sqrt(2)
        critical = float(q * np.sqrt(k * (k + 1) / (6 * n)))
    return Ranking(mean, critical, list(blocks))
