"""Recipes: hyperparameters and training budget for a data set and a model.

The package has one YAML file per data set. It states the budget that all models share, and a block per model. A recipe
becomes a configuration in this order: find the file of the data set, pick the block of the model, merge both, then
apply the user's recipe file, then single options.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from tgnn.data.catalog import CATALOG
from tgnn.data.on_disk.manifest import Manifest
from tgnn.data.readers.detect import is_on_disk
from tgnn.models import MODELS, count_hops, model_options
from tgnn.training.config import (
    Config,
    ConfigError,
    ModelOptimizerConfig,
    OptimizerConfig,
    PreprocessingConfig,
    ScheduleConfig,
    Section,
    TrainConfig,
    make_config,
    with_options,
)
from tgnn.utils.read import read_content
from tgnn.utils.yaml import parse_yaml

_NEIGHBORS_PER_HOP, _BATCH_SIZE = 10, 1024
"""Defaults of ``train.num_neighbors`` and ``train.batch_size`` for graphs on disk."""


# ---- schema of the package's recipe files ----------------------------------------------------------------------


class SharedDataConfig(PreprocessingConfig):
    """Split and preprocessing of a data set. A model's block may replace the preprocessing."""

    split: str | None = None


class ModelBlock(PreprocessingConfig):
    """Hyperparameters of one model on one data set. The keys of ``model`` are checked with the model."""

    model: dict[str, Any] = Field(default_factory=dict)
    optimizer: ModelOptimizerConfig = ModelOptimizerConfig()
    select_by: Literal["metric", "loss"] = "metric"


class RecipeFile(Section):
    """Recipe file of a data set: the budget that all models share, and a block per model."""

    data: SharedDataConfig = SharedDataConfig()
    train: TrainConfig = TrainConfig()
    optimizer: ScheduleConfig = ScheduleConfig()
    models: dict[str, ModelBlock] = Field(default_factory=dict)


class DefaultModelBlock(ModelBlock):
    """Hyperparameters of one model on data without a recipe file, where no schedule is shared by all models."""

    optimizer: OptimizerConfig = OptimizerConfig()


class DefaultRecipeFile(RecipeFile):
    """Recipe file of data sets without one: ``default-node.yaml`` and ``default-graph.yaml``."""

    models: dict[str, DefaultModelBlock] = Field(default_factory=dict)  # type: ignore[assignment]


def parse_recipe_file(content: Any, name: str) -> RecipeFile:
    """Validate the content of a recipe file of the package. The names of the two default files start with ``default-``.

    Example:
        >>> parse_recipe_file({"models": {"gcn": {"epochs": 100}}}, "cora.yaml")
        Traceback (most recent call last):
        tgnn.training.config.ConfigError: cora.yaml: models.gcn.epochs is not a key of a recipe file: ...
    """
    schema = DefaultRecipeFile if name.startswith("default-") else RecipeFile
    try:
        return schema.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{name}: {'; '.join(_describe(problem) for problem in error.errors())}") from None


def _describe(problem: Mapping[str, Any]) -> str:
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] != "extra_forbidden":
        return f"{key} is {problem['input']!r}: {problem['msg']}"
    return (
        f"{key} is not a key of a recipe file: the budget that all models share is at the top of the file "
        f"({', '.join(RecipeFile.model_fields)}), and a model's block has {', '.join(ModelBlock.model_fields)}"
    )


@cache
def read_package_recipe(name: str) -> RecipeFile | None:
    """Read the recipe file of a data set, ``"default-node"`` or ``"default-graph"``. ``None``: there is no file."""
    path = files("tgnn") / "recipes" / f"{name}.yaml"
    if not path.is_file():
        return None
    return parse_recipe_file(parse_yaml(path.read_text(encoding="utf-8")), path.name)


# ---- resolution ------------------------------------------------------------------------------------------------


