"""Trials that are pruned, fail or are the best, and the final evaluation."""

from __future__ import annotations

import math

import pytest

from tests.unit.tuning.conftest import comparable, small_plan
from tgnn.training import metrics
from tgnn.tuning.results import RECIPE_FILE, STUDY_FILE, StudyFileError, StudyResult
from tgnn.tuning.storage import StudyError
from tgnn.tuning.study import tune

RATES = {"optimizer.lr": (0.01, 0.1, 0.2, 0.3, 0.4)}


def scored(monkeypatch, value):
    """Replace training by a function that returns the score of a configuration."""

    def score(config, on_epoch):
        result = value(config)
        for epoch in range(config.train.epochs):
            on_epoch(epoch, result)
        return result

    monkeypatch.setattr("tgnn.tuning.objective.validation_score", score)


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_trials_worse_than_the_median_are_pruned(monkeypatch, tmp_path, higher_is_better):
    scored(monkeypatch, lambda config: config.optimizer.lr)
    monkeypatch.setitem(metrics.HIGHER_IS_BETTER, "accuracy", higher_is_better)
    result = tune(small_plan(space=RATES, trials=30), tmp_path)
    assert set(result.importance) == set(RATES)
    pruned = [trial for trial in result.trials if trial.state == "pruned"]
    rates = [trial.params["optimizer.lr"] for trial in result.trials]
    assert len(pruned) > 2
    assert all(trial.number >= 5 and trial.score is None for trial in pruned)
    assert result.best.score == (max(rates) if higher_is_better else min(rates))
    assert result.best not in pruned
    assert result.best.number == min(t.number for t in result.trials if t.score == result.best.score)
    for trial in StudyResult.read(tmp_path / STUDY_FILE).trials:
        assert trial.last_score == (trial.params["optimizer.lr"] if trial.state == "pruned" else None)


def test_the_files_are_written_after_every_trial(monkeypatch, tmp_path):
    seen = []

    def value(config):
        path = tmp_path / STUDY_FILE
        seen.append(len(StudyResult.read(path).trials) if path.exists() else 0)
        return config.optimizer.lr

    scored(monkeypatch, value)
    result = tune(small_plan(trials=4, splits=1), tmp_path)
    assert seen == [0, 1, 2, 3]
    assert StudyResult.read(tmp_path / STUDY_FILE).importance == result.importance


def test_real_training_is_pruned_too(tmp_path):
    space = {"optimizer.lr": (1e-5, 0.05), "model.hidden_channels": (1, 32)}
    result = tune(small_plan("digits", space=space, trials=12, epochs=10, splits=1), tmp_path)
    pruned = [trial for trial in result.trials if trial.state == "pruned"]
    assert pruned
    assert result.best.score > 0.7
    assert all(trial.last_score < result.best.score for trial in pruned)


def test_a_failed_trial_keeps_its_error_and_the_search_continues(monkeypatch, tmp_path):
    def value(config):
        if config.model.hidden_channels == 4:
            raise IndexError("too small")
        return math.nan if config.model.hidden_channels == 8 else 0.5

    scored(monkeypatch, value)
    result = tune(small_plan(trials=20), tmp_path)
    assert result.best.params["model.hidden_channels"] == 16
    reasons = {trial.params["model.hidden_channels"]: trial.reason for trial in result.trials}
    assert reasons == {4: "too small", 8: "the validation metric is not finite", 16: ""}
    assert result.count("failed") == sum(trial.params["model.hidden_channels"] < 16 for trial in result.trials)
    assert comparable(StudyResult.read(tmp_path / STUDY_FILE)) == comparable(result)


