"""The commands ``tgnn train``, ``evaluate``, ``predict`` and ``doctor``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import yaml

from tests import warm

QUICK = ("--epochs", "8")


def write_friends(folder: Path, people: int = 60, seed: int = 0, labels: bool = True) -> None:
    """Write tables of two communities. The label is the community, and a feature contains it with noise."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    group = np.arange(people) % 2
    nodes = {
        "id": [f"p{seed}-{i}" for i in range(people)],
        "height": group + rng.normal(0, 0.5, people),
        "town": np.where(rng.random(people) < 0.5, "Rome", "Oslo"),
    }
    if labels:
        nodes["label"] = np.where(group == 0, "tea", "coffee")
    pl.DataFrame(nodes).write_csv(folder / "nodes.csv")
    ends = rng.integers(0, people, (2, 4 * people))
    ends = ends[:, (group[ends[0]] == group[ends[1]]) & (ends[0] != ends[1])]
    names = np.array(nodes["id"])
    pl.DataFrame({"source": names[ends[0]], "target": names[ends[1]]}).write_csv(folder / "edges.csv")


# ---- the main job ----------------------------------------------------------------------------------------------


def test_train_evaluate_and_predict(tgnn, tmp_path):
    code, out, err = tgnn("train", "digits", "--epochs", "30", "--out", "run", installed=True)
    assert code == 0, err
    assert "test accuracy" in out
    assert "saved in" in out
    assert "epoch 1/30" in err
    assert "\x1b" not in out + err
    files = {path.name for path in (tmp_path / "run").iterdir()} - {".lock"}
    assert files == {
        *("config.yaml", "data.json", "environment.json", "history.jsonl"),
        *("metrics.json", "model.safetensors"),
    }
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


def test_own_tables_and_new_nodes(tgnn, tmp_path):
    write_friends(tmp_path / "friends")
    write_friends(tmp_path / "strangers", people=40, seed=1, labels=False)
    code, _, err = tgnn("train", "--data", "friends", "--epochs", "60", "--out", "run")
    assert code == 0, err
    code, _, err = tgnn("predict", "run", "--data", "strangers", "--out", "p.csv")
    assert code == 0, err
    table = pl.read_csv(tmp_path / "p.csv")
    assert table["id"][0] == "p1-0"
    assert table.columns == ["id", "prediction", "probability coffee", "probability tea"]
    truth = ["tea" if i % 2 == 0 else "coffee" for i in range(40)]
    assert (table["prediction"] == pl.Series(truth)).mean() > 0.85


def test_regression_on_molecules(run, tmp_path):
    (tmp_path / "molecules.csv").write_text(
        "smiles,solubility\n" + "".join(f"{'C' * (i % 12 + 1)}O,{i % 12 + 0.5}\n" for i in range(60))
    )
    arguments = ["train", "--data", str(tmp_path / "molecules.csv"), *QUICK, "--out", str(tmp_path / "run"), "--json"]
    code, out, err = run(*arguments)
    assert code == 0, err
    assert json.loads(out)["metric"] == "mae"
    code, _, err = run("predict", str(tmp_path / "run"), "--out", str(tmp_path / "p.csv"))
    assert code == 0, err
    assert pl.read_csv(tmp_path / "p.csv").columns == ["id", "prediction"]


def test_prior_correction(run, tmp_path):
    """The training set has uniform class priors. Predictions have those of the validation set, on new data too."""
    data, odd = tmp_path / "data", np.arange(300) % 3 == 0
    data.mkdir()
    nodes = {"id": range(300), "x": odd + np.arange(300) % 7 / 7, "label": np.where(odd, "a", "b")}
    pl.DataFrame(nodes).write_csv(data / "nodes.csv")
    pl.DataFrame({"source": range(295), "target": range(5, 300)}).write_csv(data / "edges.csv")
    output, shift = {}, {}
    for shares in ("none", "validation"):
        folder, table = tmp_path / shares, tmp_path / f"{shares}.csv"
        arguments = ("--split", "per-class-quota", "--epochs", "3", "--set", f"train.prior_correction={shares}")
        code, _, err = run("train", "--data", str(data), "--out", str(folder), *arguments)
        assert code == 0, err
        shift[shares] = json.loads((folder / "data.json").read_text())["task"]["log_prior_ratio"]
        found = json.loads(run("evaluate", str(folder), "--json")[1])
        assert found["test"] == found["recorded"]
        code, _, err = run("predict", str(folder), "--data", str(data), "--out", str(table))
        assert code == 0, err
        output[shares] = pl.read_csv(table).select("probability a", "probability b").to_numpy()
    assert shift["none"] == []
    assert max(map(abs, shift["validation"])) > 0.5
    odds = output["none"] * np.exp(shift["validation"])
    assert output["validation"] == pytest.approx(odds / odds.sum(1, keepdims=True), abs=1e-4)


