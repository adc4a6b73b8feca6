"""Batches: each epoch visits every example once, and threads make the same batches ahead."""

from __future__ import annotations

import threading
import time
from itertools import chain

import pytest
import torch

from tgnn.data.load import load
from tgnn.data.positional_encodings import with_positional_encoding
from tgnn.training.config import TrainConfig
from tgnn.training.loaders import TimedBatches, make_inference_batches, make_training_loader, prefetched

CPU = torch.device("cpu")


@pytest.mark.parametrize(("name", "options"), [("digits-graphs", {}), ("digits", {"num_neighbors": (3, 3)})])
def test_every_epoch_visits_each_example_once_in_another_order(name, options):
    data = load(name)
    data.y = torch.arange(len(data.y))
    loader = make_training_loader(data, data.split.train, TrainConfig(batch_size=100, **options), CPU)
    first, again, second = ([batch.y.tolist() for batch in loader(epoch)] for epoch in (0, 0, 1))
    assert first == again != second
    assert sorted(chain(*first)) == sorted(chain(*second)) == sorted(data.split.train.tolist())
    assert [len(part) for part in first][:3] == [100, 100, 100]


def test_batches_of_one_graph_are_sampled_for_training_only():
    data = load("digits")
    with pytest.raises(ValueError, match="train.batch_size needs train.num_neighbors"):
        make_training_loader(data, data.split.train, TrainConfig(batch_size=10), CPU)
    config = TrainConfig(batch_size=10, num_neighbors=(3, 3))
    assert next(make_training_loader(data, data.split.train, config, CPU)(0)).data.num_nodes < data.num_nodes
    ((whole, rows),) = make_inference_batches(data, data.split.val, 10, CPU)
    assert whole.num_nodes == data.num_nodes
    assert torch.equal(rows, data.split.val)


def test_threads_sample_the_same_batches():
    data = load("digits")
    data.edge_weight = torch.rand(data.num_edges)
    batches = []
    for workers in (0, 3):
        config = TrainConfig(batch_size=100, num_neighbors=(3, 3), workers=workers)
        batches.append(list(make_training_loader(data, data.split.train, config, CPU)(2)))
    for one, other in zip(*batches, strict=True):
        assert torch.equal(one.y, other.y)
        for name in ("x", "edge_index", "n_id", "edge_weight"):
            assert torch.equal(one.data[name], other.data[name])
    batch = batches[0][0].data
    weights = {tuple(pair): weight for pair, weight in zip(data.edge_index.t().tolist(), data.edge_weight.tolist())}
    found = zip(batch.n_id[batch.edge_index].t().tolist(), batch.edge_weight.tolist())
    assert all(weights[tuple(pair)] == weight for pair, weight in found)


def is_prefetching() -> bool:
    return any(thread.name.startswith("tgnn-prefetch") for thread in threading.enumerate())


@pytest.mark.parametrize(("workers", "ahead"), [(0, 0), (1, 1), (3, 2), (2, 100)])
def test_items_are_made_ahead_in_order(workers, ahead):
    begun = []

    def make(number: int) -> int:
        begun.append(number)
        time.sleep(0.002 * (number % 3))
        return number

    for wanted, found in enumerate(prefetched(make, 20, workers, ahead)):
        assert found == wanted
        assert max(begun) <= wanted + ahead
    assert sorted(begun) == list(range(20))
    assert list(prefetched(make, 0, workers, ahead)) == []
    assert not is_prefetching()


def test_errors_are_raised_at_their_position_and_closing_cancels_the_rest():
    begun = []

    def make(number: int) -> int:
        begun.append(number)
        return [0, 1, 2][number]

    items = prefetched(make, 100, 2, 4)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(IndexError):
        next(items)
    items = prefetched(begun.append, 100, 2, 4)
    next(items)
    items.close()
    assert not is_prefetching()
    assert len(begun) <= 14


def test_waiting_time_is_measured(monkeypatch):
    now = 0.0

    def advance(batches):
        nonlocal now
        for batch in batches:
            now += 1.0
            yield batch

    monkeypatch.setattr("tgnn.training.loaders.time.perf_counter", lambda: now)
    idle, busy = TimedBatches(advance(range(4))), TimedBatches(iter(range(4)))
    assert (list(idle), idle.waiting_fraction) == ([0, 1, 2, 3], 1.0)
    assert (list(advance(busy)), busy.waiting_fraction) == ([0, 1, 2, 3], 0.0)


def test_signs_of_eigenvectors_are_drawn_anew_in_training():
    data = with_positional_encoding(load("digits-graphs")[:40], "laplacian", 4)
    data.y = torch.arange(40)
    loader = make_training_loader(data, torch.arange(40), TrainConfig(batch_size=40), CPU)
    signs = []
    for epoch in (0, 0, 1):
        batch = next(loader(epoch))
        stored = data.batch(batch.y).x
        assert torch.equal(batch.data.x[:, :-4], stored[:, :-4])
        assert torch.equal(batch.data.x.abs(), stored.abs())
        in_order = batch.y.argsort()
        changed = (batch.data.x * stored).sign()
        signs.append(torch.stack([changed[batch.data.batch == graph].sum(0) for graph in in_order.tolist()]))
    assert torch.equal(signs[0], signs[1])
    assert not torch.equal(signs[0], signs[2])
    (evaluated, _), *_ = make_inference_batches(data, None, 40, CPU)
    assert torch.equal(evaluated.x, data.x)
