"""Validation scores of a search: each half of the validation set evaluates the other, and no test label is read."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from tests.unit.tuning.conftest import comparable, small_plan
from tgnn.data.convert import convert
from tgnn.data.load import load
from tgnn.training.metrics import Task, compute_log_prior_ratio
from tgnn.training.prepare import prepare_without_test
from tgnn.training.recipes import resolve
from tgnn.tuning.objective import TwoFoldScore
from tgnn.tuning.study import tune


def classes(right: float, count: int = 400, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return targets of two classes, and outputs of which a fraction is correct."""
    draw = torch.Generator().manual_seed(seed)
    truth = torch.arange(count) % 2
    predicted = torch.where(torch.rand(count, generator=draw) < right, truth, 1 - truth)
    return truth, torch.nn.functional.one_hot(predicted, 2).float()


def test_random_outputs_score_at_chance():
    task, best = Task("classification", "accuracy"), 0.0
    two_fold = TwoFoldScore(task, classes(0.5)[0], "metric", seed=0)
    for epoch in range(200):
        truth, outputs = classes(0.5, seed=epoch)
        two_fold.update(outputs)
        best = max(best, task.score(outputs, truth))
    assert best > 0.55
    assert two_fold.score == pytest.approx(0.5, abs=0.04)


def test_the_best_epoch_counts():
    two_fold = TwoFoldScore(Task("classification", "accuracy"), classes(0.5)[0], "metric", seed=0)
    for epoch, right in enumerate((0.5, 0.7, 0.9, 0.6)):
        two_fold.update(classes(right, seed=epoch)[1])
    assert two_fold.score == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize(("select_by", "expected"), [("metric", 1.0), ("loss", 0.75)])
def test_select_by(select_by, expected):
    truth = torch.arange(16) % 2
    right = torch.nn.functional.one_hot(truth, 2).float()
    two_fold = TwoFoldScore(Task("classification", "accuracy"), truth, select_by, seed=0)
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
        task = Task("classification", "accuracy", log_prior_ratio=compute_log_prior_ratio(learned, truth, 20))
        two_fold = TwoFoldScore(task, truth, "metric", seed, learned)
        two_fold.update(torch.zeros(60, 20))
        found.append(two_fold.score)
    assert sum(found) / 100 == pytest.approx(0.05, abs=0.015)


def test_a_class_may_be_missing_from_validation():
    learned, truth = torch.arange(5).repeat(4), torch.tensor([0, 1] * 8)
    task = Task("classification", "accuracy", log_prior_ratio=compute_log_prior_ratio(learned, truth, 5))
    two_fold = TwoFoldScore(task, truth, "metric", 0, learned)
    two_fold.update(
        torch.nn.functional.one_hot(truth, 5) + 1.1 * torch.eye(5)[4]
    )  # class 4 has the largest output, but prior 0
    assert two_fold.score == 1.0


def test_both_halves_have_the_classes():
    task, truth = Task("multi-label", "roc-auc"), torch.tensor([0.0] * 20 + [1.0] * 2)
    for seed in range(20):
        TwoFoldScore(task, truth, "metric", seed).update(torch.rand(22, 1))


def test_small_validation_sets_are_not_divided():
    two_fold = TwoFoldScore(Task("multi-label", "roc-auc"), torch.tensor([0.0] * 5 + [1.0]), "metric", seed=0)
    two_fold.update(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.6, 0.5]).unsqueeze(1))
    assert two_fold.score == pytest.approx(0.8)
    alone = TwoFoldScore(Task("regression", "mae"), torch.tensor([2.0]), "metric", seed=0)
    alone.update(torch.tensor([[1.5]]))
    assert alone.score == pytest.approx(0.5)


# ---- test labels -----------------------------------------------------------------------------------------------


def write_groups(folder, wrong: bool) -> None:
    """Write a graph of two communities with a split column, and with right or wrong labels in the test set."""
    rng = np.random.default_rng(0)
    group = np.arange(90) % 2
    split = np.array(["train", "val", "test"])[np.arange(90) // 2 % 3]
    label = np.where((split == "test") & wrong, 1 - group, group)
    nodes = {"id": range(90), "height": group + rng.normal(0, 0.7, 90), "label": label, "split": split}
    folder.mkdir()
    pl.DataFrame(nodes).write_csv(folder / "nodes.csv")
    ends = rng.integers(0, 90, (2, 300))
    ends = ends[:, group[ends[0]] == group[ends[1]]]
    pl.DataFrame({"source": ends[0], "target": ends[1]}).write_csv(folder / "edges.csv")


def test_other_test_labels_change_no_score(tmp_path):
    found = []
    for name, wrong in (("right", False), ("wrong", True)):
        write_groups(tmp_path / name, wrong)
        found.append(tune(small_plan(str(tmp_path / name), splits=1, trials=6), tmp_path / f"of-{name}"))
    right, wrong_ = found
    assert right.split == "column"
    assert right.data_hash != wrong_.data_hash
    assert comparable(right) == comparable(wrong_)
    assert len({trial.score for trial in right.trials}) > 1


def write_targets(folder, columns) -> str:
    rng = np.random.default_rng(0)
    folder.mkdir()
    targets = columns(rng)
    pl.DataFrame({"id": range(60), "height": rng.normal(0, 1, 60), **targets}).write_csv(folder / "nodes.csv")
    ends = rng.integers(0, 60, (2, 200))
    pl.DataFrame({"source": ends[0], "target": ends[1]}).write_csv(folder / "edges.csv")
    if len(targets) > 1:
        (folder / "schema.yaml").write_text(f"nodes: {{label: [{', '.join(targets)}]}}\n")
    return str(folder)


@pytest.mark.parametrize(
    "columns",
    [lambda rng: {"label": rng.normal(0, 1, 60)}, lambda rng: {f"label_{n}": rng.integers(0, 2, 60) for n in "ab"}],
    ids=["numbers", "several labels"],
)
@pytest.mark.parametrize("on_disk", [False, True], ids=["tables", "on disk"])
def test_no_test_labels_of_any_kind(tmp_path, columns, on_disk):
    source = write_targets(tmp_path / "tables", columns)
    if on_disk:
        convert(source, tmp_path / "graph")
        source = str(tmp_path / "graph")
    blind = prepare_without_test(resolve(source, "tgnn", "node"))
    hidden, seen = blind.data.y[blind.split.test], blind.data.y[blind.split.val]
    assert (hidden.isnan() if hidden.is_floating_point() else hidden == -1).all()
    assert not (seen.isnan() if seen.is_floating_point() else seen == -1).any()


@pytest.mark.parametrize("data", ["karate", "digits-graphs"])
def test_what_a_trial_sees_has_no_test_labels(data):
    blind = prepare_without_test(resolve(data, "gcn", "graph" if "graphs" in data else "node"))
    assert (blind.data.y[blind.split.test] == -1).all()
    with pytest.raises(RuntimeError, match="already been read"):
        blind.test_labels.read()
    rest = torch.cat([blind.split.train, blind.split.val])
    assert torch.equal(blind.data.y[rest], load(data).y[rest])
