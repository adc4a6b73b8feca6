"""Confidence intervals, significance tests and ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from tests.unit.experiments.make import cell, citation_result, run_result
from tgnn.experiments.results import Result
from tgnn.experiments.statistics import (
    average_ranks,
    best_rows,
    corrected_paired_test,
    holm_correction,
    paired_p_value,
    paper_p_value,
    reference_p_values,
    summarize_scores,
)


def test_statistics_agree_with_scipy():
    result = citation_result()
    ours, gcn = result.cell("tgnn", "cora"), result.cell("gcn", "cora")
    found = summarize_scores(ours.tests)
    assert found.low < found.mean < found.high
    assert summarize_scores(ours.tests[:4]).interval is None
    assert paper_p_value(ours) == pytest.approx(scipy.stats.ttest_1samp(ours.tests, 0.8808).pvalue)  # no spread
    assert paired_p_value(gcn, ours) == pytest.approx(scipy.stats.wilcoxon(gcn.tests, ours.tests).pvalue)
    assert reference_p_values(result, "cora") == {"gcn": pytest.approx(paired_p_value(gcn, ours))}
    assert summarize_scores([]) is None
    assert paired_p_value(cell("a", "b", [0.1] * 4), cell("a", "b", [0.2] * 4)) is None


def test_the_standard_deviation_of_the_paper_is_used():
    """Our mean is off by more than our own spread explains, and well within the paper's."""
    ours = cell("a", "d", [0.800, 0.801, 0.802, 0.803], paper=0.81, paper_spread=0.05, paper_runs=10)
    assert paper_p_value(replace(ours, paper_spread=None)) < 0.01
    assert paper_p_value(ours) > 0.5
    theirs = [0.81 + 0.05 * z for z in scipy.stats.zscore(range(10), ddof=1)]
    welch = scipy.stats.ttest_ind(ours.tests, theirs, equal_var=False).pvalue
    assert paper_p_value(ours) == pytest.approx(welch)
    assert paper_p_value(replace(ours, runs=ours.runs[:2])) is None
    assert paper_p_value(replace(ours, paper=None)) is None


def test_equal_differences_are_ties_despite_rounding_errors():
    """Multiples of a 406th, as on Cora, kept as 32-bit floats."""
    base = [350, 351, 352, 353, 354, 355, 356]
    steps = [1, 1, 1, -1, 1, 1, 2]
    one, other = ([float(np.float32(n / 406)) for n in counts] for counts in (np.add(base, steps), base))
    assert paired_p_value(cell("a", "d", one), cell("b", "d", other)) == scipy.stats.wilcoxon(steps).pvalue


def test_pairs_without_a_score_or_a_difference():
    one = cell("a", "d", [0.1, 0.2, 0.3, 0.4, 0.5, float("nan")])
    assert paired_p_value(one, one) == 1.0
    assert paired_p_value(one, replace(one, runs=one.runs[1:])) is None  # four are left


def test_five_splits_can_differ_significantly():
    one, other = cell("a", "d", [0.80, 0.81, 0.82, 0.83, 0.84]), cell("b", "d", [0.75, 0.77, 0.77, 0.77, 0.79])
    assert paired_p_value(one, other) == pytest.approx(corrected_paired_test([0.05, 0.04, 0.05, 0.06, 0.05], 1 / 3))
    assert paired_p_value(one, other) < 0.01
    same_split = [replace(c, runs=tuple(replace(r, split_hash="s") for r in c.runs)) for c in (one, other)]
    assert paired_p_value(*same_split) == pytest.approx(scipy.stats.ttest_rel(one.tests, other.tests).pvalue)


def test_reference_row():
    tests = [0.8, 0.81, 0.82, 0.83, 0.84]

    def tested(*rows: str) -> list[str]:
        return list(reference_p_values(Result("t", [cell(row, "d", tests) for row in rows]), "d"))

    assert tested("gcn", "tgnn") == ["gcn"]
    assert tested("gcn without prior correction", "gcn", "tgnn without prior correction", "tgnn") == [
        "gcn without prior correction",
        "gcn",
        "tgnn without prior correction",
    ]
    assert tested("tgnn 8", "mean 32") == ["mean 32"]
    assert tested("cp", "sum", "cp+sum") == ["cp", "sum"]
    assert tested("tgnn 8", "tgnn 16", "gcn 8") == []
    assert tested("gcn", "") == []


def test_best_rows():
    cells = [cell("a", "d", [0.5]), cell("b", "d", [0.7]), cell("c", "d", [0.7]), cell("d", "d", [])]
    assert best_rows(Result("t", cells), "d") == {"b", "c"}
    assert best_rows(Result("t", [replace(one, metric="mae") for one in cells]), "d") == {"a"}
    assert best_rows(Result("t", cells[:1]), "d") == set()


def test_runs_are_paired_by_split():
    one = cell("a", "d", [0.1, 0.2, 0.3, 0.4, 0.5])
    runs = tuple(run_result(seed, one.tests[seed] + 0.01, "other") for seed in range(5))
    assert paired_p_value(one, replace(one, runs=runs)) is None


def test_holm_correction():
    assert holm_correction({}) == {}
    assert holm_correction({"a": 0.5, "b": 0.9}) == {"a": 1.0, "b": 1.0}


def test_average_ranks():
    cells = [cell(row, column, [value]) for column in "xyz" for row, value in (("a", 0.9), ("b", 0.5), ("c", 0.7))]
    found = average_ranks(Result("t", cells))
    assert found.ranks == {"a": 1, "c": 2, "b": 3}
    # Demšar 2006, table 5
    assert found.critical_difference == pytest.approx(2.343 * (3 * 4 / (6 * 3)) ** 0.5, abs=2e-3)
    errors = [replace(one, metric="mae") for one in cells]
    assert list(average_ranks(Result("t", errors)).ranks) == ["b", "c", "a"]
    assert average_ranks(Result("t", cells[:1])) is None
