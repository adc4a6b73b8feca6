"""One process with the same seed gives the same trials, also if the search is interrupted and resumed."""

from __future__ import annotations

import os
import pickle
import signal
from dataclasses import replace

import pytest

from tests.unit.tuning.conftest import comparable, small_plan
from tgnn.training.config import Config
from tgnn.training.interrupts import Interrupted
from tgnn.tuning.results import STUDY_FILE, StudyResult
from tgnn.tuning.storage import StudyError
from tgnn.tuning.study import tune

TRIALS = 14
"""Optuna's sampler draws the first 10 trials at random. The others depend on the scores of earlier trials."""


@pytest.fixture(scope="module")
def at_once(tmp_path_factory) -> StudyResult:
    return tune(small_plan(trials=TRIALS), tmp_path_factory.mktemp("at-once"))


def test_again(at_once, tmp_path):
    again = tune(small_plan(trials=TRIALS), tmp_path)
    assert comparable(again) == comparable(at_once)
    assert again.importance == at_once.importance == {}  # 14 trials are too few
    assert len({str(trial.params) for trial in again.trials}) > 5


@pytest.mark.slow
def test_two_processes_share_the_trials(at_once, tmp_path):
    """The trials may differ from those of one process, but all are run, and trial 0 is the same."""
    shared = tune(small_plan(trials=TRIALS), tmp_path, jobs=2)
    assert [trial.number for trial in shared.trials] == list(range(TRIALS))
    assert shared.count("complete", "pruned") == TRIALS
    assert comparable(shared)[0] == comparable(at_once)[0]
    assert len({str(trial.params) for trial in shared.trials}) > 5


def test_stopped_between_trials_and_continued(at_once, tmp_path):
    def stop(result: StudyResult) -> None:
        if result.count("complete", "pruned") == 12:
            raise Interrupted

    with pytest.raises(Interrupted):
        tune(small_plan(trials=TRIALS), tmp_path, on_progress=stop)
    assert StudyResult.read(tmp_path / STUDY_FILE).count("complete", "pruned") == 12
    assert comparable(tune(small_plan(trials=TRIALS), tmp_path)) == comparable(at_once)


def test_stopped_in_a_trial_by_a_signal_and_continued(at_once, tmp_path):
    signals = iter([signal.SIGTERM])

    def stop(result: StudyResult) -> None:
        if len(result.trials) == 11:
            for number in signals:
                os.kill(os.getpid(), number)

    with pytest.raises(Interrupted):
        tune(small_plan(trials=TRIALS), tmp_path, on_progress=stop)
    assert len(StudyResult.read(tmp_path / STUDY_FILE).trials) == 11
    assert comparable(tune(small_plan(trials=TRIALS), tmp_path)) == comparable(at_once)


def test_with_fewer_trials_at_first(at_once, tmp_path):
    tune(small_plan(trials=3), tmp_path)
    assert comparable(tune(small_plan(trials=TRIALS), tmp_path)) == comparable(at_once)
    with pytest.raises(StudyError, match="already has 14 trials"):
        tune(small_plan(trials=2), tmp_path)


def test_another_seed_gives_others(at_once, tmp_path):
    other = tune(small_plan(trials=TRIALS, seed=1), tmp_path)
    assert comparable(other)[0] == comparable(at_once)[0]  # the recipe itself
    assert [row[2] for row in comparable(other)[1:]] != [row[2] for row in comparable(at_once)[1:]]


def test_the_first_trial_is_the_recipe(at_once):
    plan = small_plan(trials=TRIALS)
    first = plan.trial_config(at_once.trials[0].params)
    for section in ("data", "model", "optimizer"):
        assert getattr(first, section) == getattr(plan.config, section)
    assert [plan.trial_config(plan.initial_params, split).train.seed for split in (0, 1)] == [1000, 1001]


def with_name(config: Config, name: str) -> Config:
    return config.model_copy(update={"data": config.data.model_copy(update={"name": name})})


def test_a_plan_is_the_same_in_another_process_and_where_the_data_lies_elsewhere(tmp_path):
    plan = small_plan(space={"optimizer.lr": (0.1,), "train.num_neighbors": ((5, 5), None)}, seed=3)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan.trial_config({"optimizer.lr": 0.1, "train.num_neighbors": "=[5, 5]"}).train.num_neighbors == (5, 5)
    moved = [
        replace(plan, config=with_name(plan.config, str(tmp_path / name))) for name in ("a/friends", "b/friends", "c")
    ]
    assert moved[0].fingerprint == moved[1].fingerprint != moved[2].fingerprint
