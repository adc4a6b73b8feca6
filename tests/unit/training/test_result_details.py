"""Details of a test result: scores per class and target, confusion matrix, calibration, errors by degree."""

from __future__ import annotations

import pytest
import torch

from tgnn.training.metrics import Task
from tgnn.training.result_details import describe_result


def test_classes():
    y, y_train = torch.tensor([0, 0, 1, 2]), torch.tensor([0, 0, 0, 1])
    out = torch.tensor([[3.0, 0, 0], [0, 3.0, 0], [0, 3.0, 0], [0, 3.0, 0]])
    sizes = torch.tensor([0, 1, 3, 4])
    details = describe_result(Task("classification", "accuracy"), out, y, y_train, ["a", "b", "c"], sizes, "node")
    assert details.confusion == [[1, 1, 0], [0, 1, 0], [0, 1, 0]]
    assert details.classes is not None
    rows = [(row.name, row.precision, row.recall, row.train, row.test) for row in details.classes]
    assert rows == [("a", 1.0, 0.5, 3, 2), ("b", pytest.approx(1 / 3), 1.0, 1, 1), ("c", 0.0, 0.0, 0, 1)]
    assert details.scores["accuracy"] == 0.5
    assert set(details.scores) == {"accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "pr-auc", "log-loss"}
    bins = [(bin.low, bin.high, bin.count, bin.error) for bin in details.errors]
    assert (details.errors_by, bins) == ("degree", [(0, 0, 1, 0.0), (1, 1, 1, 1.0), (3, 4, 2, 0.5)])
    confidence = float(out[0].softmax(0).max())
    assert details.calibration is not None
    assert details.calibration.error == pytest.approx(confidence - 0.5, rel=1e-5)
    assert details.calibration.bins == [(pytest.approx(confidence, rel=1e-4), 0.5, 4)]


def test_labels_ignore_unknown_entries():
    nan = float("nan")
    out, y = torch.tensor([[2.0, -2.0], [-2.0, 2.0], [2.0, 2.0]]), torch.tensor([[1.0, 0.0], [1.0, nan], [nan, 0.0]])
    details = describe_result(Task("multi-label", "roc-auc"), out, y, y, ["p", "q"], None, "graph")
    assert details.classes is not None
    rows = [(row.precision, row.recall, row.test) for row in details.classes]
    assert rows == [(1.0, 0.5, 2), (0.0, 0.0, 0)]
    assert [row.confusion for row in details.classes] == [[[0, 0], [1, 1]], [[1, 1], [0, 0]]]
    assert "roc-auc" not in details.scores  # no label has both values
    assert details.scores["accuracy"] == 0.5
    assert not details.errors
    assert details.calibration is not None
    assert sum(count for _, _, count in details.calibration.bins) == 4


def test_numbers():
    y = torch.tensor([[1.0, 100.0], [2.0, 200.0], [3.0, float("nan")]])
    task = Task("regression", "mae", center=(0.0, 0.0), scale=(1.0, 100.0))
    out = torch.tensor([[1.0, 2.0], [2.0, 2.0], [4.0, 0.0]])
    details = describe_result(task, out, y, y, ["length", "mass"], torch.tensor([5, 9, 9]), "graph")
    assert details.targets is not None
    rows = [(row.name, row.mae, row.r2) for row in details.targets]
    assert rows == [("length", pytest.approx(1 / 3), 0.5), ("mass", 50.0, -1.0)]
    assert details.targets[1].points == [(100.0, 200.0), (200.0, 200.0)]
    assert details.scores["mae"] == pytest.approx((1 / 3 + 0.5) / 2)  # the second in units of its standard deviation
    assert (details.errors_by, [bin.count for bin in details.errors]) == ("nodes", [1, 2])
