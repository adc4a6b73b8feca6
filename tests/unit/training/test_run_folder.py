"""The public functions `train`, `predict` and `load_run`, and the run folder behind them."""

from __future__ import annotations

import importlib
import json
import logging
from functools import partial

import polars
import pytest

import tgnn
from tgnn.data.validation.report import DataError
from tgnn.training import loaders, prepare
from tgnn.training import train as train_module
from tgnn.training.config import ConfigError
from tgnn.training.distributed.world import World
from tgnn.training.interrupts import Interrupted
from tgnn.training.loop import Trainer
from tgnn.training.metrics import find_best_epoch
from tgnn.training.recipes import resolve
from tgnn.training.repeated_runs import RunGroup
from tgnn.training.run_folder import RunError, RunFolder
from tgnn.training.train import resolve_config, train_run

QUICK = {"train.epochs": 4, "model.rank": 4}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunFolder:
    return tgnn.train("karate", out=tmp_path_factory.mktemp("runs") / "run", options=QUICK)


def test_train_returns_the_run_and_load_run_opens_it(run):
    opened = tgnn.load_run(run.path)
    assert isinstance(opened, RunFolder)
    assert opened.metrics == run.metrics
    assert opened.config.model.arguments["rank"] == 4
    assert opened.is_finished
    assert not opened.is_running
    assert opened.environment["processes"] == 1
    assert opened.shape.outputs == opened.load_model()(tgnn.data.load("karate")).size(1)


def test_the_best_epoch_has_one_definition(run):
    assert run.best_epoch == run.metrics["best_epoch"]
    history = [{"val_accuracy": 0.5, "val_loss": loss} for loss in (1.0, 0.8, 0.9)]
    assert find_best_epoch(history, "accuracy") == 2
    history += [{"val_accuracy": 0.6, "val_loss": 2.0}, {"val_accuracy": None, "val_loss": None}]
    assert find_best_epoch(history, "accuracy") == 4
    assert find_best_epoch(history, "accuracy", "loss") == 2
    assert find_best_epoch([], "mae") is None


def test_predict_and_evaluate(run, tmp_path):
    predictions = tgnn.predict(run, out=tmp_path / "p.csv")
    assert polars.read_csv(tmp_path / "p.csv").height == len(predictions) == 34
    assert run.evaluate()["test"] == run.metrics["test"]
    with pytest.raises(ValueError, match=r"p.txt must end in .csv or .parquet"):
        predictions.write(tmp_path / "p.txt")


def test_an_interrupted_run_is_resumed(run, tmp_path):
    def interrupt(epoch):
        if epoch.number == 1:
            raise Interrupted

    with pytest.raises(Interrupted):
        tgnn.train("karate", out=tmp_path / "run", options={**QUICK, "train.save_every": 0}, on_epoch=interrupt)
    stopped = tgnn.load_run(tmp_path / "run")
    with pytest.raises(RunError, match="is not finished"):
        _ = stopped.metrics
    assert stopped.resume().metrics["test"] == run.metrics["test"]


def test_several_runs(tmp_path):
    seeds = []
    options = {**QUICK, "train.epochs": 2}
    more = {"runs": 2, "jobs": 1, "on_run": lambda metrics: seeds.append(metrics["seed"])}
    group = tgnn.train("karate", out=tmp_path / "runs", options=options, **more)
    assert isinstance(group, RunGroup)
    assert isinstance(tgnn.load_run(group.path), RunGroup)
    assert seeds == [0, 1]
    assert [one.metrics["test"] for one in group.runs] == [one["test"] for one in group.metrics["each"]]
    tests = [one["test"] for one in group.metrics["each"]]
    (group.runs[1].path / "metrics.json").unlink()
    group.resume(jobs=1, on_run=lambda metrics: seeds.append(metrics["seed"]))
    assert [one["test"] for one in group.metrics["each"]] == tests
    assert seeds == [0, 1, 0, 1]
    assert tgnn.predict(group).std is not None
    assert "std" in group.predict().table().columns
    with pytest.raises(RunError, match=r"holds 2 runs. Use one of them"):
        RunFolder(group.path).load_model()
    with pytest.raises(RunError, match="holds runs with another configuration"):
        tgnn.train("karate", "gcn", out=group.path, options={"train.epochs": 1}, runs=2, jobs=1, resume=True)
    with pytest.raises(RunError, match="holds several runs"):
        tgnn.train("karate", out=group.path, options=options, resume=True)


