"""The commands ``tgnn train``, ``evaluate``, ``predict`` and ``doctor``."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import yaml

from tests.end_to_end.cli.conftest import write_friends

QUICK = ("--epochs", "8")


# ---- training, evaluation and prediction ------------------------------------------------------------------------


@pytest.mark.slow
def test_train_evaluate_and_predict(tgnn, tmp_path):
    code, out, err = tgnn("train", "digits", "--epochs", "30", "--out", "run", installed=True)
    assert code == 0, err
    assert "test accuracy" in out
    assert "saved in" in out
    assert "epoch 1/30" in err
    assert "\x1b" not in out + err
    files = ["config.yaml", "data.json", "environment.json", "history.jsonl", "metrics.json", "model.safetensors"]
    assert sorted({path.name for path in (tmp_path / "run").iterdir()} - {".lock"}) == files
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"] > 0.9
    history = [json.loads(line) for line in (tmp_path / "run/history.jsonl").read_text().splitlines()]
    assert len(history) == metrics["epochs"]
    assert history[metrics["best_epoch"] - 1]["val_accuracy"] == metrics["val"]
    assert f"at epoch {metrics['best_epoch']} of 30" in out
    assert not any(line.endswith(" ") for line in out.splitlines())

    code, out, err = tgnn("evaluate", "run", "--json")
    assert code == 0, err
    assert json.loads(out)["test"] == metrics["test"]

    for name in ("p.csv", "p.parquet"):
        code, out, err = tgnn("predict", "run", "--out", name)
        assert code == 0, err
        assert "probability 3, …" in out
    table = pl.read_csv(tmp_path / "p.csv")
    assert table.height == 1797
    assert table.columns[:3] == ["id", "prediction", "probability 0"]
    assert pl.read_parquet(tmp_path / "p.parquet").columns == table.columns


def test_own_tables_and_new_nodes(succeed, tmp_path):
    write_friends(tmp_path / "friends")
    write_friends(tmp_path / "strangers", people=40, seed=1, labels=False)
    succeed("train", "--data", "friends", "--epochs", "60", "--out", "run")
    succeed("predict", "run", "--data", "strangers", "--out", "p.csv")
    table = pl.read_csv(tmp_path / "p.csv")
    assert table["id"][0] == "p1-0"
    assert table.columns == ["id", "prediction", "probability coffee", "probability tea"]
    truth = ["tea" if i % 2 == 0 else "coffee" for i in range(40)]
    assert (table["prediction"] == pl.Series(truth)).mean() > 0.85


def test_regression_on_molecules(succeed, tmp_path):
    (tmp_path / "molecules.csv").write_text(
        "smiles,solubility\n" + "".join(f"{'C' * (i % 12 + 1)}O,{i % 12 + 0.5}\n" for i in range(60))
    )
    out = succeed("train", "--data", "molecules.csv", *QUICK, "--out", "run", "--json")
    assert json.loads(out)["metric"] == "mae"
    succeed("predict", "run", "--out", "p.csv")
    assert pl.read_csv(tmp_path / "p.csv").columns == ["id", "prediction"]


def test_prior_correction(succeed, tmp_path):
    """The training set has uniform class priors. Predictions have those of the validation set, on new data too."""
    data, odd = tmp_path / "data", np.arange(300) % 3 == 0
    data.mkdir()
    nodes = {"id": range(300), "x": odd + np.arange(300) % 7 / 7, "label": np.where(odd, "a", "b")}
    pl.DataFrame(nodes).write_csv(data / "nodes.csv")
    pl.DataFrame({"source": range(295), "target": range(5, 300)}).write_csv(data / "edges.csv")
    output, shift = {}, {}
    for shares in ("none", "validation"):
        arguments = ("--split", "per-class-quota", "--epochs", "3", "--set", f"train.prior_correction={shares}")
        succeed("train", "--data", "data", "--out", shares, *arguments)
        shift[shares] = json.loads((tmp_path / shares / "data.json").read_text())["task"]["log_prior_ratio"]
        found = json.loads(succeed("evaluate", shares, "--json"))
        assert found["test"] == found["recorded"]
        succeed("predict", shares, "--data", "data", "--out", f"{shares}.csv")
        output[shares] = pl.read_csv(f"{shares}.csv").select("probability a", "probability b").to_numpy()
    assert shift["none"] == []
    assert max(map(abs, shift["validation"])) > 0.5
    odds = output["none"] * np.exp(shift["validation"])
    assert output["validation"] == pytest.approx(odds / odds.sum(1, keepdims=True), abs=1e-4)


def test_new_data_is_standardized_with_the_training_data(succeed, tmp_path):
    rng = np.random.default_rng(0)
    pay = rng.normal(30_000, 8_000, 300).round()
    for folder, some in ((tmp_path / "data", pay), (tmp_path / "new", pay[pay < 30_000])):
        folder.mkdir()
        nodes = {"id": range(len(some)), "pay": some, "label": np.where(some > 30_000, "rich", "poor")}
        pl.DataFrame(nodes).write_csv(folder / "nodes.csv")
        pl.DataFrame({"source": range(len(some) - 1), "target": range(1, len(some))}).write_csv(folder / "edges.csv")
    out = succeed("train", "--data", "data", "--epochs", "150", "--out", "run", "--json")
    assert json.loads(out)["test"] > 0.9  # with pay as stored: 0.77
    succeed("predict", "run", "--data", "new", "--out", "p.csv")
    assert (pl.read_csv(tmp_path / "p.csv")["prediction"] == "poor").mean() > 0.9


def test_several_runs(succeed, run, tmp_path):
    out = succeed("train", "karate", *QUICK, "--runs", "3", "--jobs", "1", "--out", "runs", "--json")
    found = json.loads(out)
    values = [row["test"] for row in found["each"]]
    assert found["mean"] == pytest.approx(np.mean(values))
    assert found["std"] == pytest.approx(np.std(values, ddof=1))
    assert found["interval"][0] <= found["mean"] <= found["interval"][1]
    assert len({row["split_hash"] for row in found["each"]}) == 3
    out = succeed("train", "--resume", "runs", "--jobs", "1")
    assert "over 3 runs" in out
    assert "karate (stratified split, one per seed)" in out
    code, _, err = run("evaluate", "runs")
    assert code == 2
    assert "holds 3 runs. Use one of them, such as runs/seed-0" in err
    assert run("train", "karate", "--batch-size", "9", "--runs", "2", "--jobs", "1", "--out", "a/b")[0] == 2
    assert not (tmp_path / "a").exists()


def test_warnings_about_data_are_printed_once(run, tmp_path):
    write_friends(tmp_path / "friends")
    nodes = pl.read_csv(tmp_path / "friends/nodes.csv").with_columns(same=pl.lit(1))
    nodes.write_csv(tmp_path / "friends/nodes.csv")
    code, _, err = run("train", "--data", "friends", "--epochs", "1", "--runs", "2", "--jobs", "1", "--out", "runs")
    assert code == 0, err
    assert err.count("'same'") == 1
    assert str(tmp_path) not in err
    assert "friends tgnn: seed 0" in err


@pytest.mark.parametrize("more", [(), ("digits",)])
def test_a_recipe_can_name_its_data(run, tmp_path, more):
    (tmp_path / "mine.yaml").write_text("data: {name: karate}\nmodel: {name: gcn}\n")
    code, out, err = run("train", *more, "--recipe", "mine.yaml", "--dry-run", "--json")
    assert code == 0, err
    settings = json.loads(out)
    assert settings["data"]["name"] == (more[0] if more else "karate")
    assert settings["model"]["name"] == "gcn"
    assert ("The recipe is for karate; training on digits as requested" in err) == bool(more)


def test_a_dry_run_prints_the_configuration(succeed, tmp_path):
    arguments = [
        "train",
        "cora",
        "--dry-run",
        "--rank",
        "3",
        "--lr",
        "0.5",
        "--sample",
        "5,-1",
        "--set",
        "model.mix=scalar",
    ]
    settings = yaml.safe_load(succeed(*arguments))
    assert settings["model"]["rank"] == 3
    assert settings["model"]["mix"] == "scalar"
    assert settings["optimizer"]["lr"] == 0.5
    assert settings["train"]["num_neighbors"] == [5, -1]
    assert not (tmp_path / "runs").exists()
    assert json.loads(succeed(*arguments, "--json"))["hash"]


@pytest.mark.parametrize(
    "more",
    [
        ("--sample", "4,4", "--batch-size", "128"),
        ("--precision", "bfloat16"),
        ("--set", "optimizer.schedule=cosine", "--set", "optimizer.grad_clip=1.0", "--set", "optimizer.name=adamw"),
        ("--set", "model.mix=scalar", "--set", "model.factors=tempered"),
    ],
)
def test_training_options(run, more):
    code, out, err = run("train", "digits", *QUICK, *more, "--out", "run", "--json")
    assert code == 0, err
    assert json.loads(out)["epochs"] == 8
    assert "DEBUG" not in err


def test_multi_label_classification(succeed, tmp_path):
    write_friends(tmp_path / "friends")
    nodes = pl.read_csv(tmp_path / "friends/nodes.csv")
    label = pl.when(pl.col("label") == "tea").then(pl.lit("tea;tall")).otherwise(pl.lit("coffee"))
    nodes.with_columns(label.alias("label")).write_csv(tmp_path / "friends/nodes.csv")
    (tmp_path / "friends/schema.yaml").write_text("task: multi-label\n")
    out = succeed("train", "--data", "friends", *QUICK, "--out", "run", "--json")
    assert json.loads(out)["metric"] == "roc-auc"
    succeed("predict", "run", "--out", "p.csv")
    assert "prediction tall" in pl.read_csv(tmp_path / "p.csv").columns


def test_a_folder_with_the_name_of_a_data_set(succeed, tmp_path):
    write_friends(tmp_path / "karate")
    succeed("train", "--data", "karate", *QUICK, "--out", "run")
    succeed("predict", "run", "--data", "karate")
    assert pl.read_csv("predictions.csv").height == 60
    out = succeed("evaluate", "run", "--data", "karate", "--json")
    assert json.loads(out)["test"] == json.loads(out)["recorded"]


def test_a_run_is_not_resumed_on_other_data(succeed, run, tmp_path):
    write_friends(tmp_path / "friends")
    succeed("train", "--data", "friends", *QUICK, "--out", "run")
    (tmp_path / "run/metrics.json").unlink()
    write_friends(tmp_path / "friends", seed=5)
    code, _, err = run("train", "--resume", "run")
    assert code == 2
    assert "cannot be resumed or evaluated, because the data changed" in err


def test_quiet_prints_nothing_and_the_log_file_holds_everything(run, tmp_path):
    code, _, err = run("--quiet", "--log-file", "log.txt", "train", "karate", *QUICK, "--out", "run")
    assert (code, err) == (0, "")
    log = (tmp_path / "log.txt").read_text()
    assert "test accuracy: " in log
    assert all(f"epoch {number}: loss" in log for number in range(1, 9))


def test_history_holds_diagnostics_of_the_product_branch(run, tmp_path):
    run("train", "karate", *QUICK, "--set", "model.mix=scalar", "--out", "run")
    first = json.loads((tmp_path / "run/history.jsonl").read_text().splitlines()[0])
    assert {"loss", "val_accuracy", "gradient", "gradient/product", "a_high/gnn.convs.0"} <= set(first)
    assert 0 <= first["saturated/gnn.convs.0.cp"] <= 1


def test_tensorboard_logs_every_epoch(succeed):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    succeed("train", "karate", *QUICK, "--track", "tensorboard", "--out", "run")
    events = EventAccumulator("run/tensorboard")
    events.Reload()
    assert len(events.Scalars("loss")) == 8
    assert len(events.Scalars("test")) == 1


# ---- errors of the user -----------------------------------------------------------------------------------------


def test_an_error_is_printed_once_after_its_traceback(run):
    code, _, err = run("--verbose", "train", "croa")
    assert code == 2
    assert err.count("error: croa is neither a file or folder nor a data set") == 1


def test_a_full_disk_keeps_the_last_checkpoint(tgnn, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        arguments = ["train", "digits", "--epochs", "4", "--out", str(disk / "run")]
        code, _, err = tgnn(*arguments, "--set", "train.save_every=0")
        assert code == 2
        assert "No space left" in err or "storage" in err.lower()
        assert "Traceback" not in err
        assert not list((disk / "run").glob("*.part"))
        code, _, err = tgnn("train", "--resume", str(disk / "run"))
        assert code == 2
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        code, _, err = tgnn("train", "--resume", str(disk / "run"))
        assert code == 0, err
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# ---- help and doctor --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [[], ["train"], ["predict"], ["evaluate"], ["data"], ["doctor"], ["models"]])
def test_help_is_fast_and_does_not_import_torch(verb):
    arguments = [sys.executable, "-X", "importtime", "-m", "tgnn", *verb, "--help"]
    before = os.times()
    found = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=300)
    after = os.times()
    imported = {line.rpartition("|")[2].strip() for line in found.stderr.splitlines()}
    assert not imported & {"torch", "numpy", "polars", "sklearn", "torch_geometric"}
    assert "--help" in found.stdout
    seconds = after.children_user - before.children_user + after.children_system - before.children_system
    assert seconds < 2  # CPU time of the process; 0.3 s on an idle machine


def test_doctor(succeed):
    out = succeed("doctor", "--json")
    report = json.loads(out)
    assert report["backends"]["torch"] == "available"
    assert "compiler" in report["machine"]
    assert "versions" in succeed("doctor")


def test_a_log_file_gets_everything(run, tmp_path):
    code, _, err = run("--quiet", "--log-file", "log/x.txt", "data", "fetch", "citeseer", "--offline")
    assert code == 1
    assert (tmp_path / "log/x.txt").exists()
    assert err.startswith("error:")
    assert "Alternatives:" in err
