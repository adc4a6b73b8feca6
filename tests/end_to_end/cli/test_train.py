"""The commands ``tgnn train``, ``evaluate``, ``predict``, ``doctor`` and ``bench``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from tests.end_to_end.cli.conftest import write_friends, write_tables
from tgnn.training.run_folder import RunFolder

# ---- training, evaluation and prediction ------------------------------------------------------------------------


@pytest.mark.slow
def test_train_evaluate_and_predict(tgnn, tmp_path):
    code, out, err = tgnn("train digits --epochs 30 --out run", installed=True)
    assert code == 0, err
    assert "test accuracy" in out
    assert "saved in" in out
    assert "epoch 1/30" in err
    assert "\x1b" not in out + err
    files = [
        "checkpoint.safetensors",
        "config.yaml",
        "data.json",
        "environment.json",
        "history.jsonl",
        "metrics.json",
        "model.safetensors",
    ]
    assert sorted({path.name for path in (tmp_path / "run").iterdir()} - {".lock"}) == files
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"] > 0.9
    history = [json.loads(line) for line in (tmp_path / "run/history.jsonl").read_text().splitlines()]
    assert len(history) == metrics["epochs"]
    assert history[metrics["best_epoch"] - 1]["val_accuracy"] == metrics["val"]
    assert f"at epoch {metrics['best_epoch']} of 30" in out
    assert not any(line.endswith(" ") for line in out.splitlines())

    code, out, err = tgnn("evaluate run --json")
    assert code == 0, err
    assert json.loads(out)["test"] == metrics["test"]

    for name in ("p.csv", "p.parquet"):
        code, out, err = tgnn(f"predict run --out {name}")
        assert code == 0, err
        assert "probability 1, …" in out
    table = pl.read_csv(tmp_path / "p.csv")
    assert table.height == 1797
    assert table.columns[:5] == ["id", "split", "label", "prediction", "probability 0"]
    assert pl.read_parquet(tmp_path / "p.parquet").columns == table.columns


def test_own_tables_and_new_nodes(succeed, tmp_path):
    write_friends(tmp_path / "friends")
    write_friends(tmp_path / "strangers", people=40, seed=1, labels=False)
    succeed("train --data friends --epochs 60 --out run")
    succeed("predict run --data strangers --out p.csv")
    table = pl.read_csv(tmp_path / "p.csv")
    assert table["id"][0] == "p1-0"
    assert table.columns == ["id", "prediction", "probability coffee", "probability tea"]
    truth = ["tea" if i % 2 == 0 else "coffee" for i in range(40)]
    assert (table["prediction"] == pl.Series(truth)).mean() > 0.85


def test_regression_on_molecules(read, tmp_path):
    lines = [f"{'C' * (i % 12 + 1)}O,{i % 12 + 0.5}\n" for i in range(60)]
    (tmp_path / "molecules.csv").write_text("smiles,solubility\n" + "".join(lines))
    assert read("train --data molecules.csv --epochs 8 --out run")["metric"] == "mae"
    assert read("predict run --out p.csv") == {"rows": 60, "file": "p.csv", "unreadable": []}
    assert pl.read_csv(tmp_path / "p.csv").columns == ["id", "split", "label", "prediction"]


def test_prior_correction(read, succeed, tmp_path):
    """The training set has uniform class priors. Predictions have those of the validation set, on new data too."""
    odd = np.arange(300) % 3 == 0
    nodes = {"id": range(300), "x": odd + np.arange(300) % 7 / 7, "label": np.where(odd, "a", "b")}
    write_tables(tmp_path / "data", nodes, range(295), range(5, 300))
    output, shift = {}, {}
    for priors in ("none", "validation"):
        options = f"--split per-class-quota --epochs 1 --set train.prior_correction={priors}"
        succeed(f"train --data data --out {priors} {options}")
        shift[priors] = json.loads((tmp_path / priors / "data.json").read_text())["task"]["log_prior_ratio"]
        found = read(f"evaluate {priors}")
        assert found["test"] == found["recorded"]
        succeed(f"predict {priors} --data data --out {priors}.csv")
        output[priors] = pl.read_csv(f"{priors}.csv").select("probability a", "probability b").to_numpy()
    assert shift["none"] == []
    assert max(map(abs, shift["validation"])) > 0.5
    odds = output["none"] * np.exp(shift["validation"])
    assert output["validation"] == pytest.approx(odds / odds.sum(1, keepdims=True), abs=1e-4)


def test_new_data_is_standardized_with_the_training_data(read, succeed, tmp_path):
    pay = np.random.default_rng(0).normal(30_000, 8_000, 300).round()
    for name, some in (("data", pay), ("new", pay[pay < 30_000])):
        nodes = {"id": range(len(some)), "pay": some, "label": np.where(some > 30_000, "rich", "poor")}
        write_tables(tmp_path / name, nodes, range(len(some) - 1), range(1, len(some)))
    assert read("train --data data --epochs 150 --out run")["test"] > 0.9  # with pay as stored: 0.77
    succeed("predict run --data new --out p.csv")
    assert (pl.read_csv(tmp_path / "p.csv")["prediction"] == "poor").mean() > 0.9


def test_several_runs(read, succeed, run, tmp_path):
    found = read("train karate --epochs 8 --runs 3 --jobs 1 --out runs")
    values = [row["test"] for row in found["each"]]
    assert found["mean"] == pytest.approx(np.mean(values))
    assert found["std"] == pytest.approx(np.std(values, ddof=1))
    assert found["interval"][0] <= found["mean"] <= found["interval"][1]
    assert len({row["split_hash"] for row in found["each"]}) == 3
    out = succeed("train --resume runs --jobs 1")
    assert "over 3 runs" in out
    assert "karate (stratified split, one per seed)" in out
    code, _, err = run("evaluate runs")
    assert code == 2
    assert "holds 3 runs with test sets of their own. Evaluate one of them, such as runs/seed-0" in err
    assert run("train karate --batch-size 9 --runs 2 --jobs 1 --out a/b")[0] == 2
    assert not (tmp_path / "a").exists()


def test_warnings_about_data_are_printed_once(run, tmp_path):
    write_friends(tmp_path / "friends", same=60 * [1])
    code, _, err = run("train --data friends --epochs 1 --runs 2 --jobs 1 --out runs")
    assert code == 0, err
    assert err.count("'same'") == 1
    assert str(tmp_path) not in err
    assert "friends tgnn: seed 0" in err


@pytest.mark.parametrize("name", ["", "digits"])
def test_a_recipe_can_name_its_data(run, tmp_path, name):
    (tmp_path / "mine.yaml").write_text("data: {name: karate}\nmodel: {name: gcn}\n")
    code, out, err = run(f"train {name} --recipe mine.yaml --dry-run --json")
    assert code == 0, err
    config = json.loads(out)
    assert (config["data"]["name"], config["model"]["name"]) == (name or "karate", "gcn")
    assert ("The recipe is for karate; training on digits as requested" in err) == bool(name)


def test_a_dry_run_prints_the_configuration(read, succeed, tmp_path):
    command = "train cora --dry-run --rank 3 --lr 0.5 --sample 5,-1 --set model.mix=scalar"
    config = yaml.safe_load(succeed(command))
    assert (config["model"]["rank"], config["model"]["mix"]) == (3, "scalar")
    assert (config["optimizer"]["lr"], config["train"]["num_neighbors"]) == (0.5, [5, -1])
    assert not (tmp_path / "runs").exists()
    assert read(command)["hash"]


@pytest.mark.parametrize(
    "options",
    [
        "--sample 4,4 --batch-size 128",
        "--precision bfloat16",
        "--set optimizer.schedule=cosine --set optimizer.grad_clip=1.0 --set optimizer.name=adamw",
        "--set model.mix=scalar --set model.factors=tempered",
    ],
)
def test_training_options(run, options):
    code, out, err = run(f"train digits --epochs 8 --out run --json {options}")
    assert code == 0, err
    assert json.loads(out)["epochs"] == 8
    assert "DEBUG" not in err


def test_multi_label_classification(read, succeed, tmp_path):
    write_friends(tmp_path / "friends", label=["tea;tall", "coffee"] * 30)
    (tmp_path / "friends/schema.yaml").write_text("task: multi-label\n")
    assert read("train --data friends --epochs 8 --out run")["metric"] == "roc-auc"
    succeed("predict run --out p.csv")
    assert "prediction tall" in pl.read_csv(tmp_path / "p.csv").columns


def test_a_folder_with_the_name_of_a_data_set(read, succeed, run, tmp_path):
    """The folder is preferred. A run is not resumed if its data has changed."""
    write_friends(tmp_path / "karate")
    succeed("train --data karate --epochs 8 --out run")
    succeed("predict run --data karate")
    assert pl.read_csv("predictions.csv").height == 60
    found = read("evaluate run --data karate")
    assert found["test"] == found["recorded"]
    assert f"test accuracy {found['test']:.4f} (recorded after training" in succeed("evaluate run")
    (tmp_path / "run/metrics.json").unlink()
    write_friends(tmp_path / "karate", seed=5)
    code, _, err = run("train --resume run")
    assert code == 2
    assert "cannot be resumed or evaluated, because the data changed" in err


def test_a_quiet_run_logs_every_epoch(run, tmp_path):
    """The log file holds all messages, TensorBoard all metrics, and the history diagnostics of the product branch."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    options = "--track tensorboard --set model.mix=scalar --out run"
    code, _, err = run(f"--quiet --log-file log/x.txt train karate --epochs 8 {options}")
    assert (code, err) == (0, "")
    log = (tmp_path / "log/x.txt").read_text()
    assert "test accuracy: " in log
    assert all(f"epoch {number}: loss" in log for number in range(1, 9))
    events = EventAccumulator("run/tensorboard")
    events.Reload()
    assert (len(events.Scalars("loss")), len(events.Scalars("test"))) == (8, 1)
    first = json.loads((tmp_path / "run/history.jsonl").read_text().splitlines()[0])
    assert {"loss", "val_accuracy", "gradient", "gradient/product", "a_high/gnn.convs.0"} <= set(first)
    assert 0 <= first["saturated/gnn.convs.0.cp"] <= 1


