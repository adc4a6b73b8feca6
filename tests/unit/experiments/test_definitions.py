"""Definitions of the experiments, selection of their cells, and captions of their results."""

from __future__ import annotations

import json

import pytest

from tests.unit.experiments.make import cell
from tgnn.experiments.captions import result_layout, result_notes, result_title
from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.experiment import ExperimentCell, Selection
from tgnn.experiments.results import Result, find_paper_figure, load_paper_figures
from tgnn.models import MODELS, DataShape, build_model
from tgnn.training.prepare import make_model
from tgnn.training.recipes import recipe_for
from tgnn.utils.yaml import parse_yaml


def cells_of(name: str, **selection) -> list[ExperimentCell]:
    return EXPERIMENTS[name].cells(Selection(**selection))


def positions(cells: list[ExperimentCell]) -> list[tuple[str, str]]:
    return [(one.row, one.column) for one in cells]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_cell_has_a_known_model(name):
    assert {one.config.model.name for one in cells_of(name) if one.config is not None} <= set(MODELS)


@pytest.mark.parametrize("name", ["table-1-citation", "table-1-ogb", "table-2-graph", "table-3-ablation", "table-tu"])
def test_every_value_of_the_paper_has_a_cell(name):
    reported = {(row, column) for table, row, column in load_paper_figures() if table == name}
    assert reported <= set(positions(cells_of(name)))


def test_rows_of_a_table_have_the_same_data_and_budget():
    """But each scales features and selects the epoch as its own search found best."""
    for name in ("table-1-citation", "table-2-graph", "table-tu"):
        by_column: dict[str, set[str]] = {}
        for one in cells_of(name):
            data, train = one.config.data, one.config.train
            same = data.model_dump_json(exclude={"features"}) + train.model_dump_json(exclude={"select_by"})
            same += one.config.optimizer.model_dump_json(include={"schedule", "warmup", "grad_clip"})
            by_column.setdefault(one.column, set()).add(same)
        assert {len(found) for found in by_column.values()} == {1}
    chosen = {}
    for one in cells_of("table-1-citation"):
        own = recipe_for(one.column, one.row, "node")["train"].get("select_by", "metric")
        chosen.setdefault(one.column, set()).add(own)
        assert one.config.train.select_by == own
    assert {"loss", "metric"} in chosen.values()


def test_graph_networks_have_the_same_number_of_parameters():
    zinc = DataShape("graph", (28, *[0] * 20), None, 1)
    for one in cells_of("table-2-graph", datasets=["zinc"]):
        assert one.config is not None
        model = make_model(one.config, zinc)
        assert sum(parameter.numel() for parameter in model.parameters()) == pytest.approx(100_000, rel=0.11), one.row


def test_selection():
    cells = cells_of("table-1-citation", models=["gcn"], datasets=["cora", "karate"])
    assert positions(cells) == [("gcn", "cora"), ("gcn", "karate")]
    table_2 = cells_of("table-2-graph", models=["tgnn"], datasets=["zinc"])
    assert positions(table_2) == [("tgnn", "zinc")]
    ranks = cells_of("figure-rank", models=["tgnn"], datasets=["cora"], largest=32)
    assert [one.config.model.arguments["rank"] for one in ranks] == [8, 16, 32]
    assert {one.column for one in cells_of("table-2-graph", datasets=["zinc"])} == {"zinc"}
    assert {one.column for one in cells_of("table-zinc", datasets=["zinc"])} == {"atoms", "atoms and bonds"}
    measured = cells_of("figure-interactions", models=["cp", "sum 32"], datasets=["2"])
    assert positions(measured) == [("cp 8", "2"), ("cp 32", "2"), ("sum 32", "2")]


