"""Means, intervals and tests over runs, from SciPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from tgnn.experiments.results import CellResult, Result
from tgnn.training.metrics import HIGHER_IS_BETTER

SIGNIFICANT = 0.05
"""What is rarer than this is more than chance."""

FEWEST = 5
"""Runs below which there is no interval: a bootstrap of so few is far too narrow."""


@dataclass(frozen=True)
class Summary:
    """Of some runs.

    Args:
        mean: Of the test metric.
        std: Its standard deviation.
        low: Lower end of the 95 % bootstrap interval of the mean; ``None`` for fewer than five runs.
        high: Upper end.
        runs: How many.
    """

    mean: float
    std: float
    low: float | None
    high: float | None
    runs: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends, where there are any."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def summary(values: Sequence[float]) -> Summary | None:
    """Mean, spread and interval; ``None`` where there are no runs.

    Example:
        >>> summary([0.8, 0.8, 0.8])
        Summary(mean=0.8, std=0.0, low=None, high=None, runs=3)
    """
    array = np.asarray([value for value in values if value == value], dtype=float)
    if not len(array):
        return None
    mean = float(np.round(array.mean(), 12))
    std = float(array.std(ddof=1)) if np.ptp(array) else 0.0
    if len(array) < FEWEST:
        return Summary(mean, std, None, None, len(array))
    if not std:
        return Summary(mean, std, mean, mean, len(array))
    found = scipy.stats.bootstrap(
        (array,), np.mean, n_resamples=9999, method="percentile", rng=np.random.default_rng(0)
    )
    interval = found.confidence_interval
    return Summary(mean, std, float(interval.low), float(interval.high), len(array))


def differs_from_paper(cell: CellResult) -> float | None:
    """p-value of Welch's t test that our mean and the paper's are the same; ``None`` where that cannot be asked.

    The paper's figure is a mean of runs as well, and its spread counts; where it has none, it is taken as exact.
    """
    tests = _known(cell)
    if cell.paper is None or len(tests) < 3 or not (np.ptp(tests) or cell.paper_spread):
        return None
    if not cell.paper_spread:
        return float(scipy.stats.ttest_1samp(tests, cell.paper).pvalue)
    theirs = (cell.paper, cell.paper_spread, cell.paper_runs or len(tests))
    ours = (np.mean(tests), np.std(tests, ddof=1), len(tests))
    return float(scipy.stats.ttest_ind_from_stats(*ours, *theirs, equal_var=False).pvalue)


def _known(cell: CellResult) -> list[float]:
    return [value for value in cell.tests if value == value]


def paired(one: CellResult, other: CellResult) -> float | None:
    """p-value of Wilcoxon's signed-rank test over the splits that both have; ``None`` for fewer than five.

    Five can give no less than 0.0625, six 0.031, ten 0.002. Scores are shares of few test nodes, so that equal
    differences are frequent: they are rounded, lest the last digits of floats put them in an order.
    """
    mine, yours = ({(r.seed, r.split_hash): r.test for r in cell.runs if r.test == r.test} for cell in (one, other))
    differences = np.array([mine[key] - yours[key] for key in sorted(set(mine) & set(yours))]).round(6)
    if len(differences) < 5:
        return None
    return float(scipy.stats.wilcoxon(differences).pvalue) if differences.any() else 1.0


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


def reference(result: Result) -> str | None:
    """The row that others are tested against: tgnn, the only one of tgnn, or the whole of an ablation."""
    if "tgnn" in result.rows:
        return "tgnn"
    ours = [row for row in result.rows if row.split()[:1] == ["tgnn"]]
    return ours[0] if len(ours) == 1 else "cp+sum" if "cp+sum" in result.rows else None


def against(result: Result, column: str) -> dict[str, float]:
    """Corrected p-values of the paired tests of a column's rows against the :func:`reference`."""
    base_row = reference(result)
    base = None if base_row is None else result.cell(base_row, column)
    found: dict[str, float] = {}
    for row in result.rows if base is not None else []:
        cell = result.cell(row, column)
        if row != base_row and cell is not None and base is not None and (p := paired(cell, base)) is not None:
            found[row] = p
    return holm(found)


def best_rows(result: Result, column: str) -> set[str]:
    """Rows with the best mean of a column, where there are several to choose from."""
    known = [cell for cell in result.cells if cell.column == column]
    means = {cell.row: (cell.metric, np.mean(tests)) for cell in known if (tests := _known(cell))}
    better = {row: mean if HIGHER_IS_BETTER.get(metric, True) else -mean for row, (metric, mean) in means.items()}
    return {row for row, mean in better.items() if mean == max(better.values())} if len(means) > 1 else set()


@dataclass(frozen=True)
class Costs:
    """Of the runs of a cell.

    Args:
        parameters: Of the model; the most, where splits change their number.
        seconds: Of training, their mean.
        epochs: Their mean.
        rate: Epochs per second over all runs; ``None`` where no time was measured.
    """

    parameters: int
    seconds: float
    epochs: float
    rate: float | None


def costs(cell: CellResult) -> Costs | None:
    """What training took; ``None`` where there are no runs."""
    runs = cell.runs
    if not runs:
        return None
    timed = [run for run in runs if run.seconds > 0 and run.epochs > 0]
    rate = sum(run.epochs for run in timed) / sum(run.seconds for run in timed) if timed else None
    seconds, epochs = (float(np.mean([getattr(run, name) for run in runs])) for name in ("seconds", "epochs"))
    return Costs(max(run.parameters for run in runs), seconds, epochs, rate)


@dataclass(frozen=True)
class Ranking:
    """Average ranks over columns, 1 is best.

    Args:
        ranks: By row, best first.
        critical: Ranks that differ by less are not told apart (Nemenyi, 5 %).
        columns: Over which columns.
    """

    ranks: Mapping[str, float]
    critical: float
    columns: Sequence[str]


def ranking(result: Result) -> Ranking | None:
    """Ranks of the rows that have a mean in every column (Demšar 2006); ``None`` for fewer than two rows or columns."""
    blocks: dict[str, dict[str, float]] = {}
    for cell in result.cells:
        found = summary(cell.tests)
        if found is not None:
            sign = -1.0 if HIGHER_IS_BETTER.get(cell.metric, True) else 1.0
            blocks.setdefault(cell.column, {})[cell.row] = sign * found.mean
    rows = [row for row in result.rows if all(row in block for block in blocks.values())] if blocks else []
    if len(rows) < 2 or len(blocks) < 2:
        return None
    table = np.array([scipy.stats.rankdata([block[row] for row in rows]) for block in blocks.values()])
    mean = dict(sorted(zip(rows, table.mean(0).tolist()), key=lambda pair: pair[1]))
    k, n = len(rows), len(blocks)
    q = float(scipy.stats.studentized_range.ppf(0.95, k, np.inf)) / np.sqrt(2)
    critical = float(q * np.sqrt(k * (k + 1) / (6 * n)))
    return Ranking(mean, critical, list(blocks))
