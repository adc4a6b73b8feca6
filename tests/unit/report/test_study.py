"""Section of the report page for a hyperparameter search."""

from __future__ import annotations

import pytest

from tests.unit.report.make import NASTY, charts_of, page_of, rows_of, study
from tgnn.tuning.results import Trial


def test_texts_and_trials(tmp_path):
    page = page_of(study(tmp_path / "study"))
    for words in (
        ">Hyperparameter search: gcn on cora, accuracy over 2 splits (per-class-quota)</h2>",
        "6 of 8 trials have ended (2 pruned, 1 failed), 1 were running when the file was written.",
        "The best is trial 2 with a validation accuracy of 0.8300.",
        ">Best hyperparameters (trial 2)</h3>",
        "# Best of 6 trials\noptimizer: {lr: 0.1}",
        *("tgnn tune cora --model gcn", "ddd444", "0.001, 0.01, 0.05, 0.1, 1<", "4.5.0"),
    ):
        assert words in page
    headers, *rows = rows_of(page)
    assert headers == ["trial", "state", "accuracy", "seconds", "lr", "norm", "reason"]
    assert rows[2] == ["2", "complete", "★", "0.8300", "0.8200,", "0.8400", "1.25", "0.1", "yes"]
    assert rows[1] == ["1", "failed", "0.200", "1", "yes", *NASTY.split()]
    assert len(rows) == 6


@pytest.mark.parametrize(("higher", "scores"), [(True, [0.71, 0.71, 0.83, 0.83, 0.83, 0.83]), (False, [0.71] * 6)])
def test_charts(tmp_path, higher, scores):
    history, importance = charts_of(page_of(study(tmp_path / "study", higher_is_better=higher)))
    number, best = (2, "0.8300") if higher else (0, "0.7100")
    assert history["alternative"] == f"Validation accuracy of 6 trials, best {best} in trial {number}"
    best_so_far, complete, pruned = history["data"]
    assert best_so_far["y"] == scores
    assert (complete["name"], complete["x"], complete["y"]) == ("complete (3)", [0, 2, 5], [0.71, 0.83, 0.79])
    assert (pruned["name"], pruned["customdata"]) == ("pruned (2)", ["trial 3: pruned 0.4200"])  # trial 4 has no score
    assert importance["alternative"] == "importance, %: lr 75 %, norm 25 %"
    assert importance["data"][0]["customdata"] == ["lr: 75.0 %", "norm: 25.0 %"]
    assert importance["layout"]["yaxis"]["ticktext"] == ["lr", "norm"]


def test_before_the_search_ends(tmp_path):
    page = page_of(study(tmp_path / "study", importance={}))
    assert len(charts_of(page)) == 1
    assert "The importance of the hyperparameters is computed when a search of at least 30 trials ends." in page
    failed = [Trial(0, "failed", {}, reason="no memory"), Trial(1, "running", {})]
    page = page_of(study(tmp_path / "failed", trials=failed, importance={}))
    assert "no memory" in page
    assert "Best hyperparameters" not in page
    assert charts_of(page) == []
    assert page_of(study(tmp_path / "empty", trials=[], importance={}))


def test_final_evaluations(tmp_path):
    finals = [Trial(5, "complete", {}, 0.81, (0.80, 0.82)), Trial(2, "failed", {}, reason="the loss became nan")]
    page = page_of(study(tmp_path / "study", finals=finals))
    best = "trial 5 with a validation accuracy of 0.7900, and 0.8100 in the final evaluation on other splits"
    assert f"The best is {best} (1 evaluated, 1 failed)." in page
    headers, *rows = rows_of(page)
    assert headers[2:6] == ["accuracy", "on", "other", "splits"]
    assert rows[5][2:9] == ["0.7900", "0.7800,", "0.8000", "★", "0.8100", "0.8000,", "0.8200"]
    assert rows[2][2:6] == ["0.8300", "0.8200,", "0.8400", "failed"]
    assert "the loss became nan" in " ".join(rows[2])
