"""Running experiments: reuse of runs, failures, progress and merging of results."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace

import pytest
import torch

from tests.unit.experiments.make import KARATE, QUICK, cell
from tgnn.experiments import interactions
from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.experiment import Selection
from tgnn.experiments.formats import to_markdown
from tgnn.experiments.interactions import draw_sets
from tgnn.experiments.results import Result, join_runs, merge, read_result
from tgnn.experiments.runner import CELLS_FOLDER, ExperimentProgress, run_experiment

PATH = "table-karate.json"


def positions(result: Result) -> list[tuple[str, str, list[float]]]:
    return [(one.row, one.column, one.tests) for one in result.cells]


@pytest.mark.slow
@pytest.mark.parametrize("same_rows", [False, True], ids=["different rows", "rows with the same configuration"])
def test_finished_runs_are_reused(tmp_path, same_rows):
    table = replace(KARATE, rows=[("one", "gcn", {}), ("other", "gcn", {})]) if same_rows else KARATE
    seen = []

    def on_progress(progress):
        seen.append((progress.done, progress.reused, progress.failed))

    first = run_experiment(table, Selection(changes=QUICK, jobs=1 + same_rows), tmp_path, on_progress=on_progress)
    assert [len(one.runs) for one in first.cells] == [2, 2]
    assert seen[-1] == (4, 0, 0)
    assert len([path for path in (tmp_path / CELLS_FOLDER).iterdir() if path.is_dir()]) == (2 if same_rows else 4)
    again = run_experiment(table, Selection(changes=QUICK), tmp_path, on_progress=on_progress)
    assert seen[-1] == (4, 4, 0)
    assert again.cells == first.cells
    assert list(read_result(tmp_path / PATH).cells) == first.cells
    assert first.cells[0].runs[0].split_hash == first.cells[1].runs[0].split_hash
    assert "root" not in first.cells[0].config["data"]


def test_runs_of_a_result_file_are_reused_without_their_folders(tmp_path):
    reused = []

    def run(runs: int) -> Result:
        selection = Selection(models=["gcn"], changes=QUICK, runs=runs)
        return run_experiment(KARATE, selection, tmp_path, on_progress=lambda progress: reused.append(progress.reused))

    first = run(1)
    shutil.rmtree(tmp_path / CELLS_FOLDER)
    second = run(2)
    assert reused[-1] == 1
    assert second.cells[0].runs[0] == first.cells[0].runs[0]
    assert second.cells[0].metric == "accuracy"
    shutil.rmtree(tmp_path / CELLS_FOLDER)
    other_data = [replace(one, data_hash="another") for one in second.cells[0].runs]
    replace(second, cells=(replace(second.cells[0], runs=tuple(other_data)),)).write(tmp_path / PATH)
    assert [one.data_hash for one in run(2).cells[0].runs] == [one.data_hash for one in second.cells[0].runs]
    assert reused[-1] == 0


def test_folds_are_reused(tmp_path):
    small = {"data.split": "fold", "train.epochs": 1, "model.hidden_channels": 4, "model.num_layers": 1}
    selection = Selection(models=["gin"], datasets=["digits-graphs"], runs=2, changes=small)
    first = run_experiment(EXPERIMENTS["table-tu"], selection, tmp_path)
    again = run_experiment(EXPERIMENTS["table-tu"], selection, tmp_path)
    assert [len(one.runs) for one in first.cells] == [2]
    assert again.cells == first.cells


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: json.dumps(json.loads(text) | {"data_hash": "another"}), "run on other data"),
        (lambda text: json.dumps(json.loads(text) | {"split_hash": "another"}), "run on other data"),
        (lambda text: text[:20], "is damaged"),
        (lambda text: "[3]", "is damaged"),
        (lambda text: "{}", "is damaged: data is missing"),
    ],
)
def test_a_run_that_cannot_be_reused_fails_alone(damage, reason, tmp_path):
    run_experiment(KARATE, Selection(changes=QUICK, runs=1), tmp_path)
    path = next((tmp_path / CELLS_FOLDER).glob("karate-gcn-*")) / "metrics.json"
    path.write_text(damage(path.read_text()))
    found = run_experiment(KARATE, Selection(changes=QUICK, runs=2), tmp_path)
    assert reason in found.cells[0].failed
    assert "remove the folder" in found.cells[0].failed
    assert [len(one.runs) for one in found.cells] == [2, 2]  # the stored run of that seed is kept


def test_a_failed_cell_is_written_and_does_not_stop_the_others(tmp_path, caplog):
    broken = replace(KARATE, rows=[("gat", "gat", {"model.heads": 0}), *KARATE.rows])
    written = []

    def on_progress(progress):
        if progress.failed and not progress.done:
            written.append(read_result(tmp_path / PATH).cells[0].failed)

    found = run_experiment(broken, Selection(changes=QUICK, runs=1), tmp_path, on_progress=on_progress)
    assert "model.heads is 0" in written[0]
    assert [len(one.runs) for one in found.cells] == [0, 1, 1]
    assert "failed: model.heads is 0" in to_markdown(found)
    assert "model.heads is 0" in caplog.text


def test_curves_of_the_first_run_are_kept(tmp_path):
    mixing = replace(KARATE, rows=[("tgnn", "tgnn", {"model.mix": "scalar"})], series=("a_high/",))
    found = run_experiment(mixing, Selection(changes=QUICK, runs=1), tmp_path)
    assert {len(curve) for curve in found.cells[0].series.values()} == {2}


def test_cells_with_other_configurations_are_dropped(tmp_path, caplog):
    run_experiment(KARATE, Selection(changes=QUICK, runs=1), tmp_path)
    other = Selection(models=["gcn"], changes=QUICK | {"model.hidden_channels": 4}, runs=1)
    found = run_experiment(KARATE, other, tmp_path, "a line")
    assert [(one.row, one.config["model"]["hidden_channels"]) for one in found.cells] == [("gcn", 4)]
    assert "no longer contains cells with other configurations: gcn on karate, tgnn 4 on karate" in caplog.text
    assert found.command == "a line"
    unknown = [replace(found.cells[0], row="gone"), replace(found.cells[0], column="other", config={})]
    replace(found, cells=unknown).write(tmp_path / PATH)
    assert [one.row for one in run_experiment(KARATE, other, tmp_path).cells] == ["gcn"]
    assert "other configurations: gone on karate, gcn on other" in caplog.text
    (tmp_path / PATH).write_text("{}")
    run_experiment(KARATE, other, tmp_path)
    assert "The file is replaced." in caplog.text


def test_merge():
    """All runs of a cell have the same data, and all cells of a column the same splits."""
    then = Result("t", [cell("a", "x", [0.1, 0.2, 0.3]), cell("c", "x", [0.6]), cell("c", "y", [0.7])], "first")
    now = Result("t", [cell("b", "x", [0.5]), cell("a", "x", [0.4])], "second")
    found = merge(then, now, "abc", "x")
    rest = [("b", "x", [0.5]), ("c", "x", [0.6]), ("c", "y", [0.7])]
    assert positions(found) == [("a", "x", [0.4, 0.2, 0.3]), *rest]
    assert found.command == "first; second"
    assert merge(found, replace(now, command="first"), "abc", "x").command == "first; second"
    assert merge(now, now, "abc", "x") is now
    other_data = [replace(one, runs=(replace(one.runs[0], data_hash="e", split_hash="o"),)) for one in now.cells]
    found = merge(then, replace(now, cells=other_data), "abc", "x")
    assert positions(found) == [("a", "x", [0.4]), ("b", "x", [0.5]), ("c", "y", [0.7])]
    failed = replace(cell("a", "x", []), metric="", failed="its data was not found")
    drawn = replace(then, cells=[replace(then.cells[0], note="a note", series={"a_high": [0.5]})])
    (kept,) = merge(drawn, replace(now, cells=[failed]), "abc", "x").cells
    assert (kept.tests, kept.metric, kept.failed) == ([0.1, 0.2, 0.3], "accuracy", "its data was not found")
    assert (kept.note, kept.series) == ("a note", {"a_high": [0.5]})


def test_a_second_process_on_the_same_table_is_rejected(tmp_path):
    refused = []

    def on_progress(progress):
        if progress.running and not refused:
            with pytest.raises(ValueError, match="another process is running table-karate in") as error:
                run_experiment(KARATE, Selection(changes=QUICK), tmp_path)
            refused.append(error)

    found = run_experiment(KARATE, Selection(changes=QUICK, runs=1), tmp_path, on_progress=on_progress)
    assert refused
    assert [len(one.runs) for one in found.cells] == [1, 1]


def test_remaining_time_accounts_for_parallel_runs():
    progress = ExperimentProgress(10, done=4, seconds=[10.0, 20.0], jobs=2)
    assert progress.seconds_left == 45
    assert replace(progress, jobs=100).seconds_left == 15
    assert ExperimentProgress(10).seconds_left is None


def test_a_failed_measurement_does_not_stop_the_others(tmp_path, caplog):
    def measure(row, column, seed, store, options):
        if row == "b" and seed == 1:
            raise RuntimeError("too big")
        return measured_run(row, column, seed)

    seen = []
    measured = replace(KARATE, rows=[(row, row, {}) for row in "ab"], columns={"x": ("x", {})}, measure=measure)
    on_progress = lambda now: seen.append((now.done, now.failed, now.left))  # noqa: E731
    found = run_experiment(measured, Selection(), tmp_path, on_progress=on_progress)
    assert positions(found) == [("a", "x", [0.5, 0.5]), ("b", "x", [0.5])]
    assert [one.failed for one in found.cells] == ["", "too big"]
    assert seen == [(0, 0, 4), (1, 0, 3), (2, 0, 2), (3, 0, 1), (3, 1, 0)]
    assert list(read_result(tmp_path / PATH).cells) == list(found.cells)
    assert "no longer contains" not in caplog.text
    run_experiment(measured, Selection(models=["a"]), tmp_path)
    assert "cells that are not selected: b on x" in caplog.text


def test_measured_runs_of_a_result_file_are_kept_and_others_are_added(tmp_path):
    measured = []

    def measure(row, column, seed, store, options):
        measured.append((row, seed))
        return replace(measured_run(row, column, seed), config=describe(row, column))

    def describe(row, column):
        return {"row": row, "format": version}

    version = 1
    table = replace(KARATE, rows=[("a", "a", {})], columns={"x": ("x", {})}, measure=measure, describe=describe)
    run_experiment(table, Selection(runs=1), tmp_path, "first")
    found = run_experiment(table, Selection(runs=3), tmp_path, "second")
    assert measured == [("a", 0), ("a", 1), ("a", 2)]
    assert found.command == "first; second"
    assert [run.seed for run in found.cells[0].runs] == [0, 1, 2]
    assert found.cells[0].series == {"wrong frames": [0, 10, 20]}
    assert run_experiment(table, Selection(runs=2), tmp_path, "third").cells == found.cells  # nothing is lost
    assert len(measured) == 3
    version = 2
    found = run_experiment(table, Selection(runs=1), tmp_path, "fourth")  # other options: measured again
    assert (len(measured), found.command) == (4, "fourth")
    assert [run.seed for run in found.cells[0].runs] == [0]


def test_runs_on_other_data_are_not_joined():
    first, second = (replace(measured_run("a", "x", seed), failed=f"seed {seed}") for seed in (0, 1))
    assert join_runs(first, second).failed == "seed 0; seed 1"
    changed = replace(second, runs=(replace(second.runs[0], data_hash="other"),))
    assert join_runs(first, changed) == changed


def measured_run(row, column, seed):
    """Return a cell with one measured run, whose series has one value."""
    (one,) = cell(row, column, [0.5]).runs
    return replace(cell(row, column, []), runs=(replace(one, seed=seed),), series={"wrong frames": [10 * seed]})


@pytest.mark.slow
def test_interactions_and_theorems(tmp_path, monkeypatch):
    for name, value in (("_TRAIN", 50), ("_VAL", 20), ("_TEST", 20), ("_EPOCHS", 1)):
        monkeypatch.setattr(interactions, name, value)
    small = Selection(runs=1, largest=8)
    found = run_experiment(EXPERIMENTS["figure-interactions"], small, tmp_path)
    assert len(found.cells) == 6 * 8
    assert "parameters" in to_markdown(found)
    again = run_experiment(EXPERIMENTS["figure-interactions"], small, tmp_path)
    assert again.cells == found.cells
    checked = run_experiment(EXPERIMENTS["theorems"], Selection(), tmp_path)
    assert not any(one.failed for one in checked.cells)
    assert "holds" in to_markdown(checked)


def test_labels_of_planted_interactions():
    sets = draw_sets(50, 3, torch.Generator().manual_seed(0))
    for x, y in zip(sets.x, sets.y):
        mark, value, other = x.unbind(1)
        assert mark.tolist().count(1) == 3
        assert (value[mark == 1] != 0).all()
        assert (other[mark == 0] != 0).all()
        assert int(math.prod(value[mark == 1].tolist()) > 0) == int(y)
