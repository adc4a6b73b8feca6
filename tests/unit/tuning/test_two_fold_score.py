"""Two-fold validation score: the epoch is selected on one half of the validation set and evaluated on the other."""

from __future__ import annotations

import pytest
import torch

from tgnn.training.metrics import Task, compute_log_prior_ratio
from tgnn.tuning.objective import TwoFoldScore


def classes(right: float, count: int = 400, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return targets of two classes, and outputs of which a fraction is correct."""
    draw = torch.Generator().manual_seed(seed)
    truth = torch.arange(count) % 2
    predicted = torch.where(torch.rand(count, generator=draw) < right, truth, 1 - truth)
    return truth, torch.nn.functional.one_hot(predicted, 2).float()


def test_random_outputs_score_at_chance():
    task, best = Task("classes", "accuracy"), 0.0
    two_fold = TwoFoldScore(task, classes(0.5)[0], "metric", seed=0)
    for epoch in range(200):
        truth, outputs = classes(0.5, seed=epoch)
        two_fold.update(outputs)
        best = max(best, task.score(outputs, truth))
    assert best > 0.55
    assert two_fold.score == pytest.approx(0.5, abs=0.04)


def test_the_best_epoch_counts():
    two_fold = TwoFoldScore(Task("classes", "accuracy"), classes(0.5)[0], "metric", seed=0)
    for epoch, right in enumerate((0.5, 0.7, 0.9, 0.6)):
        two_fold.update(classes(right, seed=epoch)[1])
    assert two_fold.score == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize(("select_by", "expected"), [("metric", 1.0), ("loss", 0.75)])
def test_select_by(select_by, expected):
    truth = torch.arange(16) % 2
    right = torch.nn.functional.one_hot(truth, 2).float()
    two_fold = TwoFoldScore(Task("classes", "accuracy"), truth, select_by, seed=0)
    two_fold.update(right * 1e-3)  # all correct, with a large loss
    two_fold.update(
        torch.where(torch.arange(16).unsqueeze(1) < 4, -1e-3 * right, 9 * right)
    )  # a quarter wrong, with a small loss
    assert two_fold.score == expected


def test_class_priors_come_from_the_other_half():
    """Constant outputs for 20 classes stay at chance: priors of the evaluated examples would leak their classes."""
    learned, found = torch.arange(20).repeat(10), []
    for seed in range(100):
        truth = torch.randint(20, (60,), generator=torch.Generator().manual_seed(seed))
        task = Task("classes", "accuracy", log_prior_ratio=compute_log_prior_ratio(learned, truth, 20))
        two_fold = TwoFoldScore(task, truth, "metric", seed, learned)
        two_fold.update(torch.zeros(60, 20))
        found.append(two_fold.score)
    assert sum(found) / 100 == pytest.approx(0.05, abs=0.015)


def test_a_class_may_be_missing_from_validation():
    learned, truth = torch.arange(5).repeat(4), torch.tensor([0, 1] * 8)
    task = Task("classes", "accuracy", log_prior_ratio=compute_log_prior_ratio(learned, truth, 5))
    two_fold = TwoFoldScore(task, truth, "metric", 0, learned)
    two_fold.update(
        torch.nn.functional.one_hot(truth, 5) + 1.1 * torch.eye(5)[4]
    )  # class 4 has the largest output, but prior 0
    assert two_fold.score == 1.0


def test_both_halves_have_the_classes():
    task, truth = Task("labels", "roc-auc"), torch.tensor([0.0] * 20 + [1.0] * 2)
    for seed in range(20):
        TwoFoldScore(task, truth, "metric", seed).update(torch.rand(22, 1))


def test_small_validation_sets_are_not_divided():
    two_fold = TwoFoldScore(Task("labels", "roc-auc"), torch.tensor([0.0] * 5 + [1.0]), "metric", seed=0)
    two_fold.update(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.6, 0.5]).unsqueeze(1))
    assert two_fold.score == pytest.approx(0.8)
    alone = TwoFoldScore(Task("number", "mae"), torch.tensor([2.0]), "metric", seed=0)
    alone.update(torch.tensor([[1.5]]))
    assert alone.score == pytest.approx(0.5)
