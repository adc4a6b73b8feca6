"""Schema of the package's recipe files: one YAML file per data set, with a block of hyperparameters per model."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from tgnn.training.config import (
    ConfigError,
    ModelConfig,
    ModelOptimizerConfig,
    OptimizerConfig,
    ScheduleConfig,
    Section,
    TrainConfig,
)


class ModelBlock(Section):
    """Hyperparameters of one model on one data set."""

    model: dict[str, Any] = Field(default_factory=dict)
    optimizer: ModelOptimizerConfig = ModelOptimizerConfig()
    features: Literal["stored", "row-sum", "row-l2"] = "stored"
    edge_features: bool = True
    select_by: Literal["metric", "loss"] = "metric"


class DefaultModelBlock(ModelBlock):
    """Hyperparameters of one model on data without a recipe file, where no schedule is shared by all models."""

    optimizer: OptimizerConfig = OptimizerConfig()


class SharedDataConfig(Section):
    """Split and preprocessing of a data set. A model's block may replace the last two."""

    split: str | None = None
    features: Literal["stored", "row-sum", "row-l2"] = "stored"
    edge_features: bool = True


class RecipeFile(Section):
    """Recipe file of a data set: the budget that all models share, and a block per model."""

    data: SharedDataConfig = SharedDataConfig()
    train: TrainConfig = TrainConfig()
    optimizer: ScheduleConfig = ScheduleConfig()
    models: dict[str, ModelBlock] = Field(default_factory=dict)


class DefaultRecipeFile(RecipeFile):
    """Recipe file of data sets without one: ``default-node.yaml`` and ``default-graph.yaml``."""

    models: dict[str, DefaultModelBlock] = Field(default_factory=dict)  # type: ignore[assignment]


_SHARED: dict[str, type[BaseModel]] = {"data": SharedDataConfig, "optimizer": ScheduleConfig, "train": TrainConfig}
_OF_A_MODEL: dict[str, type[BaseModel]] = {"model": ModelConfig, "optimizer": ModelOptimizerConfig}


def parse_recipe_file(content: Any, name: str) -> RecipeFile:
    """Validate the content of a recipe file of the package.

    Args:
        content: The parsed YAML.
        name: Name of the file. The two default files start with ``default-``.

    Raises:
        ConfigError: If a key is unknown, is in the wrong place or has an invalid value. The message names the file,
            the key and where the key belongs.

    Example:
        >>> parse_recipe_file({"models": {"gcn": {"epochs": 100}}}, "cora.yaml")
        Traceback (most recent call last):
        tgnn.training.config.ConfigError: cora.yaml: models.gcn.epochs belongs at the top of the file, as train.epochs
    """
    schema = DefaultRecipeFile if name.startswith("default-") else RecipeFile
    try:
        recipe = schema.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{name}: {'; '.join(_explain(problem) for problem in error.errors())}") from None
    for model, block in recipe.models.items():
        for key in block.model:
            place = None if key in ModelConfig.model_fields else _place_of(key)
            if place is not None:
                raise ConfigError(f"{name}: models.{model}.model.{key} belongs {place}")
            if key == "name":
                raise ConfigError(f"{name}: remove models.{model}.model.name; the block's key names the model")
    return recipe


def _explain(problem: Any) -> str:
    """Turn an error of pydantic into a message that names the key and where it belongs, or what is allowed."""
    path = [str(part) for part in problem["loc"]]
    where = ".".join(path)
    if problem["type"] != "extra_forbidden":
        subject = f"{where} is" if where else "the content is"
        return f"{subject} {problem['input']!r}, but {problem['msg'].replace('Input should', 'it should', 1)}"
    place = _place_of(path[-1])
    if place is not None:
        return f"{where} belongs {place}"
    if len(path) == 1:
        schema: type[BaseModel] = RecipeFile
    elif path[0] == "models":
        schema = ModelBlock if len(path) == 3 else ModelOptimizerConfig
    else:
        schema = _SHARED[path[0]]
    return f"unknown key {where}; allowed are {', '.join(schema.model_fields)}"


def _place_of(key: str) -> str | None:
    """Describe where a key belongs in a recipe file; ``None`` if no section has it."""
    if key in ("data", "train", "models"):
        return f"at the top of the file, as {key}"
    for section, schema in _SHARED.items():
        if key in schema.model_fields and key not in ModelBlock.model_fields:
            return f"at the top of the file, as {section}.{key}"
    for section, schema in _OF_A_MODEL.items():
        if key in schema.model_fields and key != "name":
            return f"in a model's block, as {section}.{key}"
    return "in a model's block" if key in ModelBlock.model_fields else None
