"""Parts of training: held-out labels, features, schedules, diagnostics, history, checkpoints."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import time
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from tgnn import TGNN
from tgnn.data.load import load
from tgnn.data.transforms import scale_rows
from tgnn.models import DataShape, ModelError, build_model
from tgnn.training.checkpoint import (
    CheckpointError,
    Progress,
    load_checkpoint,
    load_weights,
    read_tensors,
    save_checkpoint,
)
from tgnn.training.config import OptimizerConfig, TrainConfig, make_config
from tgnn.training.diagnostics import advice, branch_weights, gradient_norms, observe_products, product_statistics
from tgnn.training.loaders import make_inference_batches, make_training_loader
from tgnn.training.loop import Trainer
from tgnn.training.metrics import find_best_epoch
from tgnn.training.optim import LearningRateSchedule, make_optimizer
from tgnn.training.parallel_runs import receive_logs
from tgnn.training.prepare import hold_out_test_labels, infer_shape, prepare
from tgnn.training.run_folder import CHECKPOINT, RunFolder, history_line
from tgnn.utils.io import write_tensors

CPU = torch.device("cpu")


# ---- labels ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["digits", "digits-graphs"])
def test_test_labels_are_held_out_and_read_once(name):
    data = load(name)
    truth = data.y[data.split.test].clone()
    prepared = hold_out_test_labels(data, data.split)
    assert bool((prepared.data.y[prepared.split.test] == -1).all())
    assert torch.equal(prepared.test_labels.read(), truth)
    with pytest.raises(RuntimeError, match="reads them once"):
        prepared.test_labels.read()


def test_the_hash_of_the_data_does_not_depend_on_the_split():
    one, other = (prepare(make_config({"data": {"name": "digits"}, "train": {"seed": seed}})) for seed in (0, 1))
    assert one.data_hash == other.data_hash
    assert one.split.hash != other.split.hash


def test_one_class_and_an_empty_validation_set_are_errors():
    data = load("karate")
    data.y[data.split.train] = 1
    with pytest.raises(ValueError, match="The training set of karate has examples of one class only"):
        hold_out_test_labels(data, data.split)
    none = torch.empty(0, dtype=torch.int64)
    with pytest.raises(ValueError, match="The validation set of karate is empty .* Label more examples"):
        hold_out_test_labels(data, dataclasses.replace(data.split, val=none))


# ---- features --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["row-sum", "row-l2"])
def test_sparse_and_dense_rows_are_scaled_equally(how):
    x = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 2.0]])
    dense, sparse = scale_rows(x, how), scale_rows(x.to_sparse_csr(), how).to_dense()
    assert torch.allclose(dense, sparse)
    assert torch.allclose(dense.norm(p=1.0 if how == "row-sum" else 2.0, dim=1), torch.tensor([1.0, 0.0, 1.0]))


def test_categories_are_counted():
    graphs = load("digits-graphs")
    assert infer_shape(graphs) == DataShape("graph", 3, None, 10)


def test_feature_scaling_needs_one_graph():
    with pytest.raises(ValueError, match="data.features=row-sum needs one graph"):
        prepare(make_config({"data": {"name": "digits-graphs", "features": "row-sum"}}))


# ---- batches ---------------------------------------------------------------------------------------------------


def seen(batches, epoch) -> list[list[int]]:
    return [piece.y.tolist() for piece in batches(epoch)]


def test_every_epoch_visits_each_graph_once_in_another_order():
    graphs = load("digits-graphs")
    graphs.y = torch.arange(len(graphs))
    batches = make_training_loader(graphs, graphs.split.train, TrainConfig(batch_size=100), CPU)
    first, second = seen(batches, 0), seen(batches, 1)
    assert first == seen(batches, 0)
    assert first != second
    assert sorted(chain(*first)) == sorted(graphs.split.train.tolist())
    assert [len(part) for part in first][:3] == [100, 100, 100]


def test_every_epoch_visits_each_seed_node_once():
    data = load("digits")
    data.y = torch.arange(data.num_nodes)
    settings = TrainConfig(batch_size=200, num_neighbors=(3, 3))
    batches = make_training_loader(data, data.split.train, settings, CPU)
    assert sorted(chain(*seen(batches, 0))) == sorted(data.split.train.tolist())
    assert seen(batches, 0) == seen(batches, 0)
    piece = next(batches(0))
    assert piece.data.num_nodes < data.num_nodes
    whole = list(make_inference_batches(data, data.split.val, settings.batch_size, CPU))
    assert len(whole) == 1
    assert whole[0][0].num_nodes == data.num_nodes


def test_batches_of_one_graph_need_sampling():
    data = load("digits")
    with pytest.raises(ValueError, match="train.batch_size needs train.num_neighbors"):
        make_training_loader(data, data.split.train, TrainConfig(batch_size=10), CPU)


# ---- optimizer -------------------------------------------------------------------------------------------------


def small_model(mix="scalar") -> TGNN:
    torch.manual_seed(0)
    return TGNN(4, 8, 2, 3, rank=4, mix=mix)


def test_the_product_branch_has_its_own_learning_rate():
    optimizer = make_optimizer(small_model(), OptimizerConfig(lr=0.1, cp_lr=0.2, cp_weight_decay=0.0))
    low, high = optimizer.param_groups
    assert (low["lr"], high["lr"]) == (0.1, 0.2)
    assert (low["weight_decay"], high["weight_decay"]) == (5e-4, 0.0)
    assert len(high["params"]) == 2 * 3  # W, its bias, and M of two layers


def test_schedules():
    def steps(**settings) -> list[float]:
        optimizer = make_optimizer(small_model(), OptimizerConfig(lr=1.0, cp_lr=2.0, **settings))
        schedule, found = LearningRateSchedule(optimizer, OptimizerConfig(lr=1.0, cp_lr=2.0, **settings), 10), []
        for epoch in range(10):
            schedule.set_learning_rate(epoch)
            assert optimizer.param_groups[1]["lr"] == pytest.approx(2 * optimizer.param_groups[0]["lr"])
            found.append(optimizer.param_groups[0]["lr"])
            schedule.observe_validation_loss(1.0)
        return found

    assert steps() == [1.0] * 10
    assert steps(warmup=4)[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    cosine = steps(schedule="cosine", warmup=2)
    assert cosine[2] == 1.0
    assert sorted(cosine[2:], reverse=True) == cosine[2:]
    assert cosine[-1] < 0.05


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


def test_plateau_halves_the_learning_rate_and_restores_its_state():
    settings = OptimizerConfig(lr=1.0, schedule="plateau")
    optimizer = make_optimizer(small_model(), settings)
    schedule = LearningRateSchedule(optimizer, settings, 100)
    for epoch in range(13):
        schedule.set_learning_rate(epoch)
        schedule.observe_validation_loss(1.0)
    schedule.set_learning_rate(13)
    assert optimizer.param_groups[0]["lr"] == 0.5
    other = LearningRateSchedule(make_optimizer(small_model(), settings), settings, 100)
    other.load_state_dict(schedule.state_dict())
    assert other.state_dict() == schedule.state_dict()


# ---- diagnostics ----------------------------------------------------------------------------------------------------

EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


def test_products_are_observed_inside_the_context_only():
    model = small_model()
    products = {}
    with observe_products(model, products):
        model(torch.randn(3, 4), EDGES)
    found = product_statistics(products)
    assert set(found) == {f"{what}/convs.{i}.cp" for what in ("saturated", "vanished") for i in (0, 1)}
    assert all(module.product_hook is None for module in model.modules() if hasattr(module, "product_hook"))


def test_a_saturated_layer_is_detected_and_gives_advice():
    model = small_model()
    with torch.no_grad():
        model.convs[0].cp.lin.bias.fill_(100.0)
    products = {}
    with observe_products(model, products):
        model(torch.zeros(3, 4), EDGES)
    found = product_statistics(products)
    assert found["saturated/convs.0.cp"] == 1.0
    assert "convs.0.cp are saturated" in advice(found)
    assert "factors=weighted" in advice({"vanished/x": 1.0})
    assert advice({"saturated/x": 0.5, "vanished/x": 0.1}) is None


def test_branch_weights_and_gradient_norms():
    model = small_model()
    assert branch_weights(model) == {f"a_{w}/convs.{i}": 0.5 for i in (0, 1) for w in ("high", "low")}
    assert branch_weights(small_model("sum")) == {}
    model(torch.randn(3, 4), EDGES).sum().backward()
    norms = gradient_norms(model)
    every = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    assert torch.tensor([norms["gradient"], norms["gradient/product"]]).norm() == pytest.approx(float(every))


# ---- history and checkpoints -----------------------------------------------------------------------------------


def test_history_keeps_the_epochs_before_the_checkpoint(tmp_path):
    folder = RunFolder(tmp_path)
    with folder.open_history() as history:
        history.writelines(history_line({"epoch": epoch}) for epoch in range(5))
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('{"epoch": 5, "lo')  # killed in the middle of a line
    assert len(folder.history()) == 5
    folder.open_history(keep=3).close()
    assert folder.history() == [{"epoch": 0}, {"epoch": 1}, {"epoch": 2}]


def step(model, optimizer) -> None:
    optimizer.zero_grad()
    model(torch.ones(3, 4), EDGES).square().sum().backward()
    optimizer.step()


def test_a_checkpoint_restores_the_model_and_the_optimizer(tmp_path):
    model, other = small_model(), small_model()
    optimizer = make_optimizer(model, OptimizerConfig())
    for _ in range(3):
        step(model, optimizer)
    best = copy.deepcopy(model.state_dict())
    progress = Progress(epoch=3, best_epoch=2, best_score=0.5, best_loss=1.5, seconds=2.0)
    save_checkpoint(tmp_path / CHECKPOINT, model, best, optimizer, progress)
    fresh = make_optimizer(other, OptimizerConfig())
    again, found = load_checkpoint(tmp_path / CHECKPOINT, other, fresh)
    assert found == progress
    for name, tensor in best.items():
        assert torch.equal(again[name], tensor)
    step(model, optimizer)
    step(other, fresh)
    for one, two in zip(model.state_dict().values(), other.state_dict().values()):
        assert torch.equal(one, two)


def test_a_failed_write_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    write_tensors(tmp_path / CHECKPOINT, {"a": torch.ones(2)}, {})

    def full(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(OSError, match="No space"):
        write_tensors(tmp_path / CHECKPOINT, {"a": torch.zeros(2)}, {})
    assert read_tensors(tmp_path / CHECKPOINT)[0]["a"].tolist() == [1, 1]
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_weights_of_another_model_are_refused(tmp_path):
    model = small_model()
    weights = model.state_dict()
    with pytest.raises(CheckpointError, match="belongs to another model: it has no weight convs.0"):
        load_weights(model, {}, tmp_path)
    with pytest.raises(CheckpointError, match=r"convs.0.cp.M has shape \[1\], but the model expects \[8, 4\]"):
        load_weights(model, weights | {"convs.0.cp.M": torch.ones(1)}, tmp_path)
    with pytest.raises(CheckpointError, match="which has no weight zzz"):
        load_weights(model, weights | {"zzz": torch.ones(1)}, tmp_path)
    (tmp_path / "x.safetensors").write_bytes(b"garbage")
    with pytest.raises(CheckpointError, match="is damaged, or not a file of tgnn"):
        read_tensors(tmp_path / "x.safetensors")
    with pytest.raises(FileNotFoundError, match="is missing: the run was not finished"):
        read_tensors(tmp_path / "none.safetensors")


def test_log_records_of_other_processes_are_handled():
    records = []
    logger = logging.getLogger("tgnn.records")
    logger.handlers = [logging.NullHandler()]
    logger.handlers[0].handle = records.append
    with receive_logs(get_context("spawn")) as queue:
        queue.put(logging.makeLogRecord({"name": "tgnn.records", "levelno": logging.WARNING, "msg": "odd"}))
    assert [record.getMessage() for record in records] == ["odd"]


def test_a_locked_log_queue_does_not_block():
    """A process that is killed while it writes a record keeps the lock of the queue."""
    started = time.monotonic()
    with receive_logs(get_context("spawn")) as queue:
        queue._wlock.acquire()
    assert time.monotonic() - started < 10
    queue._wlock.release()


# ---- models by name --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("tgn", {}, "unknown model 'tgn'; did you mean tgnn"),
        ("tgnn", {"rnak": 3}, "unknown hyperparameter model.rnak of tgnn; did you mean model.rank"),
        ("tgnn", {"rank": -1}, "rank"),
    ],
)
def test_invalid_models_are_errors(name, arguments, message):
    with pytest.raises((ModelError, ValueError), match=message):
        build_model(name, DataShape("node", 4, None, 2), 8, 2, 0.0, arguments)
    with pytest.raises(ModelError, match="needs node features"):
        build_model("tgnn", DataShape("node", None, None, 2), 8, 2, 0.0, {})


@pytest.mark.parametrize("by", ["metric", "loss"])
def test_the_best_epoch_is_selected_by_metric_or_loss(by):
    config = make_config(
        {"data": {"name": "karate"}, "train": {"epochs": 60, "select_by": by}, "optimizer": {"lr": 0.05}}
    )
    prepared, lines = prepare(config), []
    torch.manual_seed(0)
    model = build_model("tgnn", prepared.shape, 8, 2, 0.5, {"rank": 4})
    _, progress = Trainer(model, prepared, config).fit(on_epoch=lambda epoch: lines.append(epoch.record))
    loss, accuracy = [line["val_loss"] for line in lines], [line["val_accuracy"] for line in lines]
    by_loss = min(range(60), key=loss.__getitem__)
    by_metric = max(range(60), key=lambda epoch: (accuracy[epoch], -loss[epoch]))
    assert by_loss != by_metric
    assert progress.best_epoch == (by_loss if by == "loss" else by_metric)
    assert find_best_epoch(lines, "accuracy", by) == progress.best_epoch + 1


def test_default_options_do_not_change_the_hash():
    for key, usual, other in (("select_by", "metric", "loss"), ("prior_correction", "none", "validation")):
        assert make_config({}).hash == make_config({"train": {key: usual}}).hash
        assert make_config({}).hash != make_config({"train": {key: other}}).hash


@pytest.mark.parametrize("name", ["gcn", "gat", "graphsage", "tgnn"])
def test_jumping_knowledge_with_sampled_neighbors(name):
    train = {"epochs": 2, "num_neighbors": (2, 2, 2), "batch_size": 8}
    config = make_config({"data": {"name": "karate"}, "model": {"name": name, "num_layers": 3}, "train": train})
    prepared = prepare(config)
    model = build_model(name, prepared.shape, 8, 3, 0.0, {"jk": "cat"})
    _, progress = Trainer(model, prepared, config).fit()
    assert progress.epoch == 2