@pytest.mark.parametrize(
    ("name", "selection", "message"),
    [
        ("table-1-citation", {"models": ["gnc"]}, "has no row 'gnc'"),
        ("table-1-citation", {"datasets": ["coar"]}, "did you mean cora"),
        ("theorems", {"datasets": ["cora"]}, "theorems has no column 'cora'; it has F=2, k=3"),
        ("theorems", {"changes": {"data.root": "x", "model.rank": 3}}, r"model\.rank cannot be set"),
        ("table-1-citation", {"changes": {"data.name": "pubmed"}}, "cannot be set for all cells: use --datasets"),
        ("table-1-citation", {"changes": {"model.name": "gcn"}}, "use --models"),
        ("table-1-citation", {"changes": {"train.seed": 7}}, "seeds are 0, 1"),
        ("figure-rank", {"changes": {"model.rank": 16}}, "tgnn 8 on cora already sets it"),
        ("table-3-ablation", {"changes": {"model.low_order": "gcn"}}, "cp on cora already sets it"),
        ("table-stratified", {"changes": {"data.split": "random"}}, "already sets it"),
    ],
)
def test_invalid_selections(name, selection, message):
    with pytest.raises(ValueError, match=message):
        cells_of(name, **selection)


@pytest.mark.parametrize("name", ["table-efficiency", "table-pooling"])
def test_models_have_as_many_parameters_as_in_the_paper(name):
    for one in cells_of(name, datasets=["cora"]):
        wanted, model = find_paper_figure(f"{name}/parameters", one.row, one.column), one.config.model
        if wanted is not None and model.hidden_channels <= 1000:
            sizes = (model.hidden_channels, model.num_layers, model.dropout, model.arguments)
            built = build_model(model.name, DataShape("node", 1433, None, 7), *sizes)
            assert sum(p.numel() for p in built.parameters()) == wanted.value, one.row


def test_notes_describe_the_recipes_of_tgnn():
    found = {one.column: one.config for one in cells_of("table-1-citation", models=["tgnn"])}
    arguments = {name: config.model.arguments for name, config in found.items()}
    assert {config.train.num_neighbors for config in found.values()} == {None}
    layers = {(config.model.num_layers, config.model.arguments.get("jk")) for config in found.values()}
    assert layers == {(2, None), (3, "cat")}
    assert {own["low_order"] for own in arguments.values()} == {"gcn"}
    assert {name for name, own in arguments.items() if own.get("mix") == "scalar"} == {"cora"}


def test_captions_come_from_the_definition_and_are_not_stored(tmp_path):
    result = Result("figure-rank", [cell("tgnn 8", "cora", [0.5])])
    definition = EXPERIMENTS["figure-rank"]
    assert (result_title(result), result_layout(result)) == (definition.title, "rank")
    assert result_notes(result) == list(definition.notes)
    result.write(tmp_path / "figure-rank.json")
    stored = json.loads((tmp_path / "figure-rank.json").read_text())
    assert stored.keys() == {"tgnn_result", "name", "cells", "command", "environment"}
    unknown = Result("my-table", [cell("a", "b", [0.5], note="a note")])
    assert (result_title(unknown), result_layout(unknown)) == ("my-table", "table")
    assert result_notes(unknown) == ["b: a note"]


def test_notes_on_splits_and_outdated_hyperparameters():
    (current,) = cells_of("table-1-citation", models=["gcn"], datasets=["cora"])

    def last_note(config) -> str:
        return result_notes(Result("table-1-citation", [cell("gcn", "cora", [0.5], config=config)]))[-1]

    config = current.config.model_dump(mode="json")
    assert last_note(config).startswith("Splits: per-class-quota (cora).")
    for optimizer in ({**config["optimizer"], "lr": 7.0}, {"no such option": 1}):
        assert "All cells were run with earlier recipes" in last_note({**config, "optimizer": optimizer})


@pytest.mark.parametrize(
    ("option", "kept"),
    [("optimizer.lr=0.5", 2), ("data.split=stratified", 2), ("train.prior_correction=none", 3), ("data.root=/data", 5)],
)
def test_changed_options_are_marked_and_drop_the_notes_on_them(option, kept):
    key, _, value = option.partition("=")
    definition = EXPERIMENTS["table-1-citation"]
    (current,) = cells_of("table-1-citation", models=["gcn"], datasets=["cora"], changes={key: parse_yaml(value)})
    changed = cell("gcn", "cora", [0.5], config=current.config.model_dump(mode="json"))
    result = Result("table-1-citation", [changed], f"tgnn reproduce table-1-citation --models gcn --set {option}")
    notes = result_notes(result)
    assert len(set(notes) & set(definition.notes)) == kept
    assert not any("earlier recipes" in note for note in notes)
    if kept < len(definition.notes):
        assert result_title(result) == f"{definition.title} (changed: {option})"
        assert notes[0] == f"Changed by --set in every cell: {option}."
