"""Recipes and search spaces: comparable model sizes, and hyperparameters that build a model."""

from __future__ import annotations

import pytest

from tgnn.models import MODELS, DataShape, build_model, model_options, search_space
from tgnn.models.search_ranges import COMMON
from tgnn.training.config import Config
from tgnn.training.recipes import resolve

GRAPH = [name for name, model in MODELS.items() if model.graph is not None]
CASES = [(name, level) for name, model in MODELS.items() for level in ("node", "graph") if model.builder(level)]
ZINC = DataShape("graph", (28,), (4,), 1)
NODES = DataShape("node", 30, None, 3, nodes=9)
OGB = {
    "ogbn-products": DataShape("node", 100, None, 47, nodes=9),
    "ogbn-arxiv": DataShape("node", 128, None, 40, nodes=9),
    "ogbn-proteins": DataShape("node", 8, 8, 112, nodes=9),
}


def size(config: Config, shape: DataShape) -> int:
    model = config.model
    made = build_model(model.name, shape, model.hidden_channels, model.num_layers, model.dropout, model.arguments)
    return sum(parameter.numel() for parameter in made.parameters())


@pytest.mark.parametrize("name", GRAPH)
def test_graph_models_have_100k_parameters_on_zinc(name):
    assert size(resolve("", name, "graph"), ZINC) == pytest.approx(100_000, rel=0.1)


@pytest.mark.parametrize(("name", "level"), CASES)
def test_every_value_of_a_search_space_builds_with_the_recipe(name, level):
    space = search_space(name, level)
    assert COMMON.items() <= space.items()
    for key, values in space.items():
        assert len(set(values)) == len(values) > 1
        for value in values:
            changed = resolve("", name, level, changes={key: value})  # an unknown key is an error
            if key in MODELS[name].search_space:
                size(changed, ZINC if level == "graph" else NODES)


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
