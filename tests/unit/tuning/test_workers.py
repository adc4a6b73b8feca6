"""Workers that share a study: every trial runs once, and the trial of a worker that died is retried."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import optuna
import pytest
from optuna.study import StudyDirection
from optuna.trial import TrialState
from sqlalchemy import text

from tests.unit.tuning.conftest import small_plan
from tgnn.training.interrupts import Interrupted
from tgnn.tuning import storage
from tgnn.tuning.results import StudyResult, Trial
from tgnn.tuning.search_space import SearchPlan
from tgnn.tuning.study import read_result
from tgnn.tuning.workers import NUMBER, SharedStudy, Worker

pytestmark = pytest.mark.filterwarnings("ignore:Heartbeat of storage:UserWarning")


@pytest.fixture
def workers(url):
    """Three workers of one study."""
    name = uuid.uuid4().hex
    opened = [SharedStudy(url, name, StudyDirection.MAXIMIZE, {}) for _ in range(3)]
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


def result(shared: SharedStudy, plan: SearchPlan) -> StudyResult:
    names = ("study", "karate", "gcn", "accuracy")
    return read_result(shared, plan, StudyResult(*names, True, "stratified", 1, (), 1, {}, {}))


def states(trials: list[Trial]) -> list[tuple[int, str]]:
    return [(trial.number, trial.state) for trial in trials]


def age_heartbeats(shared: SharedStudy) -> None:
    """Move all heartbeats back in time, so that their trials are stale."""
    seconds = storage.GRACE_SECONDS + 1
    change = f"datetime(heartbeat, '-{seconds} seconds')"
    if shared.storage.engine.name == "postgresql":
        change = f"heartbeat - interval '{seconds} seconds'"
    with shared.storage.engine.begin() as connection:
        connection.execute(text(f"update trial_heartbeats set heartbeat = {change}"))


def start_and_die(shared: SharedStudy, plan: SearchPlan, with_heartbeat: bool = True) -> dict[str, object]:
    """Start a trial and leave it, as a worker does that is killed. Return its hyperparameters."""
    if not shared.search.get_trials(states=(TrialState.WAITING,)):
        number, params = shared.next_trial(plan)
        shared.search.enqueue_trial(dict(params), user_attrs={NUMBER: number})
    trial = shared.search.ask()
    for key, values in plan.space.items():
        trial.suggest_categorical(key, values)
    if with_heartbeat:
        shared.storage.record_heartbeat(trial._trial_id)
        age_heartbeats(shared)
    return trial.params


def test_a_trial_of_a_dead_worker_is_retried(workers):
    plan = small_plan(trials=3, splits=1)
    run(workers[0], small_plan(trials=1, splits=1))
    params = start_and_die(workers[1], plan)
    run(workers[0], plan)
    trials = result(workers[0], plan).trials
    assert states(trials) == [(0, "complete"), (1, "complete"), (2, "complete")]
    assert trials[1].params == params
    assert [trial.state.name for trial in workers[0].search.trials].count("FAIL") == 1


def test_a_worker_that_dies_before_its_first_heartbeat(workers, monkeypatch):
    plan, record_heartbeat = small_plan(trials=1, splits=1), workers[0].storage.record_heartbeat
    start_and_die(workers[1], plan, with_heartbeat=False)

    def record_and_age(trial_id):
        record_heartbeat(trial_id)
        age_heartbeats(workers[0])

    monkeypatch.setattr(workers[0].storage, "record_heartbeat", record_and_age)
    run(workers[0], plan)
    assert states(result(workers[0], plan).trials) == [(0, "complete")]


def test_a_trial_whose_workers_die_three_times_fails(workers):
    plan = small_plan(trials=2, splits=1)
    for shared in workers:
        start_and_die(shared, plan)
        optuna.storages.fail_stale_trials(shared.search)
    run(workers[0], plan)
    first, second = result(workers[0], plan).trials
    assert (first.state, first.reason) == ("failed", "its worker died 3 times")
    assert set(first.params) == set(plan.space)
    assert second.state == "complete"


def test_an_interrupt_does_not_count_as_a_death(workers, monkeypatch):
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
    assert result(workers[0], plan).trials == []  # it is queued again
    run(workers[0], plan)
    assert states(result(workers[0], plan).trials) == [(0, "complete")]


def test_an_interrupted_worker_that_was_considered_dead_does_not_queue_its_trial_twice(workers, monkeypatch):
    plan, stop, other = small_plan(trials=1, splits=1), threading.Event(), workers[1]

    def score(config, on_epoch):
        (running,) = other.search.get_trials(states=(TrialState.RUNNING,))
        other.storage.record_heartbeat(running._trial_id)
        age_heartbeats(other)
        optuna.storages.fail_stale_trials(other.search)  # queues the trial
        stop.set()
        on_epoch(0, 0.5)

    monkeypatch.setattr("tgnn.tuning.objective.validation_score", score)
    with pytest.raises(Interrupted):
        Worker(workers[0], plan, stop).run()
    assert [trial.state.name for trial in other.search.trials] == ["FAIL", "WAITING"]


def test_a_worker_without_heartbeats_stores_nothing(workers, monkeypatch):
    """A worker that sleeps for too long, such as a suspended laptop, loses its trial to another worker."""
    plan, (sleeper, other, _) = small_plan(trials=1, splits=1), workers
    awake = threading.Event()

    def score(config, on_epoch):
        if threading.current_thread() is not threading.main_thread():
            awake.wait()
            return 0.1
        return 0.5

    monkeypatch.setattr("tgnn.tuning.objective.validation_score", score)
    sleeper.storage.heartbeat_interval = 100
    with ThreadPoolExecutor(1) as pool:
        asleep = pool.submit(run, sleeper, plan)
        while not other.search.get_trials(states=(TrialState.RUNNING,)):
            time.sleep(0.05)
        time.sleep(0.5)
        age_heartbeats(other)
        try:
            run(other, plan)
        finally:
            awake.set()
        asleep.result()
    assert [trial.score for trial in result(other, plan).trials] == [0.5]


def test_heartbeats(workers, monkeypatch):
    """A trial is not retried while its worker is alive, because its heartbeat is renewed."""
    plan, ended = small_plan(trials=1, splits=1), threading.Event()

    def score(config, on_epoch):
        ended.wait()
        return 0.5

    def is_stale() -> bool:
        return bool(workers[1].storage._get_stale_trial_ids(workers[1].search._study_id))

    monkeypatch.setattr("tgnn.tuning.objective.validation_score", score)
    workers[0].storage.heartbeat_interval = 1
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, workers[0], plan)
        try:
            while not is_stale():
                age_heartbeats(workers[1])
            while is_stale():  # until the worker renews the heartbeat
                time.sleep(0.05)
        finally:
            ended.set()
        running.result()
    assert [trial.state.name for trial in workers[1].search.trials] == ["COMPLETE"]


def test_every_trial_runs_once(workers, scores):
    plan = small_plan(trials=9, splits=1, finals=3)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda shared: run(shared, plan), workers))
    found = result(workers[0], plan)
    assert [trial.number for trial in found.trials] == list(range(9))
    assert found.count("complete", "pruned") == 9
    assert [trial.number for trial in found.finals] == list(workers[0].finalists(plan))
    assert found.finals_left == 0
    complete = found.count("complete") + sum(len(trial.scores) for trial in found.finals)
    assert complete <= len(scores) <= complete + found.count("pruned")


def test_a_trial_that_two_workers_start_at_the_same_time_counts_once(workers, scores):
    plan = small_plan(trials=2, splits=1, finals=1)
    run(workers[0], small_plan(trials=1, splits=1))
    for _ in range(2):
        workers[1].search.enqueue_trial({}, user_attrs={NUMBER: 1})
    workers[1].search.enqueue_trial({})  # Optuna creates such a trial if another worker has taken the queued one
    for _ in range(2):
        workers[1].finals.enqueue_trial(dict(plan.initial_params), user_attrs={NUMBER: 0})
    run(workers[0], plan)
    found = result(workers[0], plan)
    assert [trial.number for trial in found.trials] == [0, 1]
    assert len(workers[0].search.trials) == 4
    assert [trial.number for trial in found.finals].count(0) == 1
    assert len(scores) == 2 + len(found.finals) * len(plan.final_splits)
    longer = small_plan(trials=4, splits=1)
    run(workers[0], longer)
    assert [trial.number for trial in result(workers[0], longer).trials] == [0, 1, 2, 3]