def test_what_is_given_to_train_is_checked(tmp_path):
    config = resolve_config("karate")
    with pytest.raises(ConfigError, match="cannot be combined"):
        tgnn.train(config, "gcn")
    with pytest.raises(ConfigError, match="No data set is given"):
        tgnn.train(out=tmp_path / "run")
    with pytest.raises(ConfigError, match="Give data or the option data.name, not both"):
        tgnn.train("karate", options={"data.name": "cora"})
    with pytest.raises(RunError, match="is not a run folder"):
        tgnn.load_run(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_data_frames_are_stored_in_the_folder_of_the_run(tmp_path, monkeypatch, caplog, kind):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger("tgnn"), "propagate", True)  # a command disables it
    library = importlib.import_module(kind)
    nodes = library.DataFrame(
        {"id": [f"n{i}" for i in range(30)], "age": [i * i for i in range(30)], "churn": ["no", "yes"] * 15}
    )
    edges = library.DataFrame(
        {"source": [f"n{i}" for i in range(30)], "target": [f"n{min(i + 1, 29)}" for i in range(30)]}
    )
    run = tgnn.train((nodes, edges), target="churn", options=QUICK)
    assert run.path.parent.name == "runs"
    assert run.path.name.startswith("frames-")
    assert sorted(path.name for path in (run.path / "data_frames").iterdir()) == ["edges.parquet", "nodes.parquet"]
    predictions = tgnn.load_run(run.path).predict()
    assert predictions.names == ["no", "yes"]
    assert predictions.ids[:2] == ["n0", "n1"]
    loop = "edges, row 30: self-loop dropped; tGNN includes every node in its own neighborhood anyway"
    assert [record.getMessage() for record in caplog.records] == [loop] * 2  # train and predict
    with pytest.raises(RunError, match="already holds a run"):
        tgnn.train((nodes, edges), target="churn", out=run.path)
    with pytest.raises(ConfigError, match="Data frames cannot be given to a run that is resumed"):
        tgnn.train((nodes, edges), target="churn", out=run.path, resume=True)
    with pytest.raises(DataError, match="^The data frames cannot be used:\n- nodes: .*'chrn'"):
        tgnn.train((nodes, edges), target="chrn", out=tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()


def test_a_data_frame_of_molecules(tmp_path):
    pytest.importorskip("rdkit")
    frame = polars.DataFrame({"smiles": ["C" * (1 + i) for i in range(20)], "boiling": [i / 2 for i in range(20)]})
    run = tgnn.train(frame, target="boiling", task="regression", out=tmp_path / "run", options={"train.epochs": 2})
    assert len(run.predict()) == 20
    assert len(run.predict(frame.head(3))) == 3


def test_types_that_train_refuses(tmp_path):
    graph = tgnn.data.load("karate")
    with pytest.raises(TypeError, match="got Data. Graphs and arrays are for the estimators"):
        tgnn.train(graph, out=tmp_path / "run")
    with pytest.raises(TypeError, match="`nodes` must be a pandas or polars data frame, got Tensor. Arrays and lists"):
        tgnn.train((graph.x, graph.edge_index), out=tmp_path / "run")
    with pytest.raises(ConfigError, match="Give target or the option data.target, not both"):
        tgnn.train("friends", target="churn", options={"data.target": "age"})
    assert not list(tmp_path.iterdir())


def test_a_damaged_history_is_described_and_an_incomplete_last_line_is_ignored(tmp_path):
    lines = [json.dumps({"epoch": number}) for number in range(3)]
    (tmp_path / "history.jsonl").write_text("\n".join([lines[0], "{", lines[2], ""]))
    run = RunFolder(tmp_path)
    assert run.read_history() == ([{"epoch": 0}], "line 2 of history.jsonl is damaged")
    (tmp_path / "history.jsonl").write_text("\n".join([*lines, '{"ep']))
    assert run.read_history() == ([{"epoch": number} for number in range(3)], None)
    run.open_history(keep=2).close()
    assert run.history() == [{"epoch": 0}, {"epoch": 1}]


def test_the_model_is_built_once_and_batches_are_checked_once(tmp_path, monkeypatch):
    calls = []

    def count(name, function, *arguments, **keywords):
        calls.append(name)
        return function(*arguments, **keywords)

    for module, name in ((prepare, "build_model"), (prepare, "load"), (loaders, "check_batching")):
        monkeypatch.setattr(module, name, partial(count, name, getattr(module, name)))
    tgnn.train("karate", out=tmp_path / "run", options={"train.epochs": 1})
    assert sorted(calls) == ["build_model", "check_batching", "load"]


@pytest.mark.parametrize("options", [{"model.norm": "no_such_norm"}, {"model.act": "no_such_activation"}])
def test_a_model_that_cannot_be_built_leaves_no_folder(tmp_path, options):
    with pytest.raises(ValueError, match="no_such"):
        tgnn.train("karate", out=tmp_path / "new" / "run", options=options)
    assert not list(tmp_path.iterdir())


# ---- existing runs ---------------------------------------------------------------------------------------------


def test_a_run_of_another_configuration_is_not_resumed(tmp_path):
    run = tgnn.train("karate", out=tmp_path / "run", options=QUICK)
    before = run.metrics
    assert tgnn.train("karate", out=run.path, options=QUICK, resume=True).metrics == before
    with pytest.raises(RunError, match="already holds a run"):
        tgnn.train("karate", out=run.path, options=QUICK)
    with pytest.raises(RunError, match="holds a finished run with another configuration"):
        tgnn.train("karate", "gcn", out=run.path, options={"train.epochs": 1}, resume=True)
    with pytest.raises(RunError, match="holds a single run"):
        tgnn.train("karate", out=run.path, options=QUICK, runs=2, resume=True)
    assert tgnn.load_run(run.path).metrics == before


def test_a_run_that_another_process_finishes_during_a_resume_is_kept(tmp_path, monkeypatch):
    """The folder is checked before the data is loaded, and again when it is locked."""
    run = tgnn.train("karate", out=tmp_path / "run", options=QUICK)
    metrics = (run.path / "metrics.json").read_bytes()
    (run.path / "metrics.json").unlink()

    def prepare_slowly(config):
        prepared = prepare.prepare(config)
        (run.path / "metrics.json").write_bytes(metrics)
        return prepared

    monkeypatch.setattr("tgnn.training.train.prepare", prepare_slowly)
    with pytest.raises(RunError, match="Another process has just finished the run"):
        run.resume()
    assert (run.path / "metrics.json").read_bytes() == metrics


def test_a_restarted_job_does_not_return_another_run(tmp_path):
    """The job id stays the same after a restart, but the folder may hold a run of another configuration."""
    changes = {"train.epochs": 2, "train.patience": 2}
    config = resolve("karate", "tgnn", "node", changes=changes)
    first = train_run(config, tmp_path / "run", world=World(job_id="mine"))
    assert train_run(config, tmp_path / "run", world=World(job_id="mine")) == first
    other = resolve("karate", "gcn", "node", changes=changes)
    for world in (World(job_id="mine"), World(job_id="mine", restarts=1), World(restarts=1)):
        with pytest.raises(RunError, match="already holds a run"):
            train_run(other, tmp_path / "run", world=world)


def test_a_full_disk_at_the_start_leaves_no_run(tmp_path, monkeypatch):
    from tgnn.training import run_folder as run

    def full(path, value, write=run.write_json):
        if path.name == run.DATA:
            raise OSError(28, "No space left on device", str(path))
        write(path, value)

    config = resolve("karate", "tgnn", "node", changes={"train.epochs": 2})
    with monkeypatch.context() as patch:
        patch.setattr(run, "write_json", full)
        with pytest.raises(OSError, match="No space left"):
            train_run(config, tmp_path / "run")
    assert train_run(config, tmp_path / "run")["epochs"] == 2


def test_is_running(tmp_path):
    seen = []
    config = resolve("karate", "gcn", "node", changes={"train.epochs": 1})
    run = RunFolder(tmp_path / "run")
    train_run(config, run, on_epoch=lambda epoch: seen.append(run.is_running))
    assert (seen, run.is_running, RunFolder(tmp_path).is_running) == ([True], False, False)


def test_compiling_the_kernel_is_not_part_of_the_training_time(monkeypatch, tmp_path):
    order = []
    fit, load = Trainer.fit, train_module.cpp_build.load
    monkeypatch.setattr(train_module.cpp_build, "load", lambda: (order.append("load"), load())[1])
    monkeypatch.setattr(Trainer, "fit", lambda *args, **options: (order.append("clock"), fit(*args, **options))[1])
    train_run(resolve("karate", "gcn", "node", changes={"train.epochs": 1}), tmp_path / "run")
    assert order[:2] == ["load", "clock"]
