"""Metrics, class weights, baselines and details of results, through the commands."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from tests.end_to_end.cli.conftest import write_friends


def test_the_metric_selects_the_epoch_and_is_reported(succeed, run, tmp_path):
    write_friends(tmp_path / "friends")
    out = succeed("train --data friends --epochs 8 --class-weight balanced --out run --metric", "Macro F1")
    assert "test macro-f1" in out
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    history = [json.loads(line) for line in (tmp_path / "run/history.jsonl").read_text().splitlines()]
    assert metrics["val"] == max(line["val_macro-f1"] for line in history)
    details = metrics["details"]
    assert details["scores"]["macro-f1"] == metrics["test"]
    assert [row["name"] for row in details["classes"]] == ["coffee", "tea"]
    assert sum(map(sum, details["confusion"])) == sum(row["test"] for row in details["classes"]) == 12
    out = succeed("evaluate run --metric roc-auc")
    assert f"test roc-auc {details['scores']['roc-auc']:.4f} (recorded after training" in out

    code, _, err = run("evaluate run --metric rmse")
    assert code == 2
    assert "cannot be used for a classification task. Use accuracy, balanced-accuracy" in err
    code, _, err = run("train --data friends --metric auc --out other")
    assert code == 2
    assert "train.metric is 'auc', but it should be accuracy, balanced-accuracy" in err
    assert not (tmp_path / "other").exists()
    code, _, err = run("train karate --class-weight balanced --set train.prior_correction=validation --out other")
    assert code == 2
    assert "contradict each other" in err


def test_tune_scores_trials_by_the_metric(succeed, tmp_path):
    write_friends(tmp_path / "friends")
    search = "--search optimizer.lr=0.01,0.02 --trials 2 --splits 1 --finals 0 --jobs 1 --set train.epochs=3"
    succeed(f"tune --data friends --metric log-loss {search} --out study")
    study = json.loads((tmp_path / "study/study.json").read_text())
    assert (study["metric"], study["higher_is_better"]) == ("log-loss", False)
    assert "train.metric=log-loss" in study["command"]
    assert "metric: log-loss" in (tmp_path / "study/best.yaml").read_text()


def test_baselines_are_printed_and_stored(succeed, tmp_path):
    write_friends(tmp_path / "friends")
    out = succeed("train --data friends --epochs 3 --out run")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert [row["name"] for row in metrics["baselines"]] == ["majority class", "gradient boosting without the graph"]
    for row in metrics["baselines"]:
        assert f"{row['name']}  " in out
    assert metrics["baselines"][0]["test"] == 0.5
    assert "coffee  " in out
    out = succeed("train --data friends --epochs 3 --no-baselines --out without")
    assert "majority class" not in out
    assert "majority class" not in succeed("train karate --epochs 2 --out karate")
    assert "majority class" in succeed("train karate --epochs 2 --baselines --runs 2 --jobs 1 --out both")
    summary = json.loads((tmp_path / "both/summary.json").read_text())
    assert summary["baselines"][0]["name"] == "majority class"


def test_compare_uses_the_same_splits_and_ends_in_advice(succeed, run, read, tmp_path):
    write_friends(tmp_path / "friends")
    command = "compare --data friends --target label --runs 2 --jobs 1 --models mlp,gcn --epochs 4"
    code, out, err = run(command)
    assert code == 0, err
    assert "4 of 4 runs done" in err
    advice = next(line for line in err.splitlines() if line.startswith("train it with: "))
    assert advice.startswith("train it with: tgnn train --data friends --model ")
    assert advice.endswith(" --epochs 4 --target label")
    assert "use " in out.splitlines()[-1]
    assert "the graph" in out.splitlines()[-1]
    comparison = read(command)  # finished runs are reused
    names = ["mlp", "gcn", "majority class", "gradient boosting without the graph"]
    assert [model["name"] for model in comparison["models"]] == names
    assert all(len(model["tests"]) == 2 for model in comparison["models"])
    stored = json.loads((tmp_path / "runs/compare/friends/compare-friends.json").read_text())
    splits = [[cell_run["split_hash"] for cell_run in cell["runs"]] for cell in stored["cells"]]
    assert splits[0] == splits[1]
    assert splits[0][0] != splits[0][1]
    code, _, err = run("predict runs/compare/friends")
    cells = sorted(path.name for path in (tmp_path / "runs/compare/friends/cells").iterdir())[:3]
    assert (code, ", ".join(f"runs/compare/friends/cells/{cell}" for cell in cells) + "." in err) == (2, True)
    code, _, err = run("compare --data friends --models gcn,sgcn")
    assert code == 2
    assert "unknown model 'sgcn'" in err


def test_auto_keeps_the_best_model_on_the_validation_set(succeed, run, tmp_path):
    write_friends(tmp_path / "friends")
    code, out, err = run("train --data friends --model auto --epochs 4 --jobs 1 --out run")
    assert code == 0, err
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert [row["name"] for row in metrics["candidates"]] == [
        "mlp",
        "gcn",
        "graphsage",
        "tgnn without products",
        "tgnn",
    ]
    best = max(metrics["candidates"], key=lambda row: row["val"])
    assert (metrics["selected"], metrics["val"]) == (best["name"], best["val"])
    assert f"selected {best['name']}, the best of 5 models on the validation set" in err
    assert "graphsage  " in out
    assert f"test accuracy {metrics['test']:.4f} (recorded after training: {metrics['test']:.4f})" in succeed(
        "evaluate run"
    )
    succeed("predict run --out p.csv")
    code, _, err = run("train --resume run --epochs 5")
    command = "train --recipe run/config.yaml --epochs 5 --out run-again"
    assert (
        code,
        f"--model auto keeps no checkpoint of the model that it selects. Train its model again with `tgnn {command}`"
        in err,
    ) == (2, True)
    assert f"{metrics['model']}, " in succeed(command)
    code, _, err = run("train --data friends --model auto --rank 4 --out other")
    assert code == 2
    assert "rank" in err


def test_calibrated_probabilities_are_those_that_are_predicted(succeed, run, tmp_path):
    write_friends(tmp_path / "friends")
    out = succeed("train --data friends --epochs 60 --calibrate --out run")
    details = json.loads((tmp_path / "run/metrics.json").read_text())["details"]
    temperature = details["calibration"]["temperature"]
    assert f"(before: {details['calibration']['error_before']:.4f}), temperature {temperature:.2f}" in out
    succeed("train --data friends --epochs 60 --out plain")
    for name in ("run", "plain"):
        succeed(f"predict {name} --out {name}.csv")
    calibrated, plain = (pl.read_csv(tmp_path / f"{name}.csv") for name in ("run", "plain"))
    assert calibrated["prediction"].to_list() == plain["prediction"].to_list()
    odds = [np.log(table["probability tea"] / table["probability coffee"]).to_numpy() for table in (calibrated, plain)]
    sure = np.abs(odds[1]) < 10
    assert odds[0][sure] * temperature == pytest.approx(odds[1][sure], abs=1e-3)
    assert succeed("evaluate run").startswith("test accuracy")
    write_friends(tmp_path / "heights", label=np.arange(60) / 7)
    code, _, err = run("train --data heights --calibrate --out other")
    assert code == 2
    assert "train.calibrate needs a classification task" in err


def test_several_runs_predict_as_one(succeed, run, tmp_path):
    write_friends(tmp_path / "friends")
    succeed("train --data friends --epochs 4 --runs 2 --jobs 1 --out runs")
    assert "columns id, label, prediction, std, probability coffee" in succeed("predict runs --out p.csv")
    for seed in (0, 1):
        succeed(f"predict runs/seed-{seed} --out p{seed}.csv")
    ensemble, *members = (pl.read_csv(tmp_path / f"{name}.csv") for name in ("p", "p0", "p1"))
    tea = np.stack([member["probability tea"].to_numpy() for member in members])
    assert ensemble["probability tea"].to_numpy() == pytest.approx(tea.mean(0), abs=1e-5)
    assert ensemble["std"].to_numpy() == pytest.approx(tea.std(0, ddof=1), abs=1e-5)
    expected = np.where(tea.mean(0) > 0.5, "tea", "coffee").tolist()
    assert ensemble["prediction"].to_list() == expected
    write_friends(tmp_path / "others", people=40, seed=1)
    succeed("predict runs --data others --out o.csv")
    others = pl.read_csv(tmp_path / "o.csv")
    accuracy = (others["prediction"] == others["label"]).mean()
    assert f"accuracy {accuracy:.4f} on 40 labeled examples of others" in succeed("evaluate runs --data others")
    for command, message in (
        ("evaluate runs", "runs with test sets of their own"),
        ("evaluate runs --data friends", "training data"),
    ):
        code, _, err = run(command)
        assert code == 2
        assert message in err
    code, _, err = run("train --resume runs --epochs 5")
    command = "train --recipe runs/seed-0/config.yaml --runs 2 --epochs 5 --out runs-again"
    assert (code, f"they keep no checkpoints. Train them again with `tgnn {command}`" in err) == (2, True)
    assert "over 2 runs" in succeed(f"{command} --jobs 1")
    code, _, err = run("train --resume runs/seed-0 --epochs 5")
    assert (code, "several runs keep no checkpoints" in err) == (2, True)
    (tmp_path / "runs/seed-1/metrics.json").unlink()
    code, _, err = run("predict runs --out q.csv")
    assert code == 2
    assert "1 of 2 runs in runs are not finished" in err
    code, _, err = run("train --resume runs --epochs 5")
    assert (code, "Continue the unfinished ones (1 of 2) without --epochs" in err) == (2, True)
