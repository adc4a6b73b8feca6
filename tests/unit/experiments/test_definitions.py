"""Definitions of the experiments and selection of their cells."""

from __future__ import annotations

import pytest

from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.experiment import Selection
from tgnn.experiments.results import find_paper_figure, load_paper_figures
from tgnn.models import MODELS
from tgnn.training.recipes import recipe_for


def test_every_cell_resolves_to_a_known_model():
    for experiment in EXPERIMENTS.values():
        for one in experiment.cells(Selection()):
            assert one.config is None or one.config.model.name in MODELS


@pytest.mark.parametrize("name", ["table-1-citation", "table-1-ogb", "table-2-graph", "table-3-ablation", "table-tu"])
def test_every_value_of_the_paper_has_a_cell(name):
    cells = {(one.row, one.column) for one in EXPERIMENTS[name].cells(Selection())}
    reported = {(row, column) for table, row, column in load_paper_figures() if table == name}
    assert reported <= cells
    assert reported == cells or name != "table-2-graph"  # where cells that the paper leaves out are not run


def test_rows_of_a_table_have_the_same_data_and_budget():
    """But each scales features and chooses the epoch as its own search found best."""
    for name in ("table-1-citation", "table-2-graph", "table-tu"):
        by_column: dict[str, set[str]] = {}
        for one in EXPERIMENTS[name].cells(Selection()):
            data, train = one.config.data, one.config.train
            same = data.model_dump_json(exclude={"features"}) + train.model_dump_json(exclude={"select_by"})
            same += one.config.optimizer.model_dump_json(include={"schedule", "warmup", "grad_clip"})
            by_column.setdefault(one.column, set()).add(same)
        assert {len(found) for found in by_column.values()} == {1}
    chosen = {}
    for one in EXPERIMENTS["table-1-citation"].cells(Selection()):
        own = recipe_for(one.column, one.row, "node")["train"].get("select_by", "metric")
        chosen.setdefault(one.column, set()).add(own)
        assert one.config.train.select_by == own
    assert {"loss", "metric"} in chosen.values()


def test_select_models_data_sets_and_sizes():
    cells = EXPERIMENTS["table-1-citation"].cells(Selection(models=["gcn"], datasets=["cora", "karate"]))
    assert [(one.row, one.column) for one in cells] == [("gcn", "cora"), ("gcn", "karate")]
    ranks = EXPERIMENTS["figure-rank"].cells(Selection(models=["tgnn"], datasets=["cora"], largest=32))
    assert [one.config.model.arguments["rank"] for one in ranks] == [8, 16, 32]


@pytest.mark.parametrize(
    ("selection", "words"),
    [(Selection(models=["gnc"]), "has no row 'gnc'"), (Selection(datasets=["coar"]), "did you mean cora")],
)
def test_unknown_models_and_data_sets_are_rejected(selection, words):
    with pytest.raises(ValueError, match=words):
        EXPERIMENTS["table-1-citation"].cells(selection)


def test_parameter_counts_of_the_efficiency_tables():
    """What the paper counts is what ours have (tests/unit/baselines counts them for other sizes)."""
    from tgnn.models import DataShape, build_model

    for name in ("table-efficiency", "table-pooling"):
        experiment = EXPERIMENTS[name]
        for one in experiment.cells(Selection(datasets=["cora"])):
            wanted = find_paper_figure(f"{name}/parameters", one.row, one.column)
            settings = one.config.model
            if wanted is None or settings.hidden_channels > 1000:
                continue
            shape = DataShape("node", 1433, None, 7)
            model = build_model(
                settings.name,
                shape,
                settings.hidden_channels,
                settings.num_layers,
                settings.dropout,
                settings.arguments,
            )
            assert sum(p.numel() for p in model.parameters()) == wanted.value, one.row


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("table-1-citation", {"data.name": "pubmed"}, "data.name cannot be set for all cells: use --datasets"),
        ("table-1-citation", {"model.name": "gcn"}, "use --models"),
        ("table-1-citation", {"train.seed": 7}, "seeds are 0, 1"),
        ("figure-rank", {"model.rank": 16}, "tgnn 8 on cora already sets it"),
        ("table-3-ablation", {"model.low_order": "gcn"}, "cp on cora already sets it"),
        ("table-stratified", {"data.split": "random"}, "already sets it"),
    ],
)
def test_options_that_define_a_row_or_column_cannot_be_set(name, changes, words):
    with pytest.raises(ValueError, match=words):
        EXPERIMENTS[name].cells(Selection(changes=changes))


def test_notes_describe_the_recipes_of_tgnn():
    """`_OUR_TGNN`, beside the recipes."""
    found = {one.column: one.config for one in EXPERIMENTS["table-1-citation"].cells(Selection(models=["tgnn"]))}
    assert {config.train.num_neighbors for config in found.values()} == {None}
    settings = [config.model.arguments for config in found.values()]
    assert {(config.model.num_layers, config.model.arguments.get("jk")) for config in found.values()} == {
        (2, None),
        (3, "cat"),
    }
    assert {own["low_order"] for own in settings} == {"gcn"}
    assert {name for name, config in found.items() if config.model.arguments.get("mix") == "scalar"} == {"cora"}


def test_experiments_without_recipes():
    cells = EXPERIMENTS["figure-interactions"].cells(Selection(models=["cp", "sum 32"], datasets=["2"]))
    assert [(one.row, one.column) for one in cells] == [("cp 8", "2"), ("cp 32", "2"), ("sum 32", "2")]
    with pytest.raises(ValueError, match="theorems has no column 'cora'; it has F=2, k=3"):
        EXPERIMENTS["theorems"].cells(Selection(datasets=["cora"]))
    with pytest.raises(ValueError, match=r"model\.rank cannot be set"):
        EXPERIMENTS["theorems"].cells(Selection(changes={"data.root": "x", "model.rank": 3}))
