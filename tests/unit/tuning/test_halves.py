"""How settings are judged: an epoch chosen on one half of the validation examples, judged on the other."""

from __future__ import annotations

import pytest
import torch

from tgnn.training.metrics import Task, log_prior_ratio
from tgnn.tuning.objective import Halves


def classes(right: float, count: int = 400, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Targets of two classes, and outputs of which a share is right."""
    draw = torch.Generator().manual_seed(seed)
    truth = torch.arange(count) % 2
    said = torch.where(torch.rand(count, generator=draw) < right, truth, 1 - truth)
    return truth, torch.nn.functional.one_hot(said, 2).float()


def test_luck_does_not_count():
    task, best = Task("classes", "accuracy"), 0.0
    halves = Halves(task, classes(0.5)[0], "metric", seed=0)
    for epoch in range(200):
        truth, outputs = classes(0.5, seed=epoch)
        halves.see(outputs)
        best = max(best, task.score(outputs, truth))
    assert best > 0.55
    assert halves.score == pytest.approx(0.5, abs=0.04)


def test_what_is_learned_counts():
    halves = Halves(Task("classes", "accuracy"), classes(0.5)[0], "metric", seed=0)
    for epoch, right in enumerate((0.5, 0.7, 0.9, 0.6)):
        halves.see(classes(right, seed=epoch)[1])
    assert halves.score == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize(("by", "expected"), [("metric", 1.0), ("loss", 0.75)])
def test_the_epoch_is_chosen_by_what_was_asked(by, expected):
    truth = torch.arange(16) % 2
    right = torch.nn.functional.one_hot(truth, 2).float()
    halves = Halves(Task("classes", "accuracy"), truth, by, seed=0)
    halves.see(right * 1e-3)  # all right, none sure
    halves.see(torch.where(torch.arange(16).unsqueeze(1) < 4, -1e-3 * right, 9 * right))  # sure, a quarter just wrong
    assert halves.score == expected


def test_shares_are_expected_by_what_the_other_half_has():
    """Twenty classes of which nothing is known: shares of the examples that judge would tell some of them."""
    learned, found = torch.arange(20).repeat(10), []
    for seed in range(100):
        truth = torch.randint(20, (60,), generator=torch.Generator().manual_seed(seed))
        task = Task("classes", "accuracy", shift=log_prior_ratio(learned, truth, 20))
        halves = Halves(task, truth, "metric", seed, learned)
        halves.see(torch.zeros(60, 20))
        found.append(halves.score)
    assert sum(found) / 100 == pytest.approx(0.05, abs=0.015)


def test_a_class_may_be_missing_from_validation():
    learned, truth = torch.arange(5).repeat(4), torch.tensor([0, 1] * 8)
    task = Task("classes", "accuracy", shift=log_prior_ratio(learned, truth, 5))
    halves = Halves(task, truth, "metric", 0, learned)
    halves.see(torch.nn.functional.one_hot(truth, 5) + 1.1 * torch.eye(5)[4])  # 4 is likelier, but not expected
    assert halves.score == 1.0


def test_both_halves_have_the_classes():
    task, truth = Task("labels", "roc-auc"), torch.tensor([0.0] * 20 + [1.0] * 2)
    for seed in range(20):
        Halves(task, truth, "metric", seed).see(torch.rand(22, 1))


def test_what_cannot_be_halved_is_judged_whole():
    halves = Halves(Task("labels", "roc-auc"), torch.tensor([0.0] * 5 + [1.0]), "metric", seed=0)
    halves.see(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.6, 0.5]).unsqueeze(1))
    assert halves.score == pytest.approx(0.8)
    alone = Halves(Task("number", "mae"), torch.tensor([2.0]), "metric", seed=0)
    alone.see(torch.tensor([[1.5]]))
    assert alone.score == pytest.approx(0.5)