def test_new_data_is_standardized_with_the_training_data(run, tmp_path):
    rng = np.random.default_rng(0)
    pay, data, new = rng.normal(30_000, 8_000, 300).round(), tmp_path / "data", tmp_path / "new"
    for folder, some in ((data, pay), (new, pay[pay < 30_000])):
        folder.mkdir()
        nodes = {"id": range(len(some)), "pay": some, "label": np.where(some > 30_000, "rich", "poor")}
        pl.DataFrame(nodes).write_csv(folder / "nodes.csv")
        pl.DataFrame({"source": range(len(some) - 1), "target": range(1, len(some))}).write_csv(folder / "edges.csv")
    code, out, err = run("train", "--data", str(data), "--epochs", "150", "--out", str(tmp_path / "run"), "--json")
    assert code == 0, err
    assert json.loads(out)["test"] > 0.9  # with pay as stored: 0.77
    code, _, err = run("predict", str(tmp_path / "run"), "--data", str(new), "--out", str(tmp_path / "p.csv"))
    assert code == 0, err
    assert (pl.read_csv(tmp_path / "p.csv")["prediction"] == "poor").mean() > 0.9


def test_several_runs(run, tmp_path):
    code, out, err = run(
        "train", "karate", *QUICK, "--runs", "3", "--jobs", "1", "--out", str(tmp_path / "runs"), "--json"
    )
    assert code == 0, err
    found = json.loads(out)
    values = [row["test"] for row in found["each"]]
    assert found["mean"] == pytest.approx(np.mean(values))
    assert found["std"] == pytest.approx(np.std(values, ddof=1))
    assert found["interval"][0] <= found["mean"] <= found["interval"][1]
    assert len({row["split_hash"] for row in found["each"]}) == 3
    code, out, _ = run("train", "--resume", str(tmp_path / "runs"), "--jobs", "1")
    assert code == 0
    assert "over 3 runs" in out
    assert "karate (stratified split, one per seed)" in out
    code, _, err = run("evaluate", str(tmp_path / "runs"))
    assert code == 2
    assert f"holds 3 runs. Use one of them, such as {tmp_path / 'runs/seed-0'}" in err
    code, _, err = run("train", "karate", "--batch-size", "9", "--runs", "2", "--jobs", "1", "--out", f"{tmp_path}/a/b")
    assert code == 2
    assert not (tmp_path / "a").exists()


def test_warnings_about_data_are_printed_once(run, tmp_path, monkeypatch):
    write_friends(tmp_path / "friends")
    nodes = pl.read_csv(tmp_path / "friends/nodes.csv").with_columns(same=pl.lit(1))
    nodes.write_csv(tmp_path / "friends/nodes.csv")
    monkeypatch.chdir(tmp_path)
    code, _, err = run("train", "--data", "friends", "--epochs", "1", "--runs", "2", "--jobs", "1", "--out", "runs")
    assert code == 0, err
    assert err.count("'same'") == 1
    assert str(tmp_path) not in err
    assert "friends tgnn: seed 0" in err


@pytest.mark.parametrize("more", [(), ("digits",)])
def test_a_recipe_can_name_its_data(run, tmp_path, more):
    (tmp_path / "mine.yaml").write_text("data: {name: karate}\nmodel: {name: gcn}\n")
    code, out, err = run("train", *more, "--recipe", str(tmp_path / "mine.yaml"), "--dry-run", "--json")
    assert code == 0, err
    settings = json.loads(out)
    assert settings["data"]["name"] == (more[0] if more else "karate")
    assert settings["model"]["name"] == "gcn"
    assert ("The recipe is for karate; training on digits as requested" in err) == bool(more)


