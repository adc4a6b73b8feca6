"""The paired test and the conclusion of a comparison of models."""

from __future__ import annotations

import pytest
import scipy.stats

from tgnn.experiments.compare import conclude
from tgnn.experiments.statistics import corrected_paired_test

SEEDS = range(5)


def scores(**means: float) -> dict[str, dict[int, float]]:
    """Scores of five seeds with the same deviations, and a little more for the first model."""
    noise = (0.01, -0.01, 0.02, -0.02, 0.0)
    return {
        name.replace("_", " "): {seed: mean + noise[seed] * (1 + number / 10) for seed in SEEDS}
        for number, (name, mean) in enumerate(means.items())
    }


def test_without_correction_it_is_the_paired_t_test():
    differences = [0.03, 0.05, -0.01, 0.06, 0.02]
    expected = scipy.stats.ttest_rel(differences, [0.0] * 5).pvalue
    assert corrected_paired_test(differences, 0.0) == pytest.approx(expected)
    assert corrected_paired_test(differences, 1 / 3) > expected
    assert corrected_paired_test([0.1, 0.1], 0.0) == 0.0
    assert corrected_paired_test([0.0, 0.0], 0.0) == 1.0
    assert corrected_paired_test([0.1], 0.0) is None


def test_conclusion():
    tests = scores(mlp=0.80, gcn=0.85, tgnn_without_products=0.846, tgnn=0.847)
    vals = {name: sum(values.values()) / 5 for name, values in tests.items()}
    text = conclude("accuracy", tests, vals, "gcn", 1 / 3)
    assert text.startswith(
        "the graph helps (+5.0 points, p < .001 with gcn); products make no significant difference (+0.1"
    )
    assert text.endswith(": use gcn, which has the best validation accuracy")
    tied = conclude("accuracy", tests, {**vals, "tgnn": vals["gcn"]}, "gcn", 1 / 3)
    assert tied.endswith("the best validation accuracy (tied with tgnn)")
    tests["gradient boosting without the graph"] = {seed: value + 0.1 for seed, value in tests["gcn"].items()}
    text = conclude("accuracy", tests, vals, "gcn", 1 / 3)
    assert text.endswith("use gradient boosting without the graph, which is better than gcn (+10.0 points, p < .001)")


def test_a_lower_error_helps():
    tests = scores(mlp=0.80, gcn=0.60)
    vals = {"mlp": 0.8, "gcn": 0.6}
    assert conclude("mae", tests, vals, "gcn", 1 / 3) == (
        "the graph helps (-0.2 mae, p < .001 with gcn): use gcn, which has the best validation mae"
    )
    assert conclude("mae", tests, {"gcn": 0.6}, "gcn", 1 / 3) == "use gcn"
