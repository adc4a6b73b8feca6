"""The training loop and its parts: optimizer, schedules, diagnostics, best epoch, weights on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tgnn import TGNN
from tgnn.training.checkpoint import CheckpointError, load_weights, read_tensors
from tgnn.training.config import OptimizerConfig, make_config
from tgnn.training.diagnostics import advice, branch_weights, gradient_norms, observe_products, product_statistics
from tgnn.training.loop import Trainer
from tgnn.training.metrics import find_best_epoch
from tgnn.training.optim import LearningRateSchedule, make_optimizer
from tgnn.training.prepare import make_model, prepare
from tgnn.utils.io import write_tensors

EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


def small_model(mix: str = "scalar") -> TGNN:
    torch.manual_seed(0)
    return TGNN(4, 8, 2, 3, rank=4, mix=mix)


@pytest.mark.parametrize("select_by", ["metric", "loss"])
def test_the_best_epoch_is_selected_by_metric_or_loss(select_by):
    config = make_config(
        {
            "data": {"name": "digits"},
            "model": {"hidden_channels": 8, "rank": 4, "dropout": 0.0, "input_dropout": 0.0},
            "train": {"epochs": 60, "select_by": select_by, "seed": 1},
            "optimizer": {"lr": 0.05, "weight_decay": 0.0},
        }
    )
    prepared, records = prepare(config), []
    trainer = Trainer(make_model(config, prepared.shape), prepared, config)
    _, progress = trainer.fit(on_epoch=lambda epoch: records.append(epoch.record))
    loss, accuracy = [record["val_loss"] for record in records], [record["val_accuracy"] for record in records]
    by_loss = min(range(60), key=loss.__getitem__)
    by_metric = max(range(60), key=lambda epoch: (accuracy[epoch], -loss[epoch]))
    assert by_loss != by_metric
    assert progress.best_epoch == (by_loss if select_by == "loss" else by_metric)
    assert find_best_epoch(records, "accuracy", select_by) == progress.best_epoch + 1


@pytest.mark.parametrize("name", ["gcn", "gat", "graphsage", "tgnn"])
def test_jumping_knowledge_with_sampled_neighbors(name):
    train = {"epochs": 2, "num_neighbors": (2, 2, 2), "batch_size": 8}
    model = {"name": name, "hidden_channels": 8, "num_layers": 3, "jk": "cat"}
    config = make_config({"data": {"name": "karate"}, "model": model, "train": train})
    prepared = prepare(config)
    assert Trainer(make_model(config, prepared.shape), prepared, config).fit()[1].epoch == 2


# ---- optimizer -------------------------------------------------------------------------------------------------


def test_the_product_branch_has_its_own_learning_rate():
    optimizer = make_optimizer(small_model(), OptimizerConfig(lr=0.1, cp_lr=0.2, cp_weight_decay=0.0))
    low, high = optimizer.param_groups
    assert (low["lr"], high["lr"]) == (0.1, 0.2)
    assert (low["weight_decay"], high["weight_decay"]) == (5e-4, 0.0)
    assert len(high["params"]) == 2 * 3  # W, its bias, and M of two layers


def make_schedule(name: str, warmup: int) -> tuple[torch.optim.Optimizer, LearningRateSchedule]:
    config = OptimizerConfig(lr=0.013, cp_lr=0.007, schedule=name, warmup=warmup)
    optimizer = make_optimizer(small_model(), config)
    return optimizer, LearningRateSchedule(optimizer, config, 30)


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("warmup", [0, 7])
@pytest.mark.parametrize("name", ["constant", "cosine", "plateau"])
def test_learning_rates_have_the_recorded_bits(name, warmup, resumed):
    recorded = json.loads(Path(__file__).with_name("learning_rates.json").read_text())[f"{name}-{warmup}"]
    optimizer, schedule = make_schedule(name, warmup)
    found = []
    for epoch in range(30):
        schedule.set_learning_rate(epoch)
        found.append([group["lr"] for group in optimizer.param_groups])
        schedule.observe_validation_loss(1 / (epoch + 1) if epoch < 5 else 0.25 + epoch % 3)
        if resumed:  # continue every epoch from a checkpoint
            state = json.loads(json.dumps(schedule.state_dict()))
            optimizer, schedule = make_schedule(name, warmup)
            schedule.load_state_dict(state)
    assert found == recorded


# ---- diagnostics -----------------------------------------------------------------------------------------------


def test_a_saturated_layer_is_detected_and_gives_advice():
    model, products = small_model(), {}
    with torch.no_grad():
        model.convs[0].cp.lin.bias.fill_(100.0)
    with observe_products(model, products):
        model(torch.zeros(3, 4), EDGES)
    found = product_statistics(products)
    assert set(found) == {f"{state}/convs.{i}.cp" for state in ("saturated", "vanished") for i in (0, 1)}
    assert found["saturated/convs.0.cp"] == 1.0
    assert "convs.0.cp are saturated" in advice(found)
    assert "factors=weighted" in advice({"vanished/x": 1.0})
    assert advice({"saturated/x": 0.5, "vanished/x": 0.1}) is None
    assert all(module.product_hook is None for module in model.modules() if hasattr(module, "product_hook"))


def test_branch_weights_and_gradient_norms():
    model = small_model()
    assert branch_weights(model) == {f"a_{branch}/convs.{i}": 0.5 for i in (0, 1) for branch in ("high", "low")}
    assert branch_weights(small_model("sum")) == {}
    model(torch.randn(3, 4), EDGES).sum().backward()
    norms = gradient_norms(model)
    expected = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    assert torch.tensor([norms["gradient"], norms["gradient/product"]]).norm() == pytest.approx(float(expected))


# ---- weights on disk -------------------------------------------------------------------------------------------


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    write_tensors(tmp_path / "old.safetensors", {"a": torch.ones(2)}, {})

    def full(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(OSError, match="No space"):
        write_tensors(tmp_path / "old.safetensors", {"a": torch.zeros(2)}, {})
    assert read_tensors(tmp_path / "old.safetensors").tensors["a"].tolist() == [1, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["old.safetensors"]


def test_weights_of_another_model_are_refused(tmp_path):
    model = small_model()
    weights = model.state_dict()
    for wrong, message in (
        ({}, 'Missing key.*"convs.0.cp.M"'),
        (weights | {"convs.0.cp.M": torch.ones(1)}, r"size mismatch for convs.0.cp.M: .*\[1\].*\[8, 4\]"),
        (weights | {"zzz": torch.ones(1)}, 'Unexpected key.*"zzz"'),
    ):
        with pytest.raises(CheckpointError, match=f"w.safetensors belongs to another model: {message}"):
            load_weights(model, wrong, tmp_path / "w.safetensors")
    (tmp_path / "x.safetensors").write_bytes(b"garbage")
    with pytest.raises(CheckpointError, match="x.safetensors is damaged, or not a file of tgnn"):
        read_tensors(tmp_path / "x.safetensors")
    with pytest.raises(FileNotFoundError, match="none.safetensors"):
        read_tensors(tmp_path / "none.safetensors")