def resolve(
    data: str,
    model: str,
    level: str,
    user_recipe: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Config:
    """Resolve the configuration of a run: the package's recipe, then the user's recipe, then single options.

    ``train.num_neighbors`` of the package's recipe is cut to the number of hops of the model. A model with more hops
    than that, or with none, trains on the whole graph. ``train.num_neighbors`` of the user is never cut.
    """
    user_recipe, changes = user_recipe or {}, changes or {}
    on_disk = data not in CATALOG and is_on_disk(data)
    sections = recipe_for(data, model, level)
    if on_disk and model == "tgnn":
        sections = _merge(sections, _on_disk_recipe(data))
    sampling: dict[str, Any] = {}
    if sections["train"].get("num_neighbors"):  # it and its batch size depend on the final number of hops
        sampling = {key: sections["train"].pop(key, None) for key in ("num_neighbors", "batch_size")}
    if "train.num_neighbors" in changes or "num_neighbors" in user_recipe.get("train", {}):
        sampling = {}
    build = MODELS[model].builder(level) if model in MODELS else None
    model_keys = [] if build is None else [f"model.{key}" for key in model_options(build)]
    options = {"data.name": data, "model.name": model, **_select_by_metric(user_recipe, changes), **changes}
    config = make_config(with_options(_merge(sections, user_recipe), options, model_keys))
    fitted = _fit_num_neighbors(config, sampling, on_disk)
    return make_config(with_options(config.model_dump(mode="json"), fitted)) if fitted else config


def _select_by_metric(user_recipe: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, str]:
    """Select the best epoch by the metric that the user gives, although the package's recipe may select by loss."""
    train = user_recipe.get("train", {})
    given = changes.get("train.metric") or train.get("metric")
    is_explicit = "train.select_by" in changes or "select_by" in train
    return {"train.select_by": "metric"} if given and not is_explicit else {}


def recipe_for(data: str, model: str, level: str = "node") -> dict[str, dict[str, Any]]:
    """Return the sections of the package's recipe for a data set and a model.

    The file of the data set states the data, the budget and the schedule, which all models share. The block of the
    model states its hyperparameters. A model without a block takes its block of the default file, and data without a
    file takes the budget of the default file, too. ``level`` selects the default file.

    Example:
        >>> recipe_for("cora", "tgnn")["data"]["split"]
        'per-class-quota'
        >>> recipe_for("zinc", "gin", "graph")["train"] == recipe_for("zinc", "tgnn", "graph")["train"]
        True
    """
    default = read_package_recipe(f"default-{level}") or RecipeFile()
    file = read_package_recipe(data) if data in CATALOG else None
    shared = file or default
    block = shared.models.get(model) or default.models.get(model) or ModelBlock()
    # A data set's schedule replaces the block's as a whole, so its defaults count, too.
    schedule = file.optimizer.model_dump() if file else _explicit_values(default.optimizer)
    return {
        "data": _explicit_values(shared.data) | _explicit_values(block, *PreprocessingConfig.model_fields),
        "model": {"name": model, **block.model},
        "optimizer": _explicit_values(block.optimizer) | schedule,
        "train": _explicit_values(shared.train) | _explicit_values(block, "select_by"),
    }


def read_user_recipe(path: Path) -> dict[str, Any]:
    """Read a YAML file of the user with any part of the sections data, model, optimizer and train."""
    if not path.exists():
        raise ConfigError(f"the recipe {path} does not exist")
    if path.is_dir():
        raise ConfigError(
            f"{path} is a folder, but a recipe is a YAML file; the recipe of a run is {path / 'config.yaml'}"
        )
    try:
        sections = read_content(path, ".yaml") or {}
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if not isinstance(sections, dict) or not all(isinstance(fields, dict) for fields in sections.values()):
        raise ConfigError(
            f"{path} must consist of sections (data, model, optimizer, train) with options, e.g. model: {{rank: 8}}"
        )
    return sections


def _explicit_values(section: BaseModel, *keys: str) -> dict[str, Any]:
    """Return the values that a file states, without defaults; all, or those of some keys."""
    return section.model_dump(mode="json", exclude_unset=True, include=set(keys) if keys else None)


def _merge(sections: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Replace single values of sections by those of others."""
    return {key: {**sections.get(key, {}), **others.get(key, {})} for key in [*sections, *others]}


def _fit_num_neighbors(config: Config, sampling: Mapping[str, Any], on_disk: bool) -> dict[str, Any]:
    """Cut ``train.num_neighbors`` of a recipe, or set that of a graph on disk, to one entry per hop of the model."""
    hops = count_hops(config.model.name, config.model.num_layers, config.model.arguments)
    if on_disk and config.train.num_neighbors is None:
        return {"train.num_neighbors": (_NEIGHBORS_PER_HOP,) * hops or None}
    if sampling and 0 < hops <= len(sampling["num_neighbors"]):
        batch_size = config.train.batch_size or sampling["batch_size"]
        return {"train.num_neighbors": sampling["num_neighbors"][:hops], "train.batch_size": batch_size}
    return {}


def _on_disk_recipe(path: str) -> dict[str, dict[str, Any]]:
    """Return the recipe of tgnn for a graph on disk.

    A large graph trains for 20 epochs. A small one has few batches per epoch, so it trains for up to 200. It has many
    examples, so the regularization of the default recipe, which was selected on small tables, is weakened.
    """
    nodes = max(Manifest.open(Path(path).expanduser()).nodes, 1)
    epochs = min(max(2000 * _BATCH_SIZE // nodes, 20), 200)
    return {
        # The expectation of a mean is the same for sampled and for full neighborhoods.
        "model": {"low_order": "mean", "input_dropout": 0.0, "high_start": 1.0},
        "optimizer": {"weight_decay": 5e-4},
        "train": {"epochs": epochs, "patience": epochs // 4, "batch_size": _BATCH_SIZE, "workers": 2},
    }
