"""What is predicted is what was scored; data that does not fit is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from tgnn.data.formats.packed import pack, write_packed
from tgnn.data.load import load
from tgnn.training.evaluate import evaluate
from tgnn.training.predict import WrongData, predict
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


def packed(path: Path, *parts: str) -> str:
    """Twelve paths of four nodes, with some parts beside features and edges."""
    graphs = []
    for number in range(12):
        graph = Data(torch.ones(4, 2), torch.tensor([[0, 1, 2], [1, 2, 3]]), y=torch.tensor([number % 2]))
        graph.pos, graph.edge_weight = torch.rand(4, 2), torch.rand(3)
        graphs.append(Data(**{key: graph[key] for key in ("x", "edge_index", "y", *parts)}))
    write_packed(pack(graphs, torch.arange(12) // 2 % 3), path)
    return str(path)


@pytest.mark.parametrize(
    ("name", "own", "lacking"),
    [
        ("tgnn", {}, "edge weights"),
        ("gin", {}, None),
        ("monet", {"model.pseudo": "position"}, "positions of 2 numbers"),
        ("monet", {}, None),
    ],
)
def test_what_the_model_reads_must_be_there(name, own, lacking, tmp_path):
    whole = packed(tmp_path / "whole.npz", "edge_weight", "pos")
    plain = packed(tmp_path / "plain.npz")
    changes = {"model.hidden": 4, "model.layers": 1, "train.epochs": 1, **own}
    train(resolve(whole, name, "graph", changes=changes), tmp_path / "run")
    assert len(predict(tmp_path / "run", device="cpu").ids) == 12
    if lacking is None:
        assert len(predict(tmp_path / "run", plain, "cpu").ids) == 12
        return
    with pytest.raises(WrongData, match=f"the model was trained with {lacking}, and .* has none such"):
        predict(tmp_path / "run", plain, "cpu")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_many_rows_are_written_in_pieces(tmp_path, suffix, monkeypatch):
    import polars
    import polars.testing

    config = resolve("karate", "tgnn", "node", changes={"train.epochs": 2})
    train(config, tmp_path / "run")
    whole = predict(tmp_path / "run", device="cpu")
    monkeypatch.setattr("tgnn.training.predict.ROWS_AT_ONCE", 10)
    pieces = predict(tmp_path / "run", device="cpu")
    pieces.write(tmp_path / f"out{suffix}")
    read = polars.read_csv if suffix == ".csv" else polars.read_parquet
    found = read(tmp_path / f"out{suffix}", **({"schema": whole.table().schema} if suffix == ".csv" else {}))
    polars.testing.assert_frame_equal(found, whole.table())
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"out{suffix}", "run"]
