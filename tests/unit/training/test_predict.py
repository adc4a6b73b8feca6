"""What is predicted is what was scored; data that does not fit is refused."""

from __future__ import annotations

from tgnn.data.load import load
from tgnn.training.evaluate import evaluate
from tgnn.training.predict import predict
from tgnn.training.recipes import resolve
from tgnn.training.run import train


def test_predictions_are_those_that_were_scored(tmp_path, monkeypatch):
    """Digits are grids, whose first eigenvalue is not simple; a model must not look for eigenvectors again."""
    monkeypatch.setattr("tgnn.baselines.dgn.eigenvectors", None)
    changes = {"model.hidden": 4, "model.layers": 1, "train.epochs": 1}
    config = resolve("digits-graphs", "dgn", "graph", changes=changes)
    train(config, tmp_path / "run")
    score = evaluate(tmp_path / "run", "cpu")
    data = load("digits-graphs", seed=0)
    test = data.split.test
    found = predict(tmp_path / "run", device="cpu")
    right = (found.values[test] == data.y[test]).float().mean()
    assert score["metric"] == "accuracy"
    assert abs(float(right) * (100 if score["test"] > 1 else 1) - score["test"]) < 1e-3
    assert score["test"] == score["recorded"]
