"""Training and prediction on a graph on disk."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from tgnn.data import load
from tgnn.data.convert import write
from tgnn.data.on_disk import GraphWriter
from tgnn.training.predict import evaluate, predict
from tgnn.training.recipes import resolve
from tgnn.training.run_folder import RunFolder
from tgnn.training.train import train_run

SMALL = {"model.hidden_channels": 8, "model.rank": 4, "train.epochs": 3, "train.batch_size": 200}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The same graph in a folder and in a file."""
    folder, data = tmp_path_factory.mktemp("graphs"), load("digits")
    write(data, folder / "disk")
    write(data, folder / "memory.npz")
    return folder


def test_disk_and_memory_give_the_same_result(places, tmp_path):
    """Losses, metrics, the best epoch and predictions are equal. Features on disk are scaled when they are read."""
    found = {}
    for kind, name in (("disk", "disk"), ("memory", "memory.npz")):
        changes = {**SMALL, "train.num_neighbors": (5, 5), "data.features": "row-l2", "data.split": "stratified"}
        changes |= {"model.low_order": "mean", "model.input_dropout": 0.0, "model.high_start": 1.0}  # defaults on disk
        changes["optimizer.weight_decay"] = 5e-4
        config = resolve(str(places / name), "tgnn", "node", changes=changes)
        train_run(config, tmp_path / kind)
        lines = [json.loads(line) for line in (tmp_path / kind / "history.jsonl").read_text().splitlines()]
        found[kind] = (lines, evaluate(tmp_path / kind, device="cpu")["test"], predict(tmp_path / kind, device="cpu"))
    (on_disk, score, said), (in_memory, other, words) = found["disk"], found["memory"]
    for one, two in zip(on_disk, in_memory):
        assert one["loss"] == pytest.approx(two["loss"], rel=1e-5)
        assert one["val_accuracy"] == pytest.approx(two["val_accuracy"], abs=1e-6)
    assert score == pytest.approx(other, abs=1e-6)
    torch.testing.assert_close(said.probabilities, words.probabilities, rtol=1e-4, atol=1e-6)
    assert said.table().columns == words.table().columns


def test_graphs_on_disk_are_sampled_by_default(places, tmp_path):
    config = resolve(str(places / "disk"), "tgnn", "node", changes={"model.num_layers": 3})
    assert config.model.arguments["low_order"] == "mean"
    assert config.train.num_neighbors == (10, 10, 10)
    assert (config.train.batch_size, config.train.workers) == (1024, 2)
    assert (config.train.epochs, config.train.patience) == (200, 50)  # of one step each
    with GraphWriter(tmp_path / "large", 1_000_000):
        pass
    large = resolve(str(tmp_path / "large"), "tgnn", "node").train
    assert (large.epochs, large.patience) == (20, 5)
    assert resolve(
        str(places / "disk"), "tgnn", "node", changes={"train.num_neighbors": (4, 4)}
    ).train.num_neighbors == (4, 4)


def test_prefetching_threads_do_not_change_the_result(places, tmp_path):
    losses = []
    for workers in (0, 3):
        train_run(
            resolve(str(places / "disk"), "tgnn", "node", changes={**SMALL, "train.workers": workers}),
            tmp_path / str(workers),
        )
        history = (tmp_path / str(workers) / "history.jsonl").read_text().splitlines()
        losses.append([json.loads(line)["loss"] for line in history])
        assert all(0 <= json.loads(line)["waiting"] <= 1 for line in history)
    np.testing.assert_array_equal(*losses)


def test_outputs_leave_no_file(places, tmp_path, monkeypatch):
    """Outputs are mapped from an unlinked file. PyG writes generated code to the same folder in the first run."""
    train_run(resolve(str(places / "disk"), "tgnn", "node", changes={**SMALL, "train.epochs": 1}), tmp_path / "run")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "scratch").mkdir()
    out = RunFolder(tmp_path / "run").load_model()(load(places / "disk"))
    assert out.shape == (1797, 10)
    assert torch.isfinite(out).all()
    assert not list((tmp_path / "scratch").iterdir())


@pytest.mark.parametrize("model", ["gcn", "node2vec", "graphsage"])
def test_other_models_are_refused_on_disk(places, tmp_path, model):
    with pytest.raises(ValueError, match="only tgnn supports graphs on disk"):
        train_run(resolve(str(places / "disk"), model, "node", changes={"train.epochs": 1}), tmp_path / "run")


def test_graph_json_beside_tables_changes_nothing(tmp_path, monkeypatch):
    """The reader and the recipe must detect the same format."""
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    plain = resolve(str(tmp_path), "tgnn", "node")
    (tmp_path / "graph.json").write_text("{}")
    assert resolve(str(tmp_path), "tgnn", "node") == plain
    (tmp_path / "edges.tsv").write_text("source\ttarget\n1\t2\n")
    with pytest.raises(ValueError, match=r"has both edges.csv and edges.tsv. Remove one of them"):
        resolve(str(tmp_path), "tgnn", "node")
    write(load("karate"), tmp_path / "karate")
    monkeypatch.chdir(tmp_path)
    assert resolve("karate", "tgnn", "node").train.num_neighbors is None  # the name is that of the catalog
    assert resolve("./karate", "tgnn", "node").train.num_neighbors is not None
