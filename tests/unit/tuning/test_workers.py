"""Workers that share a study: every trial runs once, and the trial of a worker that died is retried."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import optuna
import pytest
from optuna.trial import TrialState
from sqlalchemy import text

from tests.unit.tuning.small import small_plan
from tgnn.training.interrupts import Interrupted
from tgnn.tuning import storage
from tgnn.tuning.search_plan import SearchPlan
from tgnn.tuning.shared_study import SharedStudy
from tgnn.tuning.study import read_result
from tgnn.tuning.workers import Worker


@pytest.fixture
def workers(url):
    """Three workers of one study."""
    name = uuid.uuid4().hex
    opened = [SharedStudy(url, name, "maximize", {}) for _ in range(3)]
    yield opened
    for shared in opened:
        shared.close()


@pytest.fixture(autouse=True)
def scores(monkeypatch) -> list[float]:
    """Replace training by a function that returns the learning rate, and collect its results."""
    collected: list[float] = []

    def score(config, on_epoch):
        on_epoch(0, config.optimizer.lr)
        collected.append(config.optimizer.lr)
        return config.optimizer.lr

    monkeypatch.setattr("tgnn.tuning.objective.validation_score", score)
    return collected


def run(shared: SharedStudy, plan: SearchPlan) -> None:
    """Run a worker to its end."""
    Worker(shared, plan, threading.Event()).run()


def age_heartbeats(shared: SharedStudy) -> None:
    """Move all heartbeats back in time, so that their trials are stale."""
    seconds = storage.GRACE_SECONDS + 1
    change = f"datetime(heartbeat, '-{seconds} seconds')"
    if shared._storage.engine.name == "postgresql":
        change = f"heartbeat - interval '{seconds} seconds'"
    with shared._storage.engine.begin() as connection:
        connection.execute(text(f"update trial_heartbeats set heartbeat = {change}"))


def start_and_die(shared: SharedStudy, plan: SearchPlan, with_heartbeat: bool = True) -> int:
    """Start a trial and leave it, as a worker does that is killed. Return its number in Optuna."""
    shared.queue_trial(plan)
    trial = shared.search.ask()
    for key, values in plan.space.items():
        trial.suggest_categorical(key, values)
    if with_heartbeat:
        shared._storage.record_heartbeat(trial._trial_id)
        age_heartbeats(shared)
    return trial.number


@pytest.mark.filterwarnings("ignore:Heartbeat of storage:UserWarning")
def test_a_trial_of_a_dead_worker_is_retried(workers, empty_result):
    plan = small_plan(trials=3, splits=1)
    run(workers[0], small_plan(trials=1, splits=1))
    dead = start_and_die(workers[1], plan)
    params = dict(workers[1].search.trials[dead].params)
    run(workers[0], plan)
    trials = read_result(workers[0], plan, empty_result).trials
    assert [(trial.number, trial.state) for trial in trials] == [(0, "complete"), (1, "complete"), (2, "complete")]
    assert dict(trials[1].params) == params
    assert [trial.state.name for trial in workers[0].search.trials].count("FAIL") == 1


@pytest.mark.filterwarnings("ignore:Heartbeat of storage:UserWarning")
def test_a_worker_that_dies_before_its_first_heartbeat(workers, empty_result, monkeypatch):
    plan = small_plan(trials=1, splits=1)
    start_and_die(workers[1], plan, with_heartbeat=False)
    send_heartbeats = SharedStudy.send_heartbeats

    def send_and_age(shared, trials):
        send_heartbeats(shared, trials)
        age_heartbeats(shared)

    monkeypatch.setattr(SharedStudy, "send_heartbeats", send_and_age)
    run(workers[0], plan)
    assert [trial.state for trial in read_result(workers[0], plan, empty_result).trials] == ["complete"]


@pytest.mark.filterwarnings("ignore:Heartbeat of storage:UserWarning")
def test_a_trial_whose_workers_die_three_times_fails(workers, empty_result):
    plan = small_plan(trials=2, splits=1)
    for shared in workers:
        start_and_die(shared, plan)
        optuna.storages.fail_stale_trials(shared.search)
    run(workers[0], plan)
    first, second = read_result(workers[0], plan, empty_result).trials
    assert (first.state, first.reason) == ("failed", "its worker died 3 times")
    assert set(first.params) == set(plan.space)
    assert second.state == "complete"


def test_an_interrupt_does_not_count_as_a_death(workers, empty_result, monkeypatch):
    plan, stop = small_plan(trials=1, splits=1), threading.Event()

    def score(config, on_epoch):
        stop.set()
        on_epoch(0, 0.5)

    for _ in range(5):
        with monkeypatch.context() as patch:
            patch.setattr("tgnn.tuning.objective.validation_score", score)
            with pytest.raises(Interrupted):
                Worker(workers[0], plan, stop).run()
        stop.clear()
    assert [trial.state for trial in workers[0].trials().values()] == [TrialState.WAITING]
    assert read_result(workers[0], plan, empty_result).trials == []
    run(workers[0], plan)
    assert [trial.state for trial in read_result(workers[0], plan, empty_result).trials] == ["complete"]


def test_a_worker_without_heartbeats_stores_nothing(workers, empty_result, monkeypatch):
    """A worker that sleeps for too long, such as a suspended laptop, loses its trial to another worker."""
    plan, (sleeper, other, _) = small_plan(trials=1, splits=1), workers
    awake = threading.Event()

    def score(config, on_epoch):
        if threading.current_thread() is not threading.main_thread():
            awake.wait(20)
            return 0.1
        return 0.5

    monkeypatch.setattr("tgnn.tuning.objective.validation_score", score)
    sleeper._storage.heartbeat_interval = 100
    with ThreadPoolExecutor(1) as pool:
        asleep = pool.submit(run, sleeper, plan)
        while not other.search.get_trials(states=(TrialState.RUNNING,)):
            time.sleep(0.05)
        time.sleep(0.5)
        age_heartbeats(other)
        run(other, plan)
        awake.set()
        asleep.result()
    assert [trial.score for trial in read_result(other, plan, empty_result).trials] == [0.5]


def test_heartbeats(workers, monkeypatch):
    """A trial that takes longer than the grace period is not retried while its worker is alive."""
    plan, ended = small_plan(trials=1, splits=1), threading.Event()

    def score(config, on_epoch):
        ended.wait(30)
        return 0.5

    monkeypatch.setattr("tgnn.tuning.objective.validation_score", score)
    for shared in workers:
        shared._storage.heartbeat_interval, shared._storage.grace_period = 1, 3
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, workers[0], plan)
        for _ in range(10):
            time.sleep(0.5)
            optuna.storages.fail_stale_trials(workers[1].search)
        ended.set()
        running.result()
    assert [trial.state.name for trial in workers[1].search.trials] == ["COMPLETE"]


def test_every_trial_runs_once(workers, empty_result, scores):
    plan = small_plan(trials=9, splits=1, finals=3)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda shared: run(shared, plan), workers))
    result = read_result(workers[0], plan, empty_result)
    assert [trial.number for trial in result.trials] == list(range(9))
    assert result.count("complete", "pruned") == 9
    finals = [trial.number for trial in result.finals]
    assert len(finals) == len(set(finals)) == len(workers[0].finalists(plan))
    assert result.finals_left == 0
    complete = result.count("complete") + sum(len(trial.scores) for trial in result.finals)
    assert complete <= len(scores) <= complete + result.count("pruned")


def test_surplus_trials_are_left_out(workers, empty_result, scores, monkeypatch):
    """Two workers may start the last trial at the same time, because both read the study before either starts it."""
    plan = small_plan(trials=2, splits=1)
    run(workers[0], plan)
    answers = iter([True])
    monkeypatch.setattr(workers[1], "queue_trial", lambda plan: next(answers, False))
    run(workers[1], plan)
    assert len(workers[0].search.trials) == 3
    assert len(scores) == 2
    assert [trial.number for trial in read_result(workers[0], plan, empty_result).trials] == [0, 1]
    run(workers[0], small_plan(trials=4, splits=1))
    trials = read_result(workers[0], small_plan(trials=4, splits=1), empty_result).trials
    assert [trial.number for trial in trials] == [0, 1, 2, 3]


def test_a_final_evaluation_that_two_workers_queue_runs_once(workers, empty_result, scores, monkeypatch):
    plan = small_plan(trials=1, splits=1, finals=1)
    run(workers[0], small_plan(trials=1, splits=1))
    for shared in workers:
        monkeypatch.setattr(shared, "final_trials", dict)  # nobody has queued it yet
        shared.queue_final(plan)
        monkeypatch.undo()
    scores.clear()
    monkeypatch.setattr("tgnn.tuning.objective.validation_score", lambda config, on_epoch: scores.append(0.5) or 0.5)
    run(workers[0], plan)
    assert len(scores) == len(plan.final_splits)
    result = read_result(workers[0], plan, empty_result)
    assert [(trial.number, trial.score) for trial in result.finals] == [(0, 0.5)]
