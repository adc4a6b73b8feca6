"""Trials that are given up, that fail, and that win."""

from __future__ import annotations

import json
import math

import pytest

from tests.unit.tuning.small import small_plan, told
from tgnn.tuning.results import RECIPE, RESULT, ResultError, StudyResult, Trial
from tgnn.tuning.storage import StudyError
from tgnn.tuning.study import tune


def scored(monkeypatch, value):
    """In place of training: a score for each config, told after each fifth of the epochs."""

    def score(config, tell):
        found = value(config)
        for number in range(config.train.epochs):
            tell(number, found)
        return found

    monkeypatch.setattr("tgnn.tuning.work.validation_score", score)


def test_what_is_worse_than_half_is_pruned_and_is_never_the_best(monkeypatch, tmp_path):
    scored(monkeypatch, lambda config: config.optimizer.lr)
    plan = small_plan(space={"optimizer.lr": (0.01, 0.1, 0.2, 0.3, 0.4)}, trials=30, together=6)
    result = tune(plan, tmp_path)
    pruned = [trial for trial in result.trials if trial.state == "pruned"]
    assert len(pruned) > 2
    assert all(trial.number >= 6 and trial.score is None for trial in pruned)
    assert result.best.score == max(trial.values["optimizer.lr"] for trial in result.trials)
    assert result.best not in pruned
    assert result.best.number == min(t.number for t in result.trials if t.score == result.best.score)


def test_what_was_tried_is_written_whenever_a_trial_has_ended(monkeypatch, tmp_path):
    seen = []

    def value(config):
        path = tmp_path / RESULT
        seen.append(len(StudyResult.read(path).trials) if path.exists() else 0)
        return config.optimizer.lr

    scored(monkeypatch, value)
    result = tune(small_plan(trials=4, splits=1), tmp_path)
    assert seen == [0, 1, 2, 3]
    assert StudyResult.read(tmp_path / RESULT).importance == result.importance


def test_a_pruned_trial_tells_what_it_had(monkeypatch, tmp_path):
    scored(monkeypatch, lambda config: config.optimizer.lr)
    tune(small_plan(space={"optimizer.lr": (0.01, 0.1, 0.2, 0.3, 0.4)}, trials=30, together=6), tmp_path)
    for trial in StudyResult.read(tmp_path / RESULT).trials:
        assert trial.last == (trial.values["optimizer.lr"] if trial.state == "pruned" else None)


def test_lower_may_be_better(monkeypatch, tmp_path):
    scored(monkeypatch, lambda config: config.optimizer.lr)
    monkeypatch.setitem(__import__("tgnn.tuning.study", fromlist=["tune"]).HIGHER_IS_BETTER, "accuracy", False)
    result = tune(small_plan(space={"optimizer.lr": (0.01, 0.1, 0.2, 0.3)}, trials=20), tmp_path)
    assert result.best.score == 0.01
    assert all(trial.values["optimizer.lr"] > 0.01 for trial in result.trials if trial.state == "pruned")


def test_real_training_is_pruned_too(tmp_path):
    space = {"optimizer.lr": (1e-5, 0.05), "model.hidden_channels": (1, 32)}
    result = tune(small_plan("digits", space=space, trials=12, epochs=10, splits=1), tmp_path)
    pruned = [trial for trial in result.trials if trial.state == "pruned"]
    assert pruned
    assert result.best.score > 0.7
    assert all(trial.last < result.best.score for trial in pruned)


def test_a_trial_that_fails_tells_why_and_the_search_goes_on(monkeypatch, tmp_path):
    def value(config):
        if config.model.hidden_channels == 4:
            raise IndexError("too small")
        return math.nan if config.model.hidden_channels == 8 else 0.5

    scored(monkeypatch, value)
    result = tune(small_plan(trials=20), tmp_path)
    assert result.best.values["model.hidden_channels"] == 16
    reasons = {trial.values["model.hidden_channels"]: trial.reason for trial in result.trials}
    assert reasons == {4: "too small", 8: "the validation metric is not a number", 16: ""}
    assert result.count("failed") == sum(trial.values["model.hidden_channels"] < 16 for trial in result.trials)
    assert told(StudyResult.read(tmp_path / RESULT)) == told(result)


def test_where_all_fail_the_first_reason_is_told(monkeypatch, tmp_path):
    scored(monkeypatch, lambda config: 1 // 0)
    with pytest.raises(StudyError, match="none of 3 trials could be finished; the first said: integer division"):
        tune(small_plan(trials=3), tmp_path)
    assert not (tmp_path / RECIPE).exists()


def test_what_is_wrong_with_the_machine_is_no_trial(monkeypatch, tmp_path):
    def full(config):
        raise OSError(28, "No space left on device")

    scored(monkeypatch, full)
    with pytest.raises(OSError, match="No space"):
        tune(small_plan(trials=3), tmp_path)
    scored(monkeypatch, lambda config: 0.5)
    assert tune(small_plan(trials=3), tmp_path).count("complete") == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is damaged"),
        ("[]", "is not a study"),
        ('{"kind": "run"}', "is not a study"),
        ('{"kind": "study"}', "is damaged: 'trials'"),
        ('{"kind": "study", "trials": [{"number": 1}]}', "is damaged"),
        ('{"kind": "study", "trials": [3]}', "is damaged"),
        ('{"kind": "study", "trials": []}', "is damaged"),
        ('{"kind": "study", "trials": [{"number": 1, "state": "complete", "values": {}, "score": "x"}]}', "score"),
        (b"\xff\xfe\x00", "is damaged"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, text, said):
    path = tmp_path / RESULT
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ResultError, match=said) as found:
        StudyResult.read(path)
    assert str(path) in str(found.value)


