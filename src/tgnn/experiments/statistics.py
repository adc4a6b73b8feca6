"""Statistics over repeated runs: means, bootstrap confidence intervals, significance tests and average ranks.

The confidence interval of a cell is a percentile bootstrap interval (:func:`bootstrap_interval`). It is used in result
files, tables and the report page. ``tgnn train --runs`` prints a Student's t interval instead, which
:func:`tgnn.training.repeated_runs.summarize` computes. It is also defined for two to four runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from tgnn.experiments.results import CellResult, Result
from tgnn.training.metrics import HIGHER_IS_BETTER

SIGNIFICANCE_LEVEL = 0.05
"""A difference with a smaller p-value is statistically significant."""

PAIRED_TEST = "Wilcoxon's signed-rank test (five runs: the corrected resampled t-test of Nadeau and Bengio, 2003)"
"""Name of the paired test between two rows, :func:`paired_p_value`."""

_TEST_RATIO = 1 / 3
"""Number of test examples per training example in random splits of 60/20/20."""

MIN_RUNS_FOR_INTERVAL = 5
"""Minimum number of runs for a confidence interval. A bootstrap over fewer runs is far too narrow."""


@dataclass(frozen=True)
class ScoreSummary:
    """Mean, standard deviation and confidence interval of the test metric over runs.

    Args:
        mean: Mean of the test metric.
        std: Standard deviation of the test metric, 0 for a single run.
        low: Lower end of the 95% bootstrap confidence interval of the mean. ``None`` for fewer than five runs.
        high: Upper end of the interval.
        runs: Number of runs.
    """

    mean: float
    std: float
    low: float | None
    high: float | None
    runs: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends of the confidence interval, or ``None`` for fewer than five runs."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def summarize_scores(values: Sequence[float]) -> ScoreSummary | None:
    """Compute mean, standard deviation and confidence interval, or return ``None`` if there are no scores.

    NaN scores are ignored.

    Example:
        >>> summarize_scores([0.8, 0.8, 0.8])
        ScoreSummary(mean=0.8, std=0.0, low=None, high=None, runs=3)
    """
    scores = np.asarray([value for value in values if value == value], dtype=float)
    if not len(scores):
        return None
    mean = float(np.round(scores.mean(), 12))
    std = float(scores.std(ddof=1)) if np.ptp(scores) else 0.0
    if len(scores) < MIN_RUNS_FOR_INTERVAL:
        return ScoreSummary(mean, std, None, None, len(scores))
    low, high = bootstrap_interval(scores) if std else (mean, mean)
    return ScoreSummary(mean, std, low, high, len(scores))


def bootstrap_interval(scores: np.ndarray) -> tuple[float, float]:
    """Compute the 95% confidence interval of the mean by the percentile bootstrap.

    The scores are resampled with replacement 9,999 times with a fixed random seed. The ends are the 2.5% and 97.5%
    percentiles of the means.
    """
    bootstrap = scipy.stats.bootstrap(
        (scores,), np.mean, n_resamples=9999, method="percentile", rng=np.random.default_rng(0)
    )
    interval = bootstrap.confidence_interval
    return float(interval.low), float(interval.high)


def paper_p_value(cell: CellResult) -> float | None:
    """Compute the p-value of Welch's t-test between our mean and the mean of the paper.

    The test uses the standard deviation of the paper. If the paper reports none, its value is taken as exact
    (one-sample t-test). Returns ``None`` for fewer than three runs or without a value of the paper.
    """
    tests = _finite_tests(cell)
    if cell.paper is None or len(tests) < 3 or not (np.ptp(tests) or cell.paper_spread):
        return None
    if not cell.paper_spread:
        return float(scipy.stats.ttest_1samp(tests, cell.paper).pvalue)
    theirs = (cell.paper, cell.paper_spread, cell.paper_runs or len(tests))
    ours = (np.mean(tests), np.std(tests, ddof=1), len(tests))
    return float(scipy.stats.ttest_ind_from_stats(*ours, *theirs, equal_var=False).pvalue)


def _finite_tests(cell: CellResult) -> list[float]:
    return [value for value in cell.tests if value == value]


def paired_p_value(one: CellResult, other: CellResult) -> float | None:
    """Compute the p-value of a paired test over the splits that two cells share, or ``None`` for fewer than five.

    Six or more splits: Wilcoxon's signed-rank test, whose smallest possible p-value is 0.031 with six splits and 0.002
    with ten. It is 0.0625 with five splits, which can never be significant, so those are compared by the
    :func:`corrected_paired_test`, with a test set of a third of the training set. Differences are rounded to six
    digits, because accuracies on small test sets often tie and floating-point noise would break the ties.
    """
    mine, yours = ({(r.seed, r.split_hash): r.test for r in cell.runs if r.test == r.test} for cell in (one, other))
    shared = sorted(set(mine) & set(yours))
    differences = np.array([mine[key] - yours[key] for key in shared]).round(6)
    if len(differences) < 5:
        return None
    if len(differences) == 5:
        return corrected_paired_test(
            differences.tolist(), _TEST_RATIO if len({split for _, split in shared}) > 1 else 0
        )
    return float(scipy.stats.wilcoxon(differences).pvalue) if differences.any() else 1.0


def corrected_paired_test(differences: Sequence[float], test_ratio: float) -> float | None:
    r"""Compute the p-value of the corrected resampled t-test (Nadeau and Bengio, 2003).

    Random splits of one data set overlap, so that the scores of :math:`n` splits are not independent. The test replaces
    the variance :math:`s^2 / n` of the mean difference by :math:`(1/n + n_{test} / n_{train}) s^2`.

    Args:
        differences: Differences of the scores of two models, one per split. Fewer than two: ``None`` is returned.
        test_ratio: Number of test examples per training example. 0 gives the paired t-test.

    Example:
        >>> round(corrected_paired_test([0.03, 0.05, 0.04, 0.06, 0.02], 1 / 3), 4)
        0.0257
    """
    values = np.asarray(differences, dtype=float)
    if len(values) < 2:
        return None
    variance = (1 / len(values) + test_ratio) * values.var(ddof=1)
    if variance < 1e-18:
        return 1.0 if abs(values.mean()) < 1e-9 else 0.0
    return float(2 * scipy.stats.t.sf(abs(values.mean()) / math.sqrt(variance), len(values) - 1))


def holm_correction(pvalues: Mapping[str, float]) -> dict[str, float]:
    """Apply Holm's correction for multiple comparisons.

    Example:
        >>> holm_correction({"a": 0.01, "b": 0.04, "c": 0.03})
        {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    order = sorted(pvalues, key=lambda name: pvalues[name])
    corrected, least = {}, 0.0
    for position, name in enumerate(order):
        least = max(least, min(1.0, pvalues[name] * (len(order) - position)))
        corrected[name] = round(least, 12)
    return {name: corrected[name] for name in pvalues}


def reference_row(result: Result) -> str | None:
    """Return the row that the others are compared with: tgnn, its only variant, or ``cp+sum`` in an ablation."""
    if "tgnn" in result.rows:
        return "tgnn"
    variants = [row for row in result.rows if row.split()[:1] == ["tgnn"]]
    return variants[0] if len(variants) == 1 else "cp+sum" if "cp+sum" in result.rows else None


def reference_p_values(result: Result, column: str) -> dict[str, float]:
    """Compute Holm-corrected p-values of the paired tests of every row against the :func:`reference_row`."""
    base_row = reference_row(result)
    base = None if base_row is None else result.cell(base_row, column)
    pvalues: dict[str, float] = {}
    for row in result.rows if base is not None else []:
        cell = result.cell(row, column)
        if row != base_row and cell is not None and base is not None and (p := paired_p_value(cell, base)) is not None:
            pvalues[row] = p
    return holm_correction(pvalues)


def best_rows(result: Result, column: str) -> set[str]:
    """Return the rows with the best mean of a column, or no row if fewer than two have scores."""
    cells = [cell for cell in result.cells if cell.column == column]
    means = {cell.row: (cell.metric, np.mean(tests)) for cell in cells if (tests := _finite_tests(cell))}
    better = {row: mean if HIGHER_IS_BETTER.get(metric, True) else -mean for row, (metric, mean) in means.items()}
    return {row for row, mean in better.items() if mean == max(better.values())} if len(means) > 1 else set()


@dataclass(frozen=True)
class TrainingCosts:
    """Training costs of a cell over its runs.

    Args:
        parameters: Number of parameters of the model, the maximum if it depends on the split.
        seconds: Mean training time in seconds.
        epochs: Mean number of epochs.
        rate: Epochs per second over all runs. ``None`` if no time was measured.
    """

    parameters: int
    seconds: float
    epochs: float
    rate: float | None


def training_costs(cell: CellResult) -> TrainingCosts | None:
    """Compute the training costs of a cell, or return ``None`` if it has no runs."""
    runs = cell.runs
    if not runs:
        return None
    timed = [run for run in runs if run.seconds > 0 and run.epochs > 0]
    rate = sum(run.epochs for run in timed) / sum(run.seconds for run in timed) if timed else None
    seconds, epochs = (float(np.mean([getattr(run, name) for run in runs])) for name in ("seconds", "epochs"))
    return TrainingCosts(max(run.parameters for run in runs), seconds, epochs, rate)


@dataclass(frozen=True)
class AverageRanks:
    """Average ranks of the rows over all columns. Rank 1 is best.

    Args:
        ranks: Average rank by row, best first.
        critical_difference: Two ranks differ significantly if they are at least this far apart (Nemenyi, 5% level).
        columns: Columns that the ranks are averaged over.
    """

    ranks: Mapping[str, float]
    critical_difference: float
    columns: Sequence[str]


def average_ranks(result: Result) -> AverageRanks | None:
    """Rank the rows that have a mean in every column (Demšar, 2006).

    Returns ``None`` for fewer than two such rows or fewer than two columns.
    """
    blocks: dict[str, dict[str, float]] = {}
    for cell in result.cells:
        scores = summarize_scores(cell.tests)
        if scores is not None:
            sign = -1.0 if HIGHER_IS_BETTER.get(cell.metric, True) else 1.0
            blocks.setdefault(cell.column, {})[cell.row] = sign * scores.mean
    rows = [row for row in result.rows if all(row in block for block in blocks.values())] if blocks else []
    if len(rows) < 2 or len(blocks) < 2:
        return None
    table = np.array([scipy.stats.rankdata([block[row] for row in rows]) for block in blocks.values()])
    mean = dict(sorted(zip(rows, table.mean(0).tolist()), key=lambda pair: pair[1]))
    k, n = len(rows), len(blocks)
    q = float(scipy.stats.studentized_range.ppf(0.95, k, np.inf)) / np.sqrt(2)
    return AverageRanks(mean, float(q * np.sqrt(k * (k + 1) / (6 * n))), list(blocks))
