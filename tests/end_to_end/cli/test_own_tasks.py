"""The tasks of table-own-data: from tables to predictions by three commands, and as cells of the table."""

from __future__ import annotations

import json

import polars as pl
import pytest

from tgnn.experiments.own_tasks import TASKS

ROWS = {"iris": 150, "wine": 178, "breast cancer": 569, "diabetes": 442, "karate": 34}


@pytest.mark.parametrize("task", ROWS)
def test_three_commands_from_tables_to_predictions(task, succeed, tmp_path):
    (tmp_path / "data").mkdir()
    path = TASKS[task].write(tmp_path / "data", (None, True))
    assert "0 errors" in succeed(f"data check {path}")
    succeed(f"train --data {path} --epochs 3 --out run")
    metric = json.loads((tmp_path / "run/metrics.json").read_text())["metric"]
    assert metric == ("mae" if task == "diabetes" else "accuracy")  # integers written as 151.0 are numbers
    succeed("predict run --out predictions.csv")
    assert pl.read_csv(tmp_path / "predictions.csv").height == ROWS[task]


def test_the_table_trains_default_recipes_and_reuses_runs(succeed, tmp_path):
    command = (
        "reproduce table-own-data --datasets karate --runs 1 --out results",
        "--models=without the graph,tgnn,tgnn without products,gcn",
    )
    assert "without the graph" in succeed(*command)
    path = tmp_path / "results/table-own-data.json"
    first = json.loads(path.read_text())
    cells = {cell["row"]: cell["runs"][0] for cell in first["cells"]}
    assert cells["without the graph"]["config_hash"] == cells["tgnn"]["config_hash"] != cells["gcn"]["config_hash"]
    assert len({run["split_hash"] for run in cells.values()}) == 1
    times = {run: run.stat().st_mtime_ns for run in (tmp_path / "results/cells").glob("*/metrics.json")}
    assert len(times) == 3
    succeed(*command)
    assert json.loads(path.read_text())["cells"] == first["cells"]
    assert times == {run: run.stat().st_mtime_ns for run in times}
