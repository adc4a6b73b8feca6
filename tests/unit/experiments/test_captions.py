"""Titles, notes and layouts of results come from the definitions and the catalog."""

from __future__ import annotations

import json

from tests.unit.experiments.make import cell
from tgnn.experiments.captions import result_layout, result_notes, result_title
from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.experiment import Selection
from tgnn.experiments.results import Result


def test_captions_of_a_known_experiment():
    result = Result("figure-rank", [cell("tgnn 8", "cora", [0.5])])
    assert result_title(result) == EXPERIMENTS["figure-rank"].title
    assert result_layout(result) == "rank"
    assert result_notes(result) == list(EXPERIMENTS["figure-rank"].notes)


def test_an_unknown_result_is_a_table_with_its_name_as_title():
    result = Result("my-table", [cell("a", "b", [0.5], note="a note")])
    assert (result_title(result), result_layout(result), result_notes(result)) == ("my-table", "table", ["b: a note"])


def test_result_files_store_no_captions(tmp_path):
    Result("figure-rank", [cell("tgnn 8", "cora", [0.5])]).write(tmp_path / "figure-rank.json")
    stored = json.loads((tmp_path / "figure-rank.json").read_text())
    assert stored.keys() == {"tgnn_result", "name", "cells", "command", "environment"}


def test_splits_and_outdated_hyperparameters():
    (current,) = EXPERIMENTS["table-1-citation"].cells(Selection(models=["gcn"], datasets=["cora"]))
    config = current.config.model_dump(mode="json")
    result = Result("table-1-citation", [cell("gcn", "cora", [0.5], config=config)])
    assert result_notes(result)[-1].startswith("Splits: per-class-quota (cora).")
    config["optimizer"]["lr"] *= 2
    outdated = Result("table-1-citation", [cell("gcn", "cora", [0.5], config=config)])
    assert "All cells were run with earlier recipes" in result_notes(outdated)[-1]
