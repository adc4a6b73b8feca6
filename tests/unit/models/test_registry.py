"""Models by name: mistakes, ranges, recipes."""

from __future__ import annotations

import logging

import pytest
import torch
from torch_geometric.data import Data

from tgnn.models import MODELS, build_model
from tgnn.models.data_shape import DataShape
from tgnn.models.ranges import COMMON, OWN, search_space
from tgnn.models.registry import ModelError, model_options
from tgnn.training.recipes import recipe_for, resolve

CASES = [(name, level) for name, model in MODELS.items() for level in ("node", "graph") if model.builder(level)]
SHAPES = {"node": DataShape("node", 30, None, 3, nodes=9), "graph": DataShape("graph", (5,), (4,), 1)}


def test_all_that_the_paper_compares_with():
    node = "mlp node2vec gcn gat graphsage h2gcn gprgnn appnp mixhop deepergcn gcn2"
    graph = "mlp gcn gin diffpool gat monet gatedgcn pna phm-gnn dgn gmt soppool"
    ours = "tgnn cp sum mean max gcn+cp gat+cp graphsage+cp gin+cp pna+cp"
    assert {(name, "node") for name in f"{node} {ours}".split()} <= set(CASES)
    assert {(name, "graph") for name in f"{graph} {ours}".split()} <= set(CASES)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("node2vec", DataShape("graph", 3, None, 2), "node2vec is not made for graph tasks; tgnn, mlp, gcn"),
        ("diffpool", DataShape("node", 3, None, 2), "diffpool is not made for node tasks; tgnn, mlp, gcn"),
        (
            "gcn",
            DataShape("node", None, None, 2, nodes=4),
            "gcn needs node features, and this data has none; node2vec would",
        ),
        ("gin", DataShape("graph", None, None, 2), "gin needs node features, and this data has none; give it some"),
        ("gcnn", DataShape("node", 3, None, 2), "no model 'gcnn': did you mean gcn"),
    ],
)
def test_a_model_that_will_not_do(name, shape, words):
    with pytest.raises(ModelError, match=words):
        build_model(name, shape, 8, 2, 0.0, {})


def test_positions_that_are_not_there():
    with pytest.raises(ValueError, match=r"no positions of nodes; set model\.pseudo=degree"):
        build_model("monet", DataShape("graph", 3, None, 2), 8, 2, 0.0, {"pseudo": "position"})


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("gcn", DataShape("graph", 3, 2, 1), "gcn does not use the edge features of this data"),
        ("gat", DataShape("node", 3, 2, 2), "gat does not use the edge features of this data"),
        (
            "h2gcn",
            DataShape("node", 3, 2, 2, edge_weights=True),
            "not use the edge features and the edge weights",
        ),
        ("gcn", DataShape("node", 3, None, 2, edge_weights=True), ""),
        ("gin", DataShape("graph", 3, 2, 1), ""),
    ],
)
def test_what_a_model_leaves_unused_is_said(name, shape, words, caplog):
    with caplog.at_level(logging.WARNING, logger="tgnn"):
        build_model(name, shape, 8, 2, 0.0, {})
    assert words in caplog.text
    assert bool(words) == bool(caplog.text)


@pytest.mark.parametrize(("name", "level"), CASES)
def test_every_model_has_a_recipe_that_builds(name, level):
    recipe = recipe_for("", name, level)
    assert set(recipe) >= {"model", "optimizer", "train"}, "no default recipe"
    settings = resolve("", name, level).model
    build_model(
        name, SHAPES[level], settings.hidden_channels, settings.num_layers, settings.dropout, settings.arguments
    )


def test_default_recipes_have_one_budget():
    for level in ("node", "graph"):
        budgets = {str(sorted(recipe_for("", name, level)["train"].items())) for name, kind in CASES if kind == level}
        assert len(budgets) == 1, level


@pytest.mark.parametrize(("name", "level"), CASES)
def test_ranges_are_of_settings_that_exist(name, level):
    space = search_space(name, level)
    assert COMMON.items() <= space.items()
    settings = resolve("", name, level)
    known = set(model_options(MODELS[name].builder(level))) | set(type(settings.model).model_fields)
    for key, values in space.items():
        section, _, field = key.partition(".")
        assert field in (known if section == "model" else type(getattr(settings, section)).model_fields), key
        assert len(set(values)) == len(values) > 1


def test_every_range_is_used():
    for name, ranges in OWN.items():
        for key in ranges:
            assert any(key in search_space(name, level) for level in ("node", "graph")), (name, key)


def test_years():
    assert MODELS["gcn"].year == 2017
    assert all(1950 < model.year < 2030 for model in MODELS.values())


def test_an_extra_loss_is_learned_from():
    """node2vec's embedding has no other."""
    from tgnn.training.loaders import TrainingBatch
    from tgnn.training.loop import Precision, one_epoch
    from tgnn.training.metrics import Task

    torch.manual_seed(0)
    model = build_model("node2vec", SHAPES["node"], 8, 1, 0.0, {})
    before = model.walks.embedding.weight.detach().clone()
    ring = torch.stack([torch.arange(9), torch.arange(9).roll(1)])
    data = Data(edge_index=torch.cat([ring, ring.flip(0)], 1), num_nodes=9)
    piece = TrainingBatch(data, None, torch.arange(9) % 3, 9)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    precision = Precision("float32", torch.device("cpu"))
    one_epoch(model, lambda one: model(one.data), Task("classes", "accuracy"), [piece], optimizer, precision, None)
    assert bool((model.walks.embedding.weight != before).any())