def test_a_dry_run_prints_the_configuration(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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
    code, out, _ = run(*arguments)
    assert code == 0
    settings = yaml.safe_load(out)
    assert settings["model"]["rank"] == 3
    assert settings["model"]["mix"] == "scalar"
    assert settings["optimizer"]["lr"] == 0.5
    assert settings["train"]["num_neighbors"] == [5, -1]
    assert not (tmp_path / "runs").exists()
    assert json.loads(run(*arguments, "--json")[1])["hash"]


@pytest.mark.parametrize(
    "more",
    [
        ("--sample", "4,4", "--batch-size", "128"),
        ("--precision", "bfloat16"),
        ("--set", "optimizer.schedule=cosine", "--set", "optimizer.grad_clip=1.0", "--set", "optimizer.name=adamw"),
        ("--set", "model.mix=scalar", "--set", "model.factors=tempered"),
    ],
)
def test_training_options(run, tmp_path, more):
    code, out, err = run("train", "digits", *QUICK, *more, "--out", str(tmp_path / "run"), "--json")
    assert code == 0, err
    assert json.loads(out)["epochs"] == 8
    assert "DEBUG" not in err


def test_multi_label_classification(run, tmp_path):
    write_friends(tmp_path / "friends")
    nodes = pl.read_csv(tmp_path / "friends/nodes.csv")
    label = pl.when(pl.col("label") == "tea").then(pl.lit("tea;tall")).otherwise(pl.lit("coffee"))
    nodes.with_columns(label.alias("label")).write_csv(tmp_path / "friends/nodes.csv")
    (tmp_path / "friends/schema.yaml").write_text("task: multi-label\n")
    code, out, err = run("train", "--data", str(tmp_path / "friends"), *QUICK, "--out", str(tmp_path / "run"), "--json")
    assert code == 0, err
    assert json.loads(out)["metric"] == "roc-auc"
    code, _, err = run("predict", str(tmp_path / "run"), "--out", str(tmp_path / "p.csv"))
    assert code == 0, err
    assert "prediction tall" in pl.read_csv(tmp_path / "p.csv").columns


def test_edge_weights_change_the_outputs_of_graphs(run, tmp_path):
    from tgnn.data import GraphDataset
    from tgnn.models import DataShape, build_model

    arrays = {"num_nodes": [2], "num_edges": [1], "edge_index": [[0], [1]], "y": [0], "x": [[1.0], [2.0]]}
    model = build_model("tgnn", DataShape("graph", 1, None, 2), 8, 1, 0.0, {}).eval()
    one, other = (model(GraphDataset(arrays | {"edge_weight": [w]}).batch([0])) for w in (1.0, 0.0))
    assert not torch.allclose(one, other)


def test_a_folder_with_the_name_of_a_data_set(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_friends(tmp_path / "karate")
    code, _, err = run("train", "--data", "karate", *QUICK, "--out", "run")
    assert code == 0, err
    code, _, err = run("predict", "run", "--data", "karate")
    assert code == 0, err
    assert pl.read_csv("predictions.csv").height == 60
    code, out, err = run("evaluate", "run", "--data", "karate", "--json")
    assert code == 0, err
    assert json.loads(out)["test"] == json.loads(out)["recorded"]


def test_a_run_is_not_resumed_on_other_data(run, tmp_path):
    write_friends(tmp_path / "friends")
    arguments = ["train", "--data", str(tmp_path / "friends"), *QUICK, "--out", str(tmp_path / "run")]
    assert run(*arguments)[0] == 0
    (tmp_path / "run/metrics.json").unlink()
    write_friends(tmp_path / "friends", seed=5)
    code, _, err = run("train", "--resume", str(tmp_path / "run"))
    assert code == 2
    assert "cannot be resumed, because the data changed" in err


def test_quiet_prints_nothing_and_the_log_file_holds_everything(run, tmp_path):
    arguments = ["--quiet", "--log-file", str(tmp_path / "log.txt"), "train", "karate", *QUICK]
    code, _, err = run(*arguments, "--out", str(tmp_path / "run"))
    assert code == 0
    assert err == ""
    log = (tmp_path / "log.txt").read_text()
    assert "test accuracy: " in log
    assert all(f"epoch {number}: loss" in log for number in range(1, 9))


def test_history_holds_diagnostics_of_the_product_branch(run, tmp_path):
    run("train", "karate", *QUICK, "--set", "model.mix=scalar", "--out", str(tmp_path / "run"))
    first = json.loads((tmp_path / "run/history.jsonl").read_text().splitlines()[0])
    assert {"loss", "val_accuracy", "gradient", "gradient/product", "a_high/gnn.convs.0"} <= set(first)
    assert 0 <= first["saturated/gnn.convs.0.cp"] <= 1


def test_tensorboard_logs_every_epoch(run, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    code, _, err = run("train", "karate", *QUICK, "--track", "tensorboard", "--out", str(tmp_path / "run"))
    assert code == 0, err
    events = EventAccumulator(str(tmp_path / "run/tensorboard"))
    events.Reload()
    assert len(events.Scalars("loss")) == 8
    assert len(events.Scalars("test")) == 1


# ---- errors of the user, in subprocesses ------------------------------------------------------------------------

MISTAKES = {
    "an unknown data set": (["train", "kora"], "did you mean cora"),
    "an unknown setting of the model": (["train", "karate", "--set", "model.rnak=1"], "did you mean model.rank"),
    "a column with a typo": (["train", "--data", "typo"], "'heigth'"),
    "no data at all": (["train"], "Give a data set by name"),
    "damaged weights": (["predict", "damaged"], "is damaged, or not a file of tgnn"),
    "a folder that is taken": (["train", "karate", "--out", "whole"], "already holds a run"),
}


HERE = {  # in this process, which is faster
    "an unknown model": (["train", "karate", "--model", "tgn"], "did you mean tgnn"),
    "an unknown setting": (["train", "karate", "--set", "optimizer.lrr=1"], "did you mean optimizer.lr"),
    "a rank below 0": (["train", "karate", "--rank", "-1"], "--rank"),
    "a rank that is no whole number": (["train", "karate", "--set", "model.rank=2.5"], "model.rank is 2.5"),
    "a value that is none": (["train", "karate", "--set", "optimizer.lr=[1"], "is not a valid value"),
    "a run with other settings": (
        ["train", "--resume", "whole", "--epochs", "9"],
        "with its own configuration",
    ),
    "a dry run of one that goes on": (
        ["train", "--resume", "whole", "--dry-run"],
        "with its own configuration",
    ),
    "more runs than it has": (["train", "--resume", "whole", "--runs", "7"], "with its own configuration"),
    "a GPU that is not there": (["train", "karate", "--device", "cuda:7"], "train.device is 'cuda:7'"),
    "no labels": (["train", "--data", "unlabeled"], "label"),
    "an unknown split": (["train", "karate", "--split", "public"], "per-class-quota"),
    "no run folder": (["evaluate", "nowhere"], "is not a run folder"),
    "weights of another model": (["predict", "other"], "belongs to another model"),
    "half a run folder": (["predict", "half"], "half/model.safetensors is missing: part of the folder was deleted"),
    "half a run to go on with": (
        ["train", "--resume", "half"],
        "tgnn train --recipe half/config.yaml --out half-again",
    ),
    "a run without facts": (["evaluate", "no_facts"], "no_facts/data.json is missing"),
    "a recipe that is not there": (["train", "karate", "--recipe", "none.yaml"], "none.yaml does not exist"),
    "a name and a path": (["train", "karate", "--data", "typo"], "Give NAME or --data, not both"),
    "a name twice": (["train", "karate", "--set", "data.name=cora"], "Give NAME or --set data.name=..., not both"),
    "a wrong setting, dry": (["train", "karate", "--dry-run", "--set", "model.mix=foo"], "mix"),
    "batches of one graph": (["train", "karate", "--batch-size", "9", "--out", "new"], "needs train.num_neighbors"),
    "a sample of no numbers": (["train", "karate", "--sample", "5,x"], "is '5,x', but it should be integers"),
    "a sample too short": (
        ["train", "karate", "--sample", "5"],
        "each of the 2 hops that tgnn aggregates, e.g. --sample 10,5",
    ),
    "a file for a folder": (["train", "karate", "--out", "typo/nodes.csv"], "typo/nodes.csv is a file"),
    "a folder below a file": (["train", "karate", "--out", "typo/nodes.csv/run"], "typo/nodes.csv is a file"),
    "an option of all verbs": (["train", "karate", "--quiet"], "--quiet goes before the command: tgnn --quiet train"),
    "a table for molecules": (
        ["predict", "of_molecules", "--data", "typo"],
        "was trained on molecules, but typo is a folder",
    ),
    "molecules for a table": (
        ["predict", "of_tables", "--data", "molecules.csv"],
        "was trained on a folder of tables of one graph, but molecules.csv is molecules",
    ),
    "data that was moved": (
        ["evaluate", "of_molecules"],
        "of_molecules was trained on elsewhere.csv, which does not exist",
    ),
    "predictions that are there": (["predict", "whole", "--out", "typo/nodes.csv"], "Use --force to overwrite it"),
    "a target that is a folder": (
        ["predict", "whole", "--force", "--out", "f.csv"],
        "f.csv cannot be written: is a dir",
    ),
    "an unreadable molecule": (["train", "--data", "unreadable.csv"], "line 3: RDKit cannot parse the molecule 'C(('"),
}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory) -> Path:
    """Valid and damaged data and runs."""
    place = tmp_path_factory.mktemp("work")
    write_friends(place / "typo")
    (place / "typo/schema.yaml").write_text("nodes:\n  features:\n    heigth: numeric\n")
    write_friends(place / "unlabeled", labels=False)
    warm.run(warm.TGNN, "train", "karate", "--epochs", "2", "--out", "whole", folder=place).check_returncode()
    for name in ("half", "other", "damaged", "no_facts", "of_molecules", "of_tables"):
        shutil.copytree(place / "whole", place / name)
    (place / "half/model.safetensors").unlink()
    (place / "no_facts/data.json").unlink()
    (place / "f.csv").mkdir()
    (place / "molecules.csv").write_text("smiles\nCO\n")
    (place / "unreadable.csv").write_text("smiles,label\nCO,1\nC((,0\n")
    for name, kind in (("of_molecules", "smiles"), ("of_tables", "table")):
        facts = json.loads((place / name / "data.json").read_text())
        (place / name / "data.json").write_text(json.dumps(facts | {"encoding": {"kind": kind}}))
        settings = yaml.safe_load((place / name / "config.yaml").read_text())
        settings["data"]["name"] = "elsewhere.csv"
        (place / name / "config.yaml").write_text(yaml.safe_dump(settings))
    config = yaml.safe_load((place / "other/config.yaml").read_text())
    config["model"]["rank"] = 3
    (place / "other/config.yaml").write_text(yaml.safe_dump(config))
    (place / "damaged/model.safetensors").write_bytes(b"nothing")
    return place


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_is_a_short_message_and_exit_code_2(tgnn, workplace, mistake):
    arguments, message = MISTAKES[mistake]
    before = sorted(str(path) for path in workplace.rglob("*"))
    code, out, err = tgnn(*arguments, folder=workplace)
    assert code == 2, err
    assert message in " ".join(re.sub("[│╭╮╰╯─]", " ", err).split())
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 12
    assert out == ""
    assert sorted(str(path) for path in workplace.rglob("*")) == before  # no file was created or deleted


@pytest.mark.parametrize("mistake", HERE)
def test_an_error_message_says_what_to_do(run, workplace, monkeypatch, mistake):
    arguments, message = HERE[mistake]
    monkeypatch.chdir(workplace)
    before = sorted(str(path) for path in workplace.rglob("*"))
    code, out, err = run(*arguments)
    assert code == 2, err
    assert message in " ".join(re.sub("[│╭╮╰╯─]", " ", err).split())
    assert "Errno" not in err
    assert out == ""
    assert sorted(str(path) for path in workplace.rglob("*")) == before


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


# ---- help and doctor -------------------------------------------------------------------------------------------


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
    assert seconds < 2  # of its own, however busy the machine is; 0.3 s on an idle one


def test_doctor(run):
    code, out, _ = run("doctor", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["backends"]["torch"] == "available"
    assert "compiler" in report["machine"]
    assert "versions" in run("doctor")[1]


def test_a_log_file_gets_everything(run, tmp_path):
    code, _, err = run("--quiet", "--log-file", str(tmp_path / "log/x.txt"), "data", "fetch", "citeseer", "--offline")
    assert code == 1
    assert (tmp_path / "log/x.txt").exists()
    assert err.startswith("error:")
