"""Settings: what is accepted, and how mistakes are named."""

from __future__ import annotations

import pytest

from tgnn.data.catalog import CATALOG
from tgnn.models.registry import MODELS, count_hops
from tgnn.training.config import ConfigError, all_keys, make_config, with_changes
from tgnn.training.model_check import check_model
from tgnn.training.recipes import read_recipe, recipe_for, resolve


def test_every_setting_explains_itself():
    from tgnn.training.config import Config

    for section in Config.model_fields.values():
        for name, field in section.annotation.model_fields.items():
            assert field.description, name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": {"lrr": 1}}, "there is no setting optimizer.lrr; did you mean optimizer.lr?"),
        ({"optimiser": {"lr": 1}}, "there is no section 'optimiser'; sections are data, model, optimizer, train"),
        ({"optimizer": {"lr": -1}}, "optimizer.lr is -1: input should be greater than 0"),
        ({"train": {"epochs": "many"}}, "train.epochs is 'many': input should be a valid integer"),
        ({"train": {"precision": "float8"}}, "train.precision is 'float8': input should be 'float32'"),
        ({"model": {"dropout": 1.0}}, "model.dropout is 1.0: input should be less than 1"),
        ({"train": {"lr": 1}}, "there is no setting train.lr; did you mean optimizer.lr?"),
        ({"train": {"epochs": True}}, "train.epochs is True: it is not a question of true or false"),
        ({"model": {"hidden_channels": True}}, "model.hidden_channels is True: it is not a question"),
        ({"train": {"num_neighbors": [5]}}, "train.num_neighbors is 5: 2 layers need 2 numbers, such as --sample 10,5"),
        (
            {"model": {"num_layers": 1}, "train": {"num_neighbors": [5, 5]}},
            "1 layer needs 1 number, such as --sample 10",
        ),
        (
            {"model": {"name": "mixhop"}, "train": {"num_neighbors": [5, 5]}},
            "mixhop looks 4 steps far and needs 4 numbers, such",
        ),
        (
            {"model": {"name": "h2gcn"}, "train": {"num_neighbors": [5, 5]}},
            "h2gcn looks 4 steps far and needs 4 numbers",
        ),
        (
            {"model": {"name": "appnp", "steps": "3"}, "train": {"num_neighbors": [5]}},
            "appnp looks 3 steps far and needs 3 numbers, such as --sample 10,5,2",
        ),
        ({"model": {"name": "gprgnn"}, "train": {"num_neighbors": [5]}}, "gprgnn looks 10 steps far"),
        (
            {"model": {"name": "node2vec"}, "train": {"num_neighbors": [5, 5]}},
            "node2vec learns from the whole graph: leave",
        ),
    ],
)
def test_mistakes_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_config(settings)


def test_neighbours_are_sampled_as_far_as_a_model_sees():
    for name, own, sample in (
        ("gcn", {}, [5, 5]),
        ("mixhop", {"powers": [0, 1]}, [5, 5]),
        ("h2gcn", {}, [5, 5, 5, -1]),
        ("appnp", {"steps": 3}, [5, 5, 5]),
        ("gprgnn", {"steps": 0}, [5]),
    ):
        assert make_config({"model": {"name": name, **own}, "train": {"num_neighbors": sample}}).train.num_neighbors


def test_single_settings():
    assert with_changes({}, {"train.seed": 3}) == {"train": {"seed": 3}}
    with pytest.raises(ConfigError, match=r"no setting 'lr'.*such as optimizer.lr"):
        with_changes({}, {"lr": 3})
    assert "optimizer.lr" in all_keys()


@pytest.mark.parametrize("key", ["rank", "modle.rank", "rnak"])
def test_the_models_own_settings_are_suggested(key):
    with pytest.raises(ConfigError, match=f"no setting '{key}'.*such as model.rank"):
        resolve("cora", "tgnn", "node", changes={key: 3})


@pytest.mark.parametrize("level", ["node", "graph"])
def test_models_are_checked_without_data(level):
    from tgnn.models import MODELS

    for model in MODELS.values():
        if model.builder(level) is not None:
            check_model(
                resolve("", model.name, level, changes={"model.hidden_channels": 40}), level
            )  # many heads divide it
    for key, value in (("model.mix", "foo"), ("model.rank", True), ("model.rnak", 3), ("model.rank", "many")):
        with pytest.raises(ValueError, match=key.partition(".")[2]):
            check_model(resolve("", "tgnn", level, changes={key: value}), level)


