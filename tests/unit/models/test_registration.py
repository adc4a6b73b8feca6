"""Registration of models, errors of build_model, search spaces, and recipes with comparable model sizes."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from tgnn.models import MODELS, DataShape, build_model, model_options, register_model, search_space
from tgnn.models.search_ranges import COMMON
from tgnn.training.config import Config
from tgnn.training.recipes import recipe_for, resolve

CASES = [(name, level) for name, model in MODELS.items() for level in ("node", "graph") if model.builder(level)]
SHAPES = {"node": DataShape("node", 30, None, 3, nodes=9), "graph": DataShape("graph", (28,), (4,), 1)}  # ZINC
GRAPH = [name for name, model in MODELS.items() if model.graph is not None]
OGB = {
    "ogbn-products": DataShape("node", 100, None, 47, nodes=9),
    "ogbn-arxiv": DataShape("node", 128, None, 40, nodes=9),
    "ogbn-proteins": DataShape("node", 8, 8, 112, nodes=9),
}


def test_the_documentation_lists_every_model_in_order():
    page = (Path(__file__).parents[3] / "docs/models.md").read_text(encoding="utf-8")
    rows = {
        row[1].strip(" `"): row for row in (line.split("|") for line in page.splitlines() if line.startswith("| `"))
    }
    assert list(rows) == list(MODELS)
    for name, model in MODELS.items():
        assert rows[name][2].split() == ", ".join(level for level in ("node", "graph") if model.builder(level)).split()
        assert model.summary in rows[name][3], name
        assert model.paper.partition("arXiv")[0] in rows[name][5], name


def test_a_name_can_be_registered_once_per_level():
    with pytest.raises(ValueError, match="A model 'gcn' is already registered"):
        register_model("gcn", "node")(MODELS["gcn"].node)
    with pytest.raises(ValueError, match="A model 'monet' is already registered"):
        register_model("monet", "node", summary="Other", paper="Other 2020")(MODELS["gcn"].node)
    assert MODELS["monet"].node is None


def test_an_unknown_level_cannot_be_registered():
    with pytest.raises(ValueError, match="must be 'node' or 'graph', but is 'edge'"):
        register_model("other", "edge", summary="Other", paper="Other 2020")


@pytest.mark.parametrize(
    ("name", "shape", "hyperparameters", "message"),
    [
        ("gcnn", ("node", 3, None, 2), {}, "unknown model 'gcnn'; did you mean gcn?"),
        ("node2vec", ("graph", 3, None, 2), {}, "does not support graph tasks. Models that do: tgnn, mlp, gcn"),
        ("diffpool", ("node", 3, None, 2), {}, "does not support node tasks. Models that do: tgnn, mlp, gcn"),
        (
            "gcn",
            ("node", None, None, 2),
            {},
            "gcn needs node features, but this data has none. Models that do not need node features: node2vec.",
        ),
        ("gin", ("graph", None, None, 2), {}, "needs node features, but this data has none. Add them as columns"),
        ("tgnn", ("node", 4, (3,), 2), {}, "Use deepergcn, set data.edge_features=false"),
        ("node2vec", ("node", 6, None, 3), {}, "many graphs"),
        ("monet", ("graph", 3, None, 2), {"pseudo": "position"}, "no node positions. Set model.pseudo=degree"),
        (
            "dgn",
            ("graph", 3, None, 1),
            {"aggregators": "mean+dy"},
            "is 'mean+dy', but must be one or several of mean, max",
        ),
        *(
            (
                name,
                ("graph", 4, None, 2),
                {key: 3},
                f"model.hidden_channels is 8, but must be a multiple of model.{key}, 3",
            )
            for name, key in (("gat", "heads"), ("gmt", "heads"), ("phm-gnn", "dimension"), ("pna", "towers"))
        ),
    ],
)
def test_a_model_that_does_not_fit_the_data_is_an_error(name, shape, hyperparameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        build_model(name, DataShape(*shape), 8, 2, 0.0, hyperparameters)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
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
def test_unused_edge_inputs_are_logged(name, shape, message, caplog):
    with caplog.at_level(logging.WARNING, logger="tgnn"):
        build_model(name, shape, 8, 2, 0.0, {})
    assert message in caplog.text
    assert bool(message) == bool(caplog.text)


def test_default_recipes_have_one_budget():
    for level in ("node", "graph"):
        budgets = {str(sorted(recipe_for("", name, level)["train"].items())) for name, kind in CASES if kind == level}
        assert len(budgets) == 1, level


def test_years():
    assert MODELS["gcn"].year == 2017
    assert all(1950 < model.year < 2030 for model in MODELS.values())


def test_the_training_loop_adds_the_extra_loss():
    """The embedding of node2vec has no other loss."""
    from tgnn.data.splits import Split
    from tgnn.training.loop import Trainer
    from tgnn.training.metrics import Task
    from tgnn.training.prepare import HeldOutLabels, Prepared

    torch.manual_seed(0)
    model = build_model("node2vec", SHAPES["node"], 8, 1, 0.0, {})
    before = model.walks.embedding.weight.detach().clone()
    ring = torch.stack([torch.arange(9), torch.arange(9).roll(1)])
    data = Data(edge_index=torch.cat([ring, ring.flip(0)], 1), num_nodes=9, y=torch.arange(9) % 3)
    split = Split("all", 0, 9, *torch.arange(9).split((9, 0, 0)))
    task, shape = Task("classification", "accuracy"), SHAPES["node"]
    Trainer(model, Prepared(data, split, task, shape, HeldOutLabels(data.y), ""), Config()).fit()
    assert bool((model.walks.embedding.weight != before).any())


# ---- search spaces and recipes ----------------------------------------------------------------------------------


def size(config: Config, shape: DataShape) -> int:
    model = config.model
    made = build_model(model.name, shape, model.hidden_channels, model.num_layers, model.dropout, model.arguments)
    return sum(parameter.numel() for parameter in made.parameters())


@pytest.mark.parametrize("name", GRAPH)
def test_graph_models_have_100k_parameters_on_zinc(name):
    assert size(resolve("", name, "graph"), SHAPES["graph"]) == pytest.approx(100_000, rel=0.1)


@pytest.mark.parametrize(("name", "level"), CASES)
def test_every_value_of_a_search_space_builds_with_the_recipe(name, level):
    space = search_space(name, level)
    assert COMMON.items() <= space.items()
    for key, values in space.items():
        assert len(set(values)) == len(values) > 1
        for value in values:
            changed = resolve("", name, level, changes={key: value})  # an unknown key is an error
            if key in MODELS[name].search_space:
                size(changed, SHAPES[level])


def test_every_range_is_used():
    for name, model in MODELS.items():
        for key in model.search_space:
            assert any(key in search_space(name, level) for level in ("node", "graph")), (name, key)


@pytest.mark.parametrize("name", [name for name in MODELS if name.endswith("+cp")])
def test_search_space_of_a_model_with_a_cp_branch(name):
    for level in ("node", "graph"):
        plain, ours = search_space(name.removesuffix("+cp"), level), search_space(name, level)
        assert {**plain, **ours} == ours
        assert ours.keys() - plain.keys() == {"model.rank", "optimizer.cp_lr"}
        assert "rank" in model_options(MODELS[name].builder(level))


def test_readout_options_of_graph_models_are_searched():
    for name in ("tgnn", "gin"):
        assert {"model.jk", "model.readout_norm"} <= search_space(name, "graph").keys()
        assert "model.readout_norm" not in search_space(name, "node")
    assert "model.jk" not in search_space("gcn", "graph")
    assert {"model.rank", "optimizer.cp_lr"} <= search_space("cp", "node").keys() & search_space("tgnn", "node").keys()


@pytest.mark.parametrize("data", OGB)
@pytest.mark.parametrize("name", ["mlp", "gcn", "graphsage", "deepergcn", "node2vec", "tgnn"])
def test_recipes_for_ogb(data, name):
    config, like = resolve(data, name, "node"), resolve(data, "tgnn", "node")
    assert config.data.split == "official"
    assert (config.train.epochs, config.train.patience) == (like.train.epochs, like.train.patience)
    sampled = data == "ogbn-products" and name != "node2vec"  # its random walks need the whole graph
    assert (config.train.num_neighbors, config.train.batch_size) == (((15, 10, 5), 1024) if sampled else (None, None))
    assert size(config, OGB[data]) > 0


@pytest.mark.parametrize(("data", "heads"), [("", 1), ("cora", 1), ("citeseer", 1), ("pubmed", 8)])
def test_gat_has_the_output_heads_of_its_paper(data, heads):
    assert resolve(data, "gat", "node").model.arguments["out_heads"] == heads
