"""A saved estimator is loaded unchanged, and damaged files are rejected."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.unit.estimators.conftest import rings
from tgnn import GraphClassifier, GraphRegressor, NodeClassifier, NodeRegressor
from tgnn.training.checkpoint import CheckpointError
from tgnn.utils.io import write_tensors

QUICK = {"epochs": 3, "hidden": 8, "rank": 4, "random_state": 0}


@pytest.mark.parametrize("label", [str, int, float, lambda k: k > 1], ids=["text", "integers", "floats", "bools"])
def test_node_classifier(club, tmp_path, label):
    y = np.array([label(int(k)) for k in club.y])
    options = {"model.mix": "scalar", "optimizer.grad_clip": 1.0}
    model = NodeClassifier(graph=club, options=options, x_attribute=("a", "b"), lr=np.float64(0.02), **QUICK)
    model.fit(range(34), y).save(tmp_path / "model.safetensors")
    before = torch.get_rng_state()
    again = NodeClassifier.load(tmp_path / "model.safetensors")
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(again.predict_proba(club), model.predict_proba(club))
    assert np.array_equal(again.predict(club), model.predict(club))
    assert again.classes_.dtype == model.classes_.dtype
    assert again.graph is None  # the graph is not saved
    assert np.array_equal(again.set_params(graph=club).predict([3]), model.predict([3]))
    wanted = {**model.get_params(), "x_attribute": ["a", "b"]}  # JSON has no tuples
    assert again.get_params() == wanted
    for name in ("history_", "n_iter_", "best_epoch_", "n_features_in_", "config_", "shape_", "task_"):
        assert getattr(again, name) == getattr(model, name), name


def test_other_estimators(planted, tmp_path):
    x, edges, y = planted
    graphs = rings(12)
    for graph in graphs:
        graph.x = torch.arange(graph.num_nodes) % 4
    for kind, data, target in (
        (NodeRegressor, (x, edges), y),
        (GraphClassifier, graphs, None),
        (GraphRegressor, graphs, [graph.num_nodes for graph in graphs]),
    ):
        model = kind(**QUICK).fit(data, target)
        model.save(str(tmp_path / kind.__name__))
        again = kind.load(str(tmp_path / kind.__name__))
        assert np.array_equal(again.predict(data), model.predict(data))
        assert again.fit(data, target).n_iter_ == 3


@pytest.mark.parametrize(("state", "stored"), [(np.int64(3), 3), (np.random.RandomState(0), None)])
def test_a_random_state_of_numpy(club, tmp_path, state, stored):
    NodeClassifier(**{**QUICK, "random_state": state}).fit(club).save(tmp_path / "model")
    assert NodeClassifier.load(tmp_path / "model").random_state == stored


@pytest.fixture
def saved(club, tmp_path):
    """The file of a classifier."""
    NodeClassifier(**QUICK).fit(club).save(tmp_path / "model")
    return tmp_path / "model"


def damage(path, change):
    """Change the weights and the metadata of a file."""
    length = int.from_bytes(path.read_bytes()[:8], "little")
    about = json.loads(json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"]["about"])
    weights = load_file(path)
    change(about, weights)
    write_tensors(path, weights, about)


def test_missing_and_damaged_files(saved, tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(FileNotFoundError, match="does not exist"):
            NodeClassifier.load(path)
    with pytest.raises(CheckpointError, match="contains a NodeClassifier, not a GraphRegressor: .*NodeClassifier.load"):
        GraphRegressor.load(saved)
    whole = saved.read_bytes()
    for damaged in (b"", b"text", whole[:100], whole[:-10], b"\x80\x04K\x01."):
        saved.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="damaged, or not a file of tgnn"):
            NodeClassifier.load(saved)
    save_file({"weight": torch.ones(1)}, saved)
    with pytest.raises(CheckpointError, match="damaged, or not a file of tgnn"):
        NodeClassifier.load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda about, weights: about.pop("config"), "another version of tgnn"),
        (lambda about, weights: about["config"]["optimizer"].update(lr=-1), "another version of tgnn"),
        (lambda about, weights: about["parameters"].update(other=1), "another version of tgnn"),
        (lambda about, weights: about["classes"].update(dtype="nothing"), "another version of tgnn"),
        (lambda about, weights: about["classes"].update(values=[1, 2]), "another version of tgnn"),
        (lambda about, weights: about["shape"].update(features="wide"), "another version of tgnn"),
        (lambda about, weights: about.update(task=[]), "another version of tgnn"),
        (lambda about, weights: about.update(shape=None), "another version of tgnn"),
        (lambda about, weights: about["parameters"].pop("options"), "parameters.options is missing"),
        (lambda about, weights: about["task"].update(log_prior_ratio=[1.0]), "task.log_prior_ratio has 1 values"),
        (lambda about, weights: about["task"].update(scale=[0.0]), "task.scale must have a positive value"),
        (lambda about, weights: about["task"].update(target="regression"), "its task is node regression"),
        (lambda about, weights: about.update(history="x", n_iter="y"), "history is 'x', but it should be a valid"),
        (lambda about, weights: weights[next(iter(weights))].fill_(float("nan")), "contains NaN or infinity"),
        (lambda about, weights: about.pop("estimator"), "does not contain an estimator"),
        (lambda about, weights: weights.pop(next(iter(weights))), "belongs to another model: Missing key"),
    ],
)
def test_damaged_contents(saved, change, message):
    damage(saved, change)
    with pytest.raises(CheckpointError, match=message):
        NodeClassifier.load(saved)


def test_a_failed_write_leaves_no_file(club, tmp_path):
    model = NodeClassifier(**QUICK, x_attribute=object()).fit(club)
    with pytest.raises(ValueError, match="x_attribute contains object, which cannot be saved"):
        model.save(tmp_path / "model")
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "nowhere" / "model")
    assert list(tmp_path.iterdir()) == []