# ---- errors of the user -----------------------------------------------------------------------------------------


def test_an_error_is_printed_once_after_its_traceback(run):
    code, _, err = run("--verbose train croa")
    assert code == 2
    assert err.count("error: croa is neither a file or folder nor a data set") == 1


def test_a_full_disk_keeps_the_last_checkpoint(tgnn, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        code, _, err = tgnn(f"train digits --epochs 4 --out {disk / 'run'} --set train.save_every=0")
        assert code == 2
        assert "No space left" in err or "storage" in err.lower()
        assert "Traceback" not in err
        assert not list((disk / "run").glob("*.part"))
        resume = f"train --resume {disk / 'run'}"
        assert tgnn(resume)[0] == 2
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        code, _, err = tgnn(resume)
        assert code == 0, err
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# ---- help and doctor --------------------------------------------------------------------------------------------


def test_help_does_not_import_torch():
    """All help pages are printed without the libraries that take seconds to import."""
    script = (
        "import sys\n"
        "from tests.snapshots.help import current_help\n"
        "assert all('--help' in page for page in current_help().values())\n"
        "assert not {'torch', 'numpy', 'polars', 'sklearn', 'torch_geometric'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[3])


def test_the_installed_command_and_the_module_are_the_same():
    for command in ([Path(sys.executable).with_name("tgnn")], [sys.executable, "-m", "tgnn"]):
        found = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert found.stdout.startswith("tgnn ")


def test_doctor(read, succeed):
    report = read("doctor")
    assert report["backends"]["torch"] == "available"
    assert "compiler" in report["machine"]
    assert "versions" in succeed("doctor")


def test_bench(read, succeed):
    small = "bench --nodes 50 --edges 200 --rank 4 --repeat 1"
    times = read(small)
    assert {"sum, PyG", "product, torch"} <= times.keys()
    assert min(times.values()) > 0
    assert succeed(small).split()[:3] == ["operator", "milliseconds", "relative"]


def test_a_finished_run_is_extended(read, run, tmp_path):
    read("train karate --epochs 5 --out short")
    read("train karate --epochs 9 --out long")
    extended = read("train --resume short --epochs 9")
    assert extended["epochs"] == 9
    history = [RunFolder(tmp_path / name).history() for name in ("short", "long")]
    assert [[row["loss"] for row in rows] for rows in history] == [[row["loss"] for row in history[1]]] * 2
    metrics = [RunFolder(tmp_path / name).metrics for name in ("short", "long")]
    assert metrics[0]["model_sha256"] == metrics[1]["model_sha256"]
    assert read("train --resume short")["epochs"] == 9  # as it is
    code, _, err = run("train --resume short --epochs 4")
    assert (code, "short has finished 9 epochs" in err) == (2, True)
    assert run("train --resume short --epochs 12 --patience 1")[0] == 0
    assert RunFolder(tmp_path / "short").config.train.patience == 1


def test_a_run_continues_after_its_data_was_moved(read, run, tmp_path):
    write_friends(tmp_path / "friends")
    write_friends(tmp_path / "others", seed=1)
    read("train --data friends --epochs 5 --no-baselines --out run")
    read("train --data friends --epochs 9 --no-baselines --out long")
    read("train --data friends --epochs 3 --runs 2 --jobs 1 --out runs")
    (tmp_path / "friends").rename(tmp_path / "moved")
    assert read("train --resume run")["epochs"] == 5  # a finished run needs no data
    for command, message in (
        ("train --resume run --epochs 9", "friends, which does not exist. Restore it, or give its path with --data."),
        ("train --resume run --epochs 9 --data nowhere", "nowhere is neither a file or folder"),
        ("train --resume run --epochs 9 --data others", "others is not the data of run: its hash is "),
        ("train --resume run --data others", "others is not the data of run: its hash is "),
    ):
        code, _, err = run(command)
        assert (code, message in err, "Continue with" in err) == (2, True, False), err
    assert RunFolder(tmp_path / "run").is_finished
    assert read("train --resume run --data moved")["epochs"] == 5
    assert read("train --resume run --data moved --epochs 9")["epochs"] == 9
    losses = [[row["loss"] for row in RunFolder(tmp_path / name).history()] for name in ("run", "long")]
    assert losses[0] == losses[1]
    assert read("evaluate run")["recorded"] == read("evaluate run")["test"]  # from its new path

    (tmp_path / "runs/seed-1/metrics.json").unlink()
    (tmp_path / "runs/summary.json").unlink()
    code, _, err = run("train --resume runs --data others --jobs 1")
    assert (code, "others is not the data of runs/seed-0" in err) == (2, True)
    assert read("train --resume runs --data moved --jobs 1")["runs"] == 2


def test_the_hint_to_continue_repeats_the_options(run, monkeypatch, tmp_path):
    write_friends(tmp_path / "friends")
    assert run("train --data friends --epochs 2 --out run")[0] == 0

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tgnn.training.loop.save_checkpoint", fail)
    code, _, err = run("train --resume run --data friends --epochs 60 --patience 9")
    assert code != 0
    assert "Continue with: tgnn train --resume run --data friends --epochs 60 --patience 9" in err
