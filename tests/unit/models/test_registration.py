"""Registration of models, errors of build_model, search spaces and default recipes."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from tgnn.models import MODELS, DataShape, build_model, register_model
from tgnn.training.recipes import recipe_for

CASES = [(name, level) for name, model in MODELS.items() for level in ("node", "graph") if model.builder(level)]
SHAPES = {"node": DataShape("node", 30, None, 3, nodes=9), "graph": DataShape("graph", (5,), (4,), 1)}


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
    from tgnn.training.config import Config
    from tgnn.training.loop import Trainer
    from tgnn.training.metrics import Task
    from tgnn.training.prepare import HeldOutLabels, Prepared

    torch.manual_seed(0)
    model = build_model("node2vec", SHAPES["node"], 8, 1, 0.0, {})
    before = model.walks.embedding.weight.detach().clone()
    ring = torch.stack([torch.arange(9), torch.arange(9).roll(1)])
    data = Data(edge_index=torch.cat([ring, ring.flip(0)], 1), num_nodes=9, y=torch.arange(9) % 3)
    split = Split("all", 0, 9, *torch.arange(9).split((9, 0, 0)))
    task, shape = Task("classes", "accuracy"), SHAPES["node"]
    Trainer(model, Prepared(data, split, task, shape, HeldOutLabels(data.y), ""), Config()).fit()
    assert bool((model.walks.embedding.weight != before).any())
