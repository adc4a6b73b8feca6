"""Settings: what is accepted, and how mistakes are named."""

from __future__ import annotations

import pytest

from tgnn.training.config import WrongConfig, all_keys, make_config, with_changes
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
    ],
)
def test_mistakes_are_named(settings, message):
    with pytest.raises(WrongConfig, match=message):
        make_config(settings)


def test_single_settings():
    assert with_changes({}, {"train.seed": 3}) == {"train": {"seed": 3}}
    with pytest.raises(WrongConfig, match=r"no setting 'lr'.*such as optimizer.lr"):
        with_changes({}, {"lr": 3})
    assert "optimizer.lr" in all_keys()


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


@pytest.mark.parametrize(("text", "message"), [("a: [", "not YAML"), ("- 1", "must have sections"), ("lr: 1", "must")])
def test_recipes_that_are_none(tmp_path, text, message):
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(WrongConfig, match=message):
        read_recipe(tmp_path / "r.yaml")
    with pytest.raises(WrongConfig, match="there is no recipe"):
        read_recipe(tmp_path / "none.yaml")


def test_every_recipe_of_the_package_is_valid():
    from importlib.resources import files

    from tgnn.data.catalog import CATALOG

    count = 0
    for table in files("tgnn").joinpath("recipes").iterdir():
        for data in table.iterdir():
            assert table.name == "default" or data.name in CATALOG
            for file in data.iterdir():
                resolve(data.name, file.name.removesuffix(".yaml"), "node")
                count += 1
    assert count >= 10
