"""Section of the report page for a hyperparameter search."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.unit.report.make import NASTY, charts_of, page_of, study
from tgnn.report.collect import ReportReader, find_sources
from tgnn.report.render import render
from tgnn.tuning.results import Trial


def test_title_and_progress(tmp_path):
    page = page_of(study(tmp_path / "study"))
    assert ">Hyperparameter search: gcn on cora, accuracy over 2 splits (per-class-quota)</h2>" in page
    assert "6 of 8 trials have ended (2 pruned, 1 failed), 1 were running when the file was written." in page
    assert "The best is trial 2 with a validation accuracy of 0.8300." in page
    for words in ("tgnn tune cora --model gcn", "ddd444", "0.001, 0.01, 0.05, 0.1, 1<", "4.5.0"):
        assert words in page


def test_history(tmp_path):
    chart = charts_of(page_of(study(tmp_path / "study")))[0]
    assert chart["alternative"] == "Validation accuracy of 6 trials, best 0.8300 in trial 2"
    points = {
        tip: (y, trace["yaxis"], trace["name"], trace["marker"]["symbol"])
        for trace in chart["data"][1:]
        for tip, y in zip(trace["customdata"], trace["y"])
    }
    assert len(points) == 6  # the running trial is not shown
    assert points["trial 2: complete 0.8300"] == (0.83, "y", "complete (3)", "circle")
    assert points["trial 3: pruned 0.4200"] == (0.42, "y", "pruned (2)", "circle-open")
    assert points["trial 4: pruned"] == (0, "y3", "pruned (2)", "circle-open")  # below everything that has a score
    (failed,) = (point for tip, point in points.items() if tip.startswith("trial 1: failed, "))
    assert failed == (0, "y3", "failed (1)", "x")
    assert chart["layout"]["yaxis3"]["ticktext"] == ["no score"]


@pytest.mark.parametrize(("higher", "scores"), [(True, [0.71, 0.71, 0.83, 0.83, 0.83, 0.83]), (False, [0.71] * 6)])
def test_the_best_score_never_gets_worse(tmp_path, higher, scores):
    chart = charts_of(page_of(study(tmp_path / "study", higher_is_better=higher)))[0]
    assert chart["data"][0]["name"] == "best so far"
    assert chart["data"][0]["y"] == scores


def test_importance_is_sorted(tmp_path):
    chart = charts_of(page_of(study(tmp_path / "study")))[1]
    assert chart["alternative"] == "importance, %: lr 75 %, norm 25 %"
    assert chart["data"][0]["customdata"] == ["lr: 75.0 %", "norm: 25.0 %"]
    assert chart["layout"]["yaxis"]["ticktext"] == ["lr", "norm"]


def test_importance_before_the_search_ends(tmp_path):
    page = page_of(study(tmp_path / "study", importance={}))
    assert len(charts_of(page)) == 1
    assert "The importance of the hyperparameters is computed when the search ends." in page


def test_the_table_of_trials(tmp_path):
    page = page_of(study(tmp_path / "study"))
    headers = re.findall(r'-table-0-sort-\d+">([^<]*)<', page)
    assert headers == ["trial", "state", "accuracy", "seconds", "lr", "norm", "reason"]
    rows = re.findall(r"<tr>(.*?)</tr>", page.partition("<tbody>")[2].partition("</tbody>")[0], flags=re.S)
    cells = [re.sub(r"<[^>]*>", " ", row).split() for row in rows]
    assert cells[2] == ["2", "complete", "★", "0.8300", "0.8200,", "0.8400", "1.25", "0.1", "yes"]
    assert cells[1][:5] == ["1", "failed", "0.200", "1", "yes"]
    assert len(cells) == 6


def test_final_evaluations(tmp_path):
    finals = [Trial(5, "complete", {}, 0.81, (0.80, 0.82)), Trial(2, "complete", {}, 0.76, (0.75, 0.77))]
    page = page_of(study(tmp_path / "study", finals=finals))
    best = (
        "The best is trial 5 with a validation accuracy of 0.7900, and 0.8100 in the final evaluation on other splits"
    )
    assert f"{best} (2 evaluated)." in page
    assert re.findall(r'-sort-\d+">([^<]*)<', page)[2:5] == ["accuracy", "on other splits", "seconds"]
    rows = re.findall(r"<tr>(.*?)</tr>", page.partition("<tbody>")[2].partition("</tbody>")[0], flags=re.S)
    cells = [re.sub(r"<[^>]*>", " ", row).split() for row in rows]
    assert cells[5][2:9] == ["0.7900", "0.7800,", "0.8000", "★", "0.8100", "0.8000,", "0.8200"]
    assert "★" not in cells[2]


def test_a_failed_final_evaluation(tmp_path):
    finals = [Trial(2, "failed", {}, reason="the loss became nan"), Trial(5, "complete", {}, 0.81, (0.80, 0.82))]
    page = page_of(study(tmp_path / "study", finals=finals))
    assert "on other splits (1 evaluated, 1 failed)" in page
    row = re.findall(r"<tr>(.*?)</tr>", page.partition("<tbody>")[2].partition("</tbody>")[0], flags=re.S)[2]
    assert re.sub(r"<[^>]*>", " ", row).split()[2:6] == ["0.8300", "0.8200,", "0.8400", "failed"]
    assert "the loss became nan" in row


def test_recipe(tmp_path):
    folder = study(tmp_path / "study")
    assert ">Best hyperparameters (trial 2)</h3>" in page_of(folder)
    assert "# Best of 6 trials\noptimizer: {lr: 0.1}" in page_of(folder)
    (folder / "best.yaml").unlink()
    assert "Best hyperparameters" not in page_of(folder)


def test_a_study_without_a_score(tmp_path):
    failed = [Trial(0, "failed", {}, reason="no memory"), Trial(1, "running", {})]
    page = page_of(study(tmp_path / "study", trials=failed, importance={}))
    assert "no memory" in page
    assert page_of(study(tmp_path / "empty", trials=[], importance={}))


def test_names_are_escaped(tmp_path):
    trial = Trial(0, "complete", {NASTY: NASTY}, 0.5, (0.5,), 1.0)
    names = dict.fromkeys(("name", "data", "model", "metric", "split", "command", "data_hash"), NASTY)
    more = {"trials": [trial], "space": {NASTY: [NASTY]}, "importance": {NASTY: 1.0}, "environment": {NASTY: NASTY}}
    folder = study(tmp_path / "study", **names, **more)
    (folder / "best.yaml").write_text(f"# {NASTY}\n")
    page = page_of(folder)
    assert "<script>alert" not in page
    assert page.count("<script>") == 3  # the scripts of the page


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "is damaged: Expecting"),
        ("[]", "is not a study"),
        ("[" * 100000, "is damaged: "),
        ({"splits": "many"}, "is damaged: splits: "),
        ({"importance": {"a": "much"}}, "is damaged: importance.a: "),
        ({"trials": [{"number": 0, "state": "complete", "params": {}, "scores": [None]}]}, "trials.0.scores.0"),
        ({"space": {"a": 3}}, "is damaged: space.a"),
    ],
)
def test_damaged_studies(content, reason, tmp_path):
    path = study(tmp_path / "study") / "study.json"
    whole = json.loads(path.read_text())
    path.write_text(content if isinstance(content, str) else json.dumps({**whole, **content}))
    contents = ReportReader([tmp_path]).read()
    assert (contents.counts["studies"], contents.counts["damaged"]) == (0, 1)
    ((name, why),) = contents.damaged
    assert name.endswith("study/study.json")
    assert reason in why
    assert 'id="damaged"' in render(contents)


def test_a_study_is_found_once_and_read_again_when_it_changes(tmp_path):
    folder = study(tmp_path / "a/study")
    (place,) = find_sources([tmp_path, folder, folder / "study.json"])
    assert place.source_type == "study"
    reader = ReportReader([tmp_path])
    first = reader.read()
    assert first.counts["studies"] == 1
    assert reader.read().sections[0] is first.sections[0]
    (folder / "best.yaml").write_text("another: recipe\n")
    assert "another: recipe" in render(reader.read())


def test_optuna_is_not_imported():
    code = "import sys, tgnn.report.collect; sys.exit(bool({'optuna', 'sqlalchemy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
