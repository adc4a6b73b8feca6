"""Prefetching in threads: order, errors and limits."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from tgnn.data.load import load
from tgnn.training.config import TrainConfig
from tgnn.training.loaders import TimedBatches, make_training_loader, prefetched


def others() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tgnn-prefetch")]


@pytest.mark.parametrize(("workers", "ahead"), [(0, 0), (1, 1), (3, 2), (3, 9), (2, 100)])
def test_items_are_in_order_and_not_too_far_ahead(workers, ahead):
    begun: list[int] = []

    def make(number: int) -> int:
        begun.append(number)
        time.sleep(0.002 * (number % 3))
        return number

    for wanted, found in enumerate(prefetched(make, 20, workers, ahead)):
        assert found == wanted
        assert max(begun) <= wanted + ahead
    assert sorted(begun) == list(range(20))
    assert not others()
    assert list(prefetched(make, 0, workers, ahead)) == []


def test_an_error_is_raised_at_its_position():
    def make(number: int) -> int:
        if number == 3:
            raise ValueError("no third")
        return number

    things = prefetched(make, 10, 2, 4)
    assert [next(things) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="no third"):
        next(things)
    assert not others()


def test_closing_early_cancels_the_rest():
    begun: list[int] = []
    things = prefetched(begun.append, 100, 2, 4)
    next(things)
    things.close()
    assert not others()
    assert len(begun) <= 6


def test_waiting_time_is_measured():
    def slow():
        for number in range(4):
            time.sleep(0.05)
            yield number

    idle, busy = TimedBatches(slow()), TimedBatches(iter(range(4)))
    for _ in idle:
        pass
    for _ in busy:
        time.sleep(0.05)
    assert idle.waiting_fraction > 0.8
    assert busy.waiting_fraction < 0.2


def test_threads_sample_the_same_batches():
    data = load("digits")
    data.edge_weight = torch.rand(data.num_edges)
    pieces = []
    for workers in (0, 3):
        settings = TrainConfig(batch_size=100, num_neighbors=(3, 3), workers=workers)
        pieces.append(list(make_training_loader(data, data.split.train, settings, torch.device("cpu"))(2)))
    for one, other in zip(*pieces, strict=True):
        assert torch.equal(one.y, other.y)
        for name in ("x", "edge_index", "n_id", "edge_weight"):
            assert torch.equal(one.data[name], other.data[name])
    nodes, edges = (pieces[0][0].data[name] for name in ("n_id", "edge_index"))
    ends = {tuple(pair): w for pair, w in zip(data.edge_index.t().tolist(), data.edge_weight.tolist())}
    found = zip(nodes[edges].t().tolist(), pieces[0][0].data.edge_weight.tolist())
    assert all(ends[tuple(pair)] == weight for pair, weight in found)