def test_the_hash_tells_results_apart_not_places():
    one = make_config({"data": {"root": "here"}})
    assert one.hash == make_config({"data": {"root": "there", "offline": True}}).hash
    assert one.hash != make_config({"train": {"seed": 1}}).hash
    assert one.hash != make_config({"model": {"rank": 3}}).hash


def test_recipes_then_a_file_then_single_settings(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("optimizer: {lr: 0.5}\nmodel: {rank: 3}\n")
    config = resolve("cora", "tgnn", "node", read_recipe(file), {"model.rank": 4})
    assert config.optimizer.lr == 0.5
    assert config.optimizer.cp_lr == recipe_for("cora", "tgnn")["optimizer"]["cp_lr"]
    assert config.model.arguments["rank"] == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: [", "not YAML"),
        (b"- 1", "must have sections"),
        (b"lr: 1", "must"),
        (b"model: {rank: 3}\nmodel: {rank: 4}", "r.yaml: line 2 has the key 'model' for the second time"),
        (b"model:\n  rank: 3\n  rank: 4", "line 3 has the key 'rank'"),
        (b"\x89PNG\r\n", "r.yaml is not a text file in UTF-8"),
    ],
)
def test_recipes_that_are_none(tmp_path, text, message):
    (tmp_path / "r.yaml").write_bytes(text)
    with pytest.raises(ConfigError, match=message):
        read_recipe(tmp_path / "r.yaml")
    with pytest.raises(ConfigError, match="there is no recipe"):
        read_recipe(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is a folder, and a recipe is a YAML file"):
        read_recipe(tmp_path)


def test_every_recipe_of_the_package_is_valid():
    from importlib.resources import files

    from tgnn.data.catalog import CATALOG

    count = 0
    for table in files("tgnn").joinpath("recipes").iterdir():
        for data in table.iterdir():
            assert table.name == "default" or data.name in CATALOG
            for file in data.iterdir():
                resolve(data.name, file.name.removesuffix(".yaml"), "node")
                assert file.read_text().startswith("# "), f"{file} does not say where its settings come from"
                count += 1
    assert count >= 10


def test_a_recipe_s_sample_is_cut_to_what_the_model_sees_and_the_users_is_not():
    for layers, sample in ((1, (15,)), (2, (15, 10)), (3, (15, 10, 5))):
        assert (
            resolve("ogbn-products", "gat", "node", changes={"model.num_layers": layers}).train.num_neighbors == sample
        )
    far = resolve("ogbn-products", "appnp", "node", changes={"model.steps": 10}).train
    assert (far.sample, far.batch_size) == (None, None)
    mine = {"train.num_neighbors": (7, 7), "train.batch_size": 64, "model.num_layers": 2}
    assert resolve("ogbn-products", "tgnn", "node", changes=mine).train.num_neighbors == (7, 7)
    assert resolve("ogbn-products", "tgnn", "node", changes=mine).train.batch_size == 64
    assert resolve("ogbn-products", "tgnn", "node", own={"train": {"num_neighbors": None}}).train.num_neighbors is None
    with pytest.raises(ConfigError, match="3 layers need 3 numbers"):
        resolve("ogbn-products", "tgnn", "node", changes={"train.num_neighbors": (7, 7)})


@pytest.mark.parametrize("data", sorted(CATALOG))
def test_all_models_have_the_data_and_the_budget_of_tgnn_on_a_data_set(data):
    level = CATALOG[data].level
    ours = resolve(data, "tgnn", level)
    for name, model in MODELS.items():
        if model.builder(level) is None:
            continue
        theirs = resolve(data, name, level)
        own = {"features": theirs.data.features}
        if data == "ogbn-proteins":  # these have no use for them
            own["edge_features"] = theirs.data.edge_features
        assert theirs.data == ours.data.model_copy(update=own), name
        own = {"select_by": theirs.train.select_by, "num_neighbors": theirs.train.num_neighbors}
        if ours.train.num_neighbors:
            hops = count_hops(name, theirs.model.num_layers, theirs.model.arguments)
            assert theirs.train.num_neighbors == (ours.train.num_neighbors[:hops] or None if hops <= 3 else None)
            own |= {} if theirs.train.num_neighbors else {"batch_size": None}
        assert theirs.train == ours.train.model_copy(update=own), name
        for key in ("schedule", "warmup", "grad_clip"):
            assert getattr(theirs.optimizer, key) == getattr(ours.optimizer, key), name
