"""Configurations: which options are accepted, how errors name them, and how recipes resolve."""

from __future__ import annotations

import pytest

from tgnn.training.config import ConfigError, make_config, option_keys, with_options
from tgnn.training.prepare import check_model
from tgnn.training.recipes import read_user_recipe, recipe_for, resolve


def test_every_option_has_a_description():
    from tgnn.training.config import Config

    for section in Config.model_fields.values():
        for name, field in section.annotation.model_fields.items():
            assert field.description, name


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"optimizer": {"lrr": 1}}, "unknown option optimizer.lrr; did you mean optimizer.lr?"),
        ({"optimiser": {"lr": 1}}, "unknown section 'optimiser'; the sections are data, model, optimizer, train"),
        ({"optimizer": {"lr": -1}}, "optimizer.lr is -1, but it should be greater than 0"),
        ({"train": {"epochs": "many"}}, "train.epochs is 'many', but it should be a valid integer"),
        ({"train": {"precision": "float8"}}, "train.precision is 'float8', but it should be 'float32'"),
        ({"model": {"dropout": 1.0}}, "model.dropout is 1.0, but it should be less than 1"),
        ({"train": {"lr": 1}}, "unknown option train.lr; did you mean optimizer.lr?"),
        ({"train": {"epochs": True}}, "train.epochs is True, but it should not be true or false"),
        ({"model": {"hidden_channels": True}}, "model.hidden_channels is True, but it should not"),
        (
            {"train": {"num_neighbors": [5]}},
            "num_neighbors is 5, but tgnn with 2 layers needs 2 numbers, e.g. --sample 10,5",
        ),
        (
            {"model": {"num_layers": 1}, "train": {"num_neighbors": [5, 5]}},
            "tgnn with 1 layer needs 1 number, e.g. --sample 10",
        ),
        (
            {"model": {"name": "mixhop"}, "train": {"num_neighbors": [5, 5]}},
            "mixhop aggregates 4 hops and needs 4 numbers, e.g.",
        ),
        (
            {"model": {"name": "h2gcn"}, "train": {"num_neighbors": [5, 5]}},
            "h2gcn aggregates 4 hops and needs 4 numbers",
        ),
        (
            {"model": {"name": "appnp", "steps": "3"}, "train": {"num_neighbors": [5]}},
            "appnp aggregates 3 hops and needs 3 numbers, e.g. --sample 10,5,2",
        ),
        ({"model": {"name": "gprgnn"}, "train": {"num_neighbors": [5]}}, "gprgnn aggregates 10 hops"),
        (
            {"model": {"name": "node2vec"}, "train": {"num_neighbors": [5, 5]}},
            "node2vec trains on the whole graph; remove train.num_neighbors",
        ),
    ],
)
def test_errors_name_the_option_and_what_is_allowed(sections, message):
    with pytest.raises(ConfigError, match=message):
        make_config(sections)


def test_num_neighbors_has_one_entry_per_hop():
    for name, own, sample in (
        ("gcn", {}, [5, 5]),
        ("mixhop", {"powers": [0, 1]}, [5, 5]),
        ("h2gcn", {}, [5, 5, 5, -1]),
        ("appnp", {"steps": 3}, [5, 5, 5]),
        ("gprgnn", {"steps": 0}, [5]),
    ):
        assert make_config({"model": {"name": name, **own}, "train": {"num_neighbors": sample}}).train.num_neighbors


def test_single_options():
    assert with_options({}, {"train.seed": 3}) == {"train": {"seed": 3}}
    with pytest.raises(ConfigError, match=r"unknown option 'lr'; .*e\.g\. optimizer\.lr"):
        with_options({}, {"lr": 3})
    assert "optimizer.lr" in option_keys()


@pytest.mark.parametrize("key", ["rank", "modle.rank", "rnak"])
def test_arguments_of_the_model_are_suggested(key):
    with pytest.raises(ConfigError, match=f"unknown option '{key}'.*e.g. model.rank"):
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


def test_the_hash_depends_on_results_not_on_locations():
    one = make_config({"data": {"root": "here"}})
    assert one.hash == make_config({"data": {"root": "there", "offline": True}}).hash
    assert one.hash != make_config({"train": {"seed": 1}}).hash
    assert one.hash != make_config({"model": {"rank": 3}}).hash


def test_recipe_of_the_package_then_of_the_user_then_options(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("optimizer: {lr: 0.5}\nmodel: {rank: 3}\n")
    config = resolve("cora", "tgnn", "node", read_user_recipe(file), {"model.rank": 4})
    assert config.optimizer.lr == 0.5
    assert config.optimizer.cp_lr == recipe_for("cora", "tgnn")["optimizer"]["cp_lr"]
    assert config.model.arguments["rank"] == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: [", "not valid YAML"),
        (b"- 1", "must consist of sections"),
        (b"lr: 1", "must"),
        (b"model: {rank: 3}\nmodel: {rank: 4}", "r.yaml: line 2 repeats the key 'model'"),
        (b"model:\n  rank: 3\n  rank: 4", "line 3 repeats the key 'rank'"),
        (b"\x89PNG\r\n", "r.yaml is not a UTF-8 text file"),
    ],
)
def test_invalid_recipes_of_the_user(tmp_path, text, message):
    (tmp_path / "r.yaml").write_bytes(text)
    with pytest.raises(ConfigError, match=message):
        read_user_recipe(tmp_path / "r.yaml")
    with pytest.raises(ConfigError, match="none.yaml does not exist"):
        read_user_recipe(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is a folder, but a recipe is a YAML file"):
        read_user_recipe(tmp_path)


def test_num_neighbors_of_a_recipe_is_cut_to_the_hops_of_the_model_but_not_that_of_the_user():
    for layers, sample in ((1, (15,)), (2, (15, 10)), (3, (15, 10, 5))):
        assert (
            resolve("ogbn-products", "gat", "node", changes={"model.num_layers": layers}).train.num_neighbors == sample
        )
    far = resolve("ogbn-products", "appnp", "node", changes={"model.steps": 10}).train
    assert (far.num_neighbors, far.batch_size) == (None, None)
    mine = {"train.num_neighbors": (7, 7), "train.batch_size": 64, "model.num_layers": 2}
    assert resolve("ogbn-products", "tgnn", "node", changes=mine).train.num_neighbors == (7, 7)
    assert resolve("ogbn-products", "tgnn", "node", changes=mine).train.batch_size == 64
    assert (
        resolve("ogbn-products", "tgnn", "node", user_recipe={"train": {"num_neighbors": None}}).train.num_neighbors
        is None
    )
    with pytest.raises(ConfigError, match="3 layers needs 3 numbers"):
        resolve("ogbn-products", "tgnn", "node", changes={"train.num_neighbors": (7, 7)})
