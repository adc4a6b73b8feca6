"""Trial leases: one worker holds a trial, and another takes it over when the first dies."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from tests.unit.tuning.small import small_plan
from tgnn.tuning import claims
from tgnn.tuning import objective as score
from tgnn.tuning.run_trials import run_trials
from tgnn.tuning.storage import SharedStudy
from tgnn.tuning.summarize import read_trials


@pytest.fixture
def workers(url):
    """Three workers of one study."""
    name = uuid.uuid4().hex
    opened = [SharedStudy(url, name, "maximize", {}) for _ in range(3)]
    yield opened
    for shared in opened:
        shared.close()


def test_a_place_is_taken_once(workers):
    def take_all(shared: SharedStudy) -> list[int]:
        return [place for place in range(25) if shared.claims.take(place) is not None]

    with ThreadPoolExecutor(3) as pool:
        taken = [place for places in pool.map(take_all, workers) for place in places]
    assert sorted(taken) == list(range(25))
    assert workers[0].claims.held() == set(range(25))


def test_a_place_is_put_back(workers):
    first, second, _ = (shared.claims for shared in workers)
    first.take(7)
    with contextlib.suppress(KeyError), first.keeping(7):
        assert second.take(7) is None
        raise KeyError
    assert second.take(7) == 0
    first.put_back(7)  # held by another worker: ignored
    assert second.keep(7)
    assert not first.keep(7)


def last_heartbeat(shared: SharedStudy, before: int = 0) -> int:
    """Return the last heartbeat of place 0, after moving it back by some seconds."""
    with shared._storage.engine.begin() as connection:
        connection.execute(text("update tgnn_claims set beat = beat - :before"), {"before": before})
        return int(connection.scalar(text("select max(beat) from tgnn_claims")))


def test_an_expired_lease_is_taken_over(workers):
    first, second, third = (shared.claims for shared in workers)
    assert first.take(0) == 0
    last_heartbeat(workers[0], claims.GRACE + 1)
    assert first.held() == set()
    with ThreadPoolExecutor(2) as pool:
        taken = list(pool.map(lambda other: other.take(0), (second, third)))
    assert sorted(taken, key=str) == [1, None]
    assert not first.keep(0)


def test_heartbeats(workers, monkeypatch):
    monkeypatch.setattr(claims, "BEAT", 0.05)
    workers[0].claims.take(0)
    old = last_heartbeat(workers[0], 10)
    with workers[0].claims.keeping(0):
        until = time.monotonic() + 30
        while last_heartbeat(workers[1]) < old + 10:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_a_worker_with_an_expired_lease_stores_nothing(workers, monkeypatch):
    plan, (first, second, _) = small_plan(trials=1, splits=1), workers
    awake = threading.Event()

    def slow(config, on_epoch):
        if threading.current_thread() is not threading.main_thread():
            awake.wait(20)
        return 0.5

    monkeypatch.setattr("tgnn.tuning.run_trials.validation_score", slow)
    monkeypatch.setattr(claims, "BEAT", 100)  # no heartbeat
    sleeper = threading.Thread(target=run_trials, args=(first, plan))
    sleeper.start()
    while not first.claims.held():
        time.sleep(0.05)
    last_heartbeat(first, claims.GRACE + 1)
    run_trials(second, plan)
    awake.set()
    sleeper.join()
    assert len(second.study.get_trials()) == 1
    assert read_trials(second)[0].score == 0.5


def test_a_trial_whose_workers_die_fails(workers):
    plan = small_plan(trials=2, splits=1, epochs=1)
    for shared in workers:
        assert shared.claims.take(1) is not None
        last_heartbeat(shared, claims.GRACE + 1)
    run_trials(workers[0], plan)
    first, second = read_trials(workers[0])
    assert first.state == "complete"
    assert (second.state, second.reason) == ("failed", "its worker died 3 times")
    assert set(second.params) == set(plan.space)


def test_every_trial_runs_once(workers, monkeypatch):
    counted = []
    real = score.validation_score

    def count(config, on_epoch):
        counted.append(config)
        return real(config, on_epoch)

    monkeypatch.setattr("tgnn.tuning.run_trials.validation_score", count)
    plan = small_plan(trials=9, splits=1, epochs=1, together=5)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda shared: run_trials(shared, plan), workers))
    assert [trial.number for trial in read_trials(workers[0])] == list(range(9))
    assert len(workers[0].study.get_trials()) == len(counted) == 9
    assert workers[0].claims.held() == set()
