"""Losses and metrics, against their definitions and scikit-learn's."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
import torch
from sklearn import metrics as sklearn_metrics
from sklearn.metrics import accuracy_score, mean_absolute_error, roc_auc_score
from sklearn.utils.class_weight import compute_class_weight

from tgnn.training.config import ConfigError
from tgnn.training.metrics import Task, balanced_class_weight, compute_log_prior_ratio, is_better_epoch, make_task
from tgnn.training.prepare import prepare
from tgnn.training.recipes import resolve


def test_metrics_are_those_of_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    out, classes = torch.randn(50, 4, generator=generator), torch.randint(4, (50,), generator=generator)
    assert Task("classification", "accuracy").score(out, classes) == pytest.approx(
        accuracy_score(classes, out.argmax(1))
    )
    labels = (torch.rand(50, 4, generator=generator) < 0.4).float()
    expected = roc_auc_score(labels, out, average="macro")
    assert Task("multi-label", "roc-auc").score(out, labels) == pytest.approx(expected)
    y = torch.randn(50, generator=generator)
    task = Task("regression", "mae", center=(2.0,), scale=(3.0,))
    expected = mean_absolute_error(y, out[:, 0] * 3 + 2)
    assert task.score(out[:, :1], y) == pytest.approx(expected, rel=1e-6)


def test_every_classification_metric_is_that_of_scikit_learn():
    generator = torch.Generator().manual_seed(1)
    out, y = torch.randn(60, 3, generator=generator), torch.randint(3, (60,), generator=generator)
    p = out.double().softmax(1)
    task = Task("classification", "accuracy")
    expected = {
        "balanced-accuracy": sklearn_metrics.balanced_accuracy_score(y, out.argmax(1)),
        "macro-f1": sklearn_metrics.f1_score(y, out.argmax(1), average="macro"),
        "roc-auc": roc_auc_score(y, p, multi_class="ovr"),
        "pr-auc": sklearn_metrics.average_precision_score(torch.nn.functional.one_hot(y), p),
        "log-loss": sklearn_metrics.log_loss(y, p),
    }
    assert {name: task.score(out, y, name) for name in expected} == pytest.approx(expected, rel=1e-5)
    two, binary = out[:, :2], (y > 0).long()
    scores = two.double().softmax(1)[:, 1]
    assert task.score(two, binary, "roc-auc") == pytest.approx(roc_auc_score(binary, scores))
    expected_pr = sklearn_metrics.average_precision_score(binary, scores)
    assert task.score(two, binary, "pr-auc") == pytest.approx(expected_pr, rel=1e-5)


def test_several_numbers_are_averaged_in_units_of_their_standard_deviation():
    y = torch.stack([torch.arange(10.0), 1000 * torch.arange(10.0).sin()], 1)
    for metric in ("mae", "rmse", "r2"):
        task = make_task("regression", metric, y)
        rescaled = make_task("regression", metric, y * torch.tensor([1.0, 0.001]))
        out = torch.randn(10, 2, generator=torch.Generator().manual_seed(0))
        assert task.score(out, y) == pytest.approx(rescaled.score(out, y * torch.tensor([1.0, 0.001])), rel=1e-4)
    y = torch.arange(10.0)
    task, out = make_task("regression", "rmse", y), torch.zeros(10, 1)
    assert task.score(out, y) == pytest.approx(sklearn_metrics.root_mean_squared_error(y, torch.full((10,), 4.5)))
    assert task.score(out, y, "r2") == pytest.approx(0, abs=1e-6)
    assert float(task.loss(out, y)) == pytest.approx(float(((y - 4.5) / y.std()).pow(2).mean()))


def test_balanced_class_weights_are_those_of_scikit_learn():
    y = torch.tensor([0, 0, 0, 1, 2, 2])
    expected = compute_class_weight("balanced", classes=np.arange(3), y=y.numpy())
    weight = balanced_class_weight(y, "classification", 3)
    assert weight == pytest.approx(expected)
    out = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    per_example = torch.nn.functional.cross_entropy(out, y, reduction="none")
    of_class = torch.stack([per_example[y == c].mean() for c in range(3)])
    assert float(Task("classification", "accuracy", class_weight=weight).loss(out, y)) == pytest.approx(
        float(of_class.mean())
    )
    labels = torch.tensor([[1.0, 0.0], [0.0, float("nan")], [0.0, 1.0]])
    weight = balanced_class_weight(labels, "multi-label", 2)
    assert weight == (2.0, 1.0)
    logits = torch.tensor([[1.0, -1.0], [0.5, 9.0], [-2.0, 0.3]])
    entries = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.nan_to_num(), reduction="none")
    expected_loss = (2 * entries[0, 0] + entries[1, 0] + entries[2, 0] + entries[0, 1] + entries[2, 1]) / 6
    assert float(Task("multi-label", "roc-auc", class_weight=weight).loss(logits, labels)) == pytest.approx(
        float(expected_loss)
    )


def test_an_example_of_weight_two_counts_as_two_examples():
    generator = torch.Generator().manual_seed(0)
    weight = torch.tensor([2.0, 1.0, 0.0])
    rows = torch.tensor([0, 0, 1])
    out = torch.randn(3, 2, generator=generator)
    for task, y in (
        (Task("classification", "accuracy"), torch.tensor([0, 1, 1])),
        (Task("multi-label", "roc-auc"), torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])),
        (Task("regression", "mae"), torch.randn(3, 2, generator=generator)),
    ):
        assert float(task.loss(out, y, weight)) == pytest.approx(float(task.loss(out[rows], y[rows])))


def test_unknown_labels_are_ignored_in_loss_and_metric():
    nan = float("nan")
    out = torch.tensor([[2.0, -1.0], [-2.0, 1.0], [1.0, 3.0]])
    y = torch.tensor([[1.0, nan], [0.0, 1.0], [nan, 0.0]])
    task = Task("multi-label", "roc-auc")
    known = ~y.isnan()
    assert task.loss(out, y) == torch.nn.functional.binary_cross_entropy_with_logits(out[known], y[known])
    assert task.score(out, y) == (1.0 + 0.0) / 2


def test_constant_labels_are_ignored_as_in_ogb():
    out = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert Task("multi-label", "roc-auc").score(out, torch.tensor([[1.0, 1.0], [0.0, 1.0]])) == 1.0
    with pytest.raises(ValueError, match="ROC-AUC is not defined"):
        Task("multi-label", "roc-auc").score(out, torch.ones(2, 2))


def test_an_epoch_after_a_nan_loss_is_better():
    assert is_better_epoch("accuracy", "loss", (0.9, 0.1), (0.1, math.nan))
    assert not is_better_epoch("accuracy", "loss", (0.9, math.nan), (0.1, 0.2))


def test_each_regression_target_is_standardized():
    y = torch.tensor([[10.0, 1000.0], [20.0, 2000.0], [float("nan"), float("nan")], [30.0, 1500.0]])
    task = make_task("regression", "mae", y)
    assert (task.center, task.scale) == ((20.0, 1500.0), (10.0, 500.0))
    out = torch.tensor([[-1.0, -1.0], [0.0, 1.0], [5.0, 9.0], [1.0, 0.0]])
    assert float(task.loss(out, y)) == task.score(out, y) == 0
    values, probabilities = task.predictions(out)
    assert values[:, 0].tolist() == [10, 20, 70, 30]
    assert probabilities is None
    assert make_task("regression", "mae", torch.tensor([4.0])).scale == (1.0,)


def test_half_precision_does_not_round_the_targets():
    y = torch.arange(1990.0, 2021.0)
    task = make_task("regression", "mae", y)
    perfect = ((y - task.center[0]) / task.scale[0]).unsqueeze(1)
    for dtype in (torch.bfloat16, torch.float16):
        assert float(task.loss(perfect.to(dtype), y)) < 0.01


def test_nan_predictions_are_never_the_best():
    nan = float("nan")
    task = Task("regression", "mae")
    assert torch.tensor(task.score(torch.tensor([[nan], [1.0]]), torch.tensor([5.0, 1.0]))).isnan()
    assert not is_better_epoch("mae", "metric", (nan, 0.0), (0.5, 0.0))
    assert is_better_epoch("mae", "metric", (0.5, 0.0), (nan, 0.0))
    assert not is_better_epoch("mae", "metric", (nan, 0.0), (nan, 1.0))
    assert float(task.loss(torch.ones(2, 1), torch.tensor([nan, nan]))) == 0


def test_corrected_logits_are_the_posterior_under_other_priors():
    """Bayes' rule for three normal densities with uniform training priors and other test priors."""
    x = torch.linspace(-3, 6, 200, dtype=torch.float64)
    densities = torch.stack([torch.exp(-((x - mean) ** 2) / 2) for mean in (0.0, 1.5, 3.0)], dim=1)
    learned, expected = torch.arange(3).repeat(50_000), torch.tensor([0] * 1_000 + [1] * 9_000 + [2] * 90_000)
    task = Task("classification", "accuracy", log_prior_ratio=compute_log_prior_ratio(learned, expected, 3))
    classes, probabilities = task.predictions(densities.log())
    joint = densities * torch.tensor([0.01, 0.09, 0.9], dtype=torch.float64)
    assert torch.allclose(probabilities.double(), joint / joint.sum(1, keepdim=True), atol=1e-3)
    assert torch.equal(classes, joint.argmax(1))
    assert not torch.equal(classes, densities.argmax(1))
    assert task.score(densities.log(), joint.argmax(1)) == 1.0
    assert task.loss(densities.log(), classes) == Task("classification", "accuracy").loss(densities.log(), classes)


