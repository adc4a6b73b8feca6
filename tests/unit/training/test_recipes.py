"""Recipes: all files of the package are valid, their values are used, and the user can override them."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from tools.select_learning_rate import short_config, validation_score, with_learning_rate

from tgnn.data.catalog import CATALOG
from tgnn.models import MODELS, count_hops
from tgnn.training.config import ConfigError
from tgnn.training.prepare import check_model, prepare_without_test
from tgnn.training.recipes import parse_recipe_file, read_package_recipe, read_user_recipe, recipe_for, resolve
from tgnn.utils.yaml import parse_yaml

FILES = sorted(path.name.removesuffix(".yaml") for path in files("tgnn").joinpath("recipes").iterdir())
DEFAULTS = ["default-graph", "default-node"]


def read_text(name: str) -> str:
    return (files("tgnn") / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")


def models_of(level: str) -> list[str]:
    return [name for name, model in MODELS.items() if model.builder(level) is not None]


def test_every_data_set_has_a_file_and_every_file_a_data_set():
    assert sorted([*CATALOG, *DEFAULTS]) == FILES


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_valid_and_a_comment_above_every_block_states_its_origin(name):
    models, lines = read_package_recipe(name).models, read_text(name).splitlines()
    level = CATALOG[name].level if name in CATALOG else name.removeprefix("default-")
    assert set(models) <= set(models_of(level))
    assert name in CATALOG or set(models) == set(models_of(level))
    assert lines[0].startswith("# ")
    for model in models:
        check_model(resolve(name if name in CATALOG else "", model, level), level)
        assert lines[lines.index(f"  {model}:") - 1].startswith("  # "), f"no comment above {model} in {name}.yaml"


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_what_a_file_states_is_what_runs(name):
    """For the models with a block and for those without; only num_neighbors is cut to the hops of a model."""
    level, content = CATALOG[name].level, parse_yaml(read_text(name))
    for model in models_of(level):
        block = content["models"].get(model, {})
        stated = {
            f"{section}.{key}": value
            for section in ("data", "optimizer", "train")
            for key, value in content.get(section, {}).items()
        }
        stated |= {
            f"{section}.{key}": value
            for section in ("model", "optimizer")
            for key, value in block.get(section, {}).items()
        }
        stated |= {f"data.{key}": block[key] for key in ("features", "edge_features") if key in block}
        stated |= {f"train.{key}": block[key] for key in ("select_by",) if key in block}
        config = resolve(name, model, level)
        if "train.num_neighbors" in stated:
            hops = count_hops(model, config.model.num_layers, config.model.arguments)
            if 0 < hops <= len(stated["train.num_neighbors"]):
                stated["train.num_neighbors"] = stated["train.num_neighbors"][:hops]
            else:
                stated |= {"train.num_neighbors": None, "train.batch_size": None}
        resolved = config.model_dump(mode="json")
        for key, value in stated.items():
            section, _, field = key.partition(".")
            assert resolved[section][field] == value, f"{model} on {name}: {key}"


def test_a_schedule_of_a_default_block_runs_only_without_a_file():
    assert resolve("", "gin", "graph").optimizer.schedule == "plateau"
    assert resolve("mutag", "gin", "graph").optimizer.schedule == "constant"
    assert resolve("mutag", "gin", "graph").optimizer.lr == resolve("", "gin", "graph").optimizer.lr


@pytest.mark.parametrize(
    ("content", "key"),
    [
        *(({"models": {"gcn": {key: 1}}}, f"models.gcn.{key}") for key in ("split", "epochs", "num_neighbors", "lr")),
        ({"models": {"gcn": {"optimizer": {"schedule": "cosine"}}}}, "models.gcn.optimizer.schedule"),
        ({"models": {"gcn": {"train": {"epochs": 1}}}}, "models.gcn.train"),
        ({"optimizer": {"lr": 1}}, "optimizer.lr"),
        ({"data": {"name": "cora"}}, "data.name"),
        ({"trian": {}}, "trian"),
    ],
)
def test_a_key_in_the_wrong_place_is_refused(content, key):
    with pytest.raises(ConfigError, match=rf"^cora\.yaml: {re.escape(key)} is not a key .* top of the file"):
        parse_recipe_file(content, "cora.yaml")


def test_values_are_checked():
    with pytest.raises(ConfigError, match=r"train\.epochs is 0: Input should be greater than or equal to 1"):
        parse_recipe_file({"train": {"epochs": 0}}, "cora.yaml")


def test_blocks_of_default_files_may_have_a_schedule():
    content = {"models": {"gcn": {"optimizer": {"schedule": "plateau", "warmup": 1, "grad_clip": 1.0}}}}
    assert parse_recipe_file(content, "default-node.yaml").models["gcn"].optimizer.schedule == "plateau"
    with pytest.raises(ConfigError, match=r"default-node\.yaml: models\.gcn\.epochs is not a key of a recipe file"):
        parse_recipe_file({"models": {"gcn": {"epochs": 1}}}, "default-node.yaml")


# ---- recipes of the user ----------------------------------------------------------------------------------------


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
    with pytest.raises(ConfigError, match="one number for each of the 3 hops"):
        resolve("ogbn-products", "tgnn", "node", changes={"train.num_neighbors": (7, 7)})


def test_hyperparameters_are_checked_without_data():
    for key, value in (("model.mix", "foo"), ("model.rank", True), ("model.rnak", 3), ("model.rank", "many")):
        with pytest.raises(ValueError, match=key.partition(".")[2]):
            check_model(resolve("", "tgnn", "node", changes={key: value}), "node")


def test_learning_rates_are_compared_with_a_tenth_of_the_epochs():
    recipe = resolve("zinc", "gin", "graph")
    short = short_config(recipe, 0.02)
    assert (short.optimizer.lr, short.optimizer.warmup) == (0.02, 1)
    assert (short.train.epochs, short.train.patience) == (6, 6)
    assert (short.model, short.data) == (recipe.model, recipe.data)
    small = {"model.hidden_channels": 4, "model.num_layers": 1, "train.epochs": 10}
    config = resolve("digits-graphs", "gin", "graph", changes=small)
    assert 0 <= validation_score(short_config(config, 0.01), prepare_without_test(config)) <= 1


@pytest.mark.parametrize("model", ["tgnn", "phm-gnn"])
def test_a_selected_learning_rate_replaces_that_of_its_block_only(model):
    recipe = read_text("mnist")
    changed = with_learning_rate(recipe, model, 0.0123, "validation accuracy 0.5")
    models, earlier = parse_yaml(changed)["models"], parse_yaml(recipe)["models"]
    assert models[model]["optimizer"] == {**earlier[model]["optimizer"], "lr": 0.0123}
    assert {name: block for name, block in models.items() if name != model} == {
        name: block for name, block in earlier.items() if name != model
    }
    lines = changed.splitlines()
    assert lines[lines.index(f"  {model}:") - 1] == "  # validation accuracy 0.5"
    assert len(lines) == len(recipe.splitlines())


def test_a_model_without_a_learning_rate_in_the_recipe_is_an_error():
    with pytest.raises(ValueError, match="0 blocks of unknown"):
        with_learning_rate(read_text("mnist"), "unknown", 0.1, "")