def test_a_file_tells_all(tmp_path):
    trials = (Trial(0, "complete", {"model.rank": 8}, 0.5, (0.5,), 1.0), Trial(1, "running", {}))
    names = ("name", "data", "model", "metric")
    result = StudyResult(*names, True, "stratified", 1, trials, 2, {"model.rank": [8]}, {})
    result.write(tmp_path / RESULT)
    assert StudyResult.read(tmp_path / RESULT).best.score == 0.5
    assert json.loads((tmp_path / RESULT).read_text())["trials"][1]["state"] == "running"


def lucky(config):
    """The larger the step, the better on the splits of the search, and the worse on all others."""
    seen = config.train.seed < 1002
    return config.optimizer.lr if seen else -config.optimizer.lr


def test_the_best_are_judged_once_more_on_other_splits(monkeypatch, tmp_path):
    scored(monkeypatch, lucky)
    plan = small_plan(space={"optimizer.lr": (0.01, 0.1, 0.2, 0.3, 0.4)}, trials=20, together=20, splits=2, finals=3)
    told_so_far = []
    result = tune(plan, tmp_path, tell=told_so_far.append)
    tried = sorted({trial.values["optimizer.lr"] for trial in result.trials if trial.state == "complete"})
    start = plan.start["optimizer.lr"]
    assert start not in tried[-3:]
    assert [trial.score for trial in result.judged] == [-lr for lr in (start, *tried[-3:])]
    assert all(len(trial.scores) == 5 for trial in result.finals)  # the splits 2 to 6
    assert result.best.values["optimizer.lr"] == start
    assert len(result.trials) == 20
    said = (tmp_path / RECIPE).read_text()
    assert said.startswith(
        f"# On validation accuracy {-start:.4f}, mean over 5 splits: the best there of 4 finalists, which are the "
        "best of 20 trials on 2 splits (where this one has"
    )
    assert f"lr: {start:g}" in (tmp_path / RECIPE).read_text()
    again = StudyResult.read(tmp_path / RESULT)
    assert [trial.number for trial in again.judged] == [trial.number for trial in result.judged]
    assert again.best.number == result.best.number
    assert max(len(one.finals) for one in told_so_far) == 4


def test_fewer_unlike_settings_than_finals(monkeypatch, tmp_path):
    scored(monkeypatch, lucky)
    plan = small_plan(space={"optimizer.lr": (0.01, 0.1)}, trials=10, together=20, splits=2, finals=5)
    result = tune(plan, tmp_path)
    assert len(result.finals) == 2
    assert result.best.values["optimizer.lr"] == 0.01
    assert "lr: 0.01" in (tmp_path / RECIPE).read_text()


def test_a_final_that_fails(monkeypatch, tmp_path):
    def score(config):
        if config.train.seed >= 1002 and config.optimizer.lr == 0.2:
            raise ValueError("the loss became nan")
        return lucky(config)

    scored(monkeypatch, score)
    space = {"optimizer.lr": (0.01, 0.1, 0.2, 0.3, 0.4)}
    result = tune(small_plan(space=space, trials=20, together=20, splits=2, finals=3), tmp_path)
    tried = sorted({trial.values["optimizer.lr"] for trial in result.trials if trial.state == "complete"})
    assert 0.2 in tried[-3:]
    judged = [0.01, *(lr for lr in tried[-3:] if lr != 0.2)]  # the start is
    assert [trial.values["optimizer.lr"] for trial in result.judged] == judged
    assert result.best.values["optimizer.lr"] == judged[0] != tried[-1]
    assert result.finals_left == 0
    failed = [trial for trial in StudyResult.read(tmp_path / RESULT).finals if trial.state == "failed"]
    assert [(trial.values["optimizer.lr"], trial.reason) for trial in failed] == [(0.2, "the loss became nan")]


def test_more_finals_are_those_of_a_search_that_had_them_at_once(monkeypatch, tmp_path):
    judged = []

    def score(config):
        judged.extend([config.optimizer.lr] if config.train.seed >= 1002 else [])
        return lucky(config)

    scored(monkeypatch, score)
    space = {"optimizer.lr": (0.01, 0.1, 0.2, 0.3, 0.4)}
    for finals in (1, 3):
        result = tune(small_plan(space=space, trials=20, together=20, splits=2, finals=finals), tmp_path)
        assert all(trial.score == -trial.values["optimizer.lr"] for trial in result.finals)
        assert result.best.values["optimizer.lr"] == 0.01
        assert len(result.finals) == finals + 1
    assert sorted(judged) == sorted(5 * [trial.values["optimizer.lr"] for trial in result.finals])  # each once


def test_the_folder_of_another_study(monkeypatch, tmp_path):
    scored(monkeypatch, lucky)
    tune(small_plan(trials=2), tmp_path, name="first")
    before = (tmp_path / RESULT).read_bytes()
    with pytest.raises(StudyError, match="has the study first: give another --out"):
        tune(small_plan(trials=2), tmp_path, name="second")
    assert (tmp_path / RESULT).read_bytes() == before


def test_a_study_that_goes_on_has_finals_of_its_own(monkeypatch, tmp_path):
    scored(monkeypatch, lucky)
    space = {"optimizer.lr": (0.01, 0.1, 0.2, 0.3, 0.4)}
    first = tune(small_plan(space=space, trials=4, together=20, splits=2, finals=2), tmp_path)
    assert len(first.finals) <= 3
    second = tune(small_plan(space=space, trials=20, together=20, splits=2, finals=2), tmp_path)
    whole = tune(small_plan(space=space, trials=20, together=20, splits=2, finals=2), tmp_path / "at once")
    assert [t.number for t in second.judged] == [t.number for t in whole.judged]
    assert len(second.trials) == 20
