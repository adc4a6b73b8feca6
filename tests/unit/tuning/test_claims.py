"""One worker has a place, and another gets it when the first is dead."""

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
from tgnn.tuning.outcome import trials_of
from tgnn.tuning.storage import Shared
from tgnn.tuning.work import work


@pytest.fixture
def workers(url):
    """Three of one study."""
    name = uuid.uuid4().hex
    opened = [Shared(url, name, "maximize", {}) for _ in range(3)]
    yield opened
    for shared in opened:
        shared.close()


def test_a_place_is_taken_once(workers):
    def take_all(shared: Shared) -> list[int]:
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
    first.put_back(7)  # of another: nothing happens
    assert second.keep(7)
    assert not first.keep(7)


def sign_of_life(shared: Shared, before: int = 0) -> int:
    """Of place 0, as the database has it; made to be so many seconds older."""
    with shared._storage.engine.begin() as connection:
        connection.execute(text("update tgnn_claims set beat = beat - :before"), {"before": before})
        return int(connection.scalar(text("select max(beat) from tgnn_claims")))


def test_the_place_of_one_who_gives_no_sign_of_life_is_taken(workers):
    first, second, third = (shared.claims for shared in workers)
    assert first.take(0) == 0
    sign_of_life(workers[0], claims.GRACE + 1)
    assert first.held() == set()
    with ThreadPoolExecutor(2) as pool:
        taken = list(pool.map(lambda other: other.take(0), (second, third)))
    assert sorted(taken, key=str) == [1, None]
    assert not first.keep(0)


def test_one_who_works_gives_signs_of_life(workers, monkeypatch):
    monkeypatch.setattr(claims, "BEAT", 0.05)
    workers[0].claims.take(0)
    old = sign_of_life(workers[0], 10)
    with workers[0].claims.keeping(0):
        until = time.monotonic() + 30
        while sign_of_life(workers[1]) < old + 10:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_one_who_slept_does_not_tell_what_another_does(workers, monkeypatch):
    plan, (first, second, _) = small_plan(trials=1, splits=1), workers
    awake = threading.Event()

    def slow(config, tell):
        if threading.current_thread() is not threading.main_thread():
            awake.wait(20)
        return 0.5

    monkeypatch.setattr("tgnn.tuning.work.validation_score", slow)
    monkeypatch.setattr(claims, "BEAT", 100)  # no sign of life
    sleeper = threading.Thread(target=work, args=(first, plan))
    sleeper.start()
    while not first.claims.held():
        time.sleep(0.05)
    sign_of_life(first, claims.GRACE + 1)
    work(second, plan)
    awake.set()
    sleeper.join()
    assert len(second.study.get_trials()) == 1
    assert trials_of(second)[0].score == 0.5


def test_a_trial_that_kills_is_given_up(workers):
    plan = small_plan(trials=2, splits=1, epochs=1)
    for shared in workers:
        assert shared.claims.take(1) is not None
        sign_of_life(shared, claims.GRACE + 1)
    work(workers[0], plan)
    first, second = trials_of(workers[0])
    assert first.state == "complete"
    assert (second.state, second.reason) == ("failed", "its worker was killed, 3 times")
    assert set(second.values) == set(plan.space)


def test_many_workers_do_every_place_once(workers, monkeypatch):
    counted = []
    real = score.validation_score

    def count(config, tell):
        counted.append(config)
        return real(config, tell)

    monkeypatch.setattr("tgnn.tuning.work.validation_score", count)
    plan = small_plan(trials=9, splits=1, epochs=1, together=5)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda shared: work(shared, plan), workers))
    assert [trial.number for trial in trials_of(workers[0])] == list(range(9))
    assert len(workers[0].study.get_trials()) == len(counted) == 9
    assert workers[0].claims.held() == set()