def test_the_first_error_is_reported_if_all_trials_fail(monkeypatch, tmp_path):
    scored(monkeypatch, lambda config: 1 // 0)
    with pytest.raises(StudyError, match="none of 3 trials finished, first error: integer division"):
        tune(small_plan(trials=3), tmp_path)
    assert not (tmp_path / RECIPE_FILE).exists()


def test_an_error_of_the_machine_ends_the_search(monkeypatch, tmp_path):
    def full(config):
        raise OSError(28, "No space left on device")

    scored(monkeypatch, full)
    with pytest.raises(OSError, match="No space"):
        tune(small_plan(trials=3), tmp_path)
    scored(monkeypatch, lambda config: 0.5)
    assert tune(small_plan(trials=3), tmp_path).count("complete") == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is damaged"),
        ("[]", "is not a study"),
        ('{"kind": "run"}', "is not a study"),
        ('{"kind": "study"}', "is damaged: name is missing"),
        ('{"kind": "study", "trials": [{"number": 1}]}', "is damaged"),
        ('{"kind": "study", "trials": [3]}', "is damaged"),
        ('{"kind": "study", "trials": []}', "is damaged"),
        (b"\xff\xfe\x00", "is not a UTF-8 text file"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, text, message):
    path = tmp_path / STUDY_FILE
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(StudyFileError, match=message) as found:
        StudyResult.read(path)
    assert str(path) in str(found.value)


def lucky(config):
    """Score that grows with the learning rate on the splits of the search, and falls on all others."""
    seen = config.train.seed < 1002
    return config.optimizer.lr if seen else -config.optimizer.lr


def test_the_best_trials_are_evaluated_again_on_new_splits(monkeypatch, tmp_path):
    scored(monkeypatch, lucky)
    plan = small_plan(space=RATES, trials=20, splits=2, finals=3)
    states = []
    result = tune(plan, tmp_path, on_progress=states.append)
    tried = sorted({trial.params["optimizer.lr"] for trial in result.trials if trial.state == "complete"})
    start = plan.initial_params["optimizer.lr"]
    assert start not in tried[-3:]
    assert [trial.score for trial in result.final_ranking] == [-lr for lr in (start, *tried[-3:])]
    assert all(len(trial.scores) == 5 for trial in result.finals)  # the splits 2 to 6
    assert result.best.params["optimizer.lr"] == start
    assert len(result.trials) == 20
    header = (tmp_path / RECIPE_FILE).read_text().splitlines()
    assert header[0] == f"# Found by trial {result.best.number} of study karate-gcn (seed 0)"
    assert header[1] == (
        f"# Validation accuracy: {-start:.4f} in the final evaluation (best of 4 trials, mean over 5 new splits), "
        f"{start:.4f} in the search (20 trials, mean over 2 splits). Split protocol: stratified."
    )
    assert f"lr: {start:g}" in (tmp_path / RECIPE_FILE).read_text()
    again = StudyResult.read(tmp_path / STUDY_FILE)
    assert [trial.number for trial in again.final_ranking] == [trial.number for trial in result.final_ranking]
    assert again.best.number == result.best.number
    assert max(len(one.finals) for one in states) == 4


def test_a_final_evaluation_that_fails(monkeypatch, tmp_path):
    def score(config):
        if config.train.seed >= 1002 and config.optimizer.lr == 0.2:
            raise ValueError("the loss became nan")
        return lucky(config)

    scored(monkeypatch, score)
    result = tune(small_plan(space=RATES, trials=20, splits=2, finals=3), tmp_path)
    tried = sorted({trial.params["optimizer.lr"] for trial in result.trials if trial.state == "complete"})
    assert 0.2 in tried[-3:]
    expected = [0.01, *(lr for lr in tried[-3:] if lr != 0.2)]  # trial 0 is included
    assert [trial.params["optimizer.lr"] for trial in result.final_ranking] == expected
    assert result.best.params["optimizer.lr"] == expected[0] != tried[-1]
    assert result.finals_left == 0
    failed = [trial for trial in StudyResult.read(tmp_path / STUDY_FILE).finals if trial.state == "failed"]
    assert [(trial.params["optimizer.lr"], trial.reason) for trial in failed] == [(0.2, "the loss became nan")]


@pytest.mark.slow
def test_more_finals_than_before_evaluate_no_trial_twice(monkeypatch, tmp_path):
    evaluated = []

    def score(config):
        evaluated.extend([config.optimizer.lr] if config.train.seed >= 1002 else [])
        return lucky(config)

    scored(monkeypatch, score)
    for finals, count in ((1, 2), (3, 4), (9, 5)):  # trial 0 is always evaluated, and equal trials once
        result = tune(small_plan(space=RATES, trials=20, splits=2, finals=finals), tmp_path)
        assert all(trial.score == -trial.params["optimizer.lr"] for trial in result.finals)
        assert result.best.params["optimizer.lr"] == 0.01
        assert len(result.finals) == count
    assert "lr: 0.01" in (tmp_path / RECIPE_FILE).read_text()
    assert sorted(evaluated) == sorted(5 * [trial.params["optimizer.lr"] for trial in result.finals])  # each once


@pytest.mark.slow
def test_a_resumed_study_selects_its_finals_anew(monkeypatch, tmp_path):
    scored(monkeypatch, lucky)
    first = tune(small_plan(space=RATES, trials=4, splits=2, finals=2), tmp_path)
    assert len(first.finals) <= 3
    second = tune(small_plan(space=RATES, trials=20, splits=2, finals=2), tmp_path)
    whole = tune(small_plan(space=RATES, trials=20, splits=2, finals=2), tmp_path / "at once")
    assert [t.number for t in second.final_ranking] == [t.number for t in whole.final_ranking]
    assert len(second.trials) == 20