@pytest.mark.parametrize(
    ("learned", "expected", "signs"),
    [
        ((400, 200, 1), (140, 70, 0), (1, 1, -1)),  # not in the validation set: less likely
        ((402, 195, 3), (134, 65, 1), (0, 0, 0)),  # the same priors: no correction
        ((400, 200, 0), (134, 66, 0), (1, -1, 0)),  # no examples at all
        ((400, 200, 0), (90, 50, 60), (-1, -1, 0)),  # no training examples
    ],
)
def test_rare_and_missing_classes(learned, expected, signs):
    parts = (torch.arange(3).repeat_interleave(torch.tensor(counts)) for counts in (learned, expected))
    ratios = compute_log_prior_ratio(*parts, 3)
    assert all(map(math.isfinite, ratios))  # every class stays possible
    assert [round(ratio, 9) and math.copysign(1, ratio) for ratio in ratios] == list(signs)


def test_the_validation_loss_uses_the_corrected_logits():
    out, y = torch.tensor([[0.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 0])
    task = Task("classification", "accuracy", log_prior_ratio=(2.0, -2.0))
    assert task.evaluate(out, y) == (1.0, pytest.approx(float(task.loss(out + torch.tensor([2.0, -2.0]), y))))


def test_prior_correction_uses_the_validation_set(tmp_path):
    changes = {"train.prior_correction": "validation", "data.split": "per-class-quota"}
    prepared = prepare(resolve("digits", "tgnn", "node", changes=changes))
    y, split = prepared.data.y, prepared.split
    assert prepared.task.log_prior_ratio == compute_log_prior_ratio(y[split.train], y[split.val], 10)
    assert max(map(abs, prepared.task.log_prior_ratio)) > 0.01
    assert prepare(resolve("digits", "tgnn", "node")).task.log_prior_ratio == ()
    pl.DataFrame({"id": range(40), "x": range(40), "label": [i / 7 for i in range(40)]}).write_csv(
        tmp_path / "nodes.csv"
    )
    pl.DataFrame({"source": range(39), "target": range(1, 40)}).write_csv(tmp_path / "edges.csv")
    with pytest.raises(ConfigError, match="prior_correction=validation needs a classification task"):
        prepare(resolve(str(tmp_path), "tgnn", "node", changes={"train.prior_correction": "validation"}))
