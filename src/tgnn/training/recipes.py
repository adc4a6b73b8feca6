"""Settings that are good for a data set and a model: YAML files for some pairs, and defaults for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from tgnn.data.catalog import CATALOG
from tgnn.data.on_disk.layout import read_data_facts
from tgnn.data.readers.detect import is_on_disk
from tgnn.models.registry import MODELS, count_hops, model_options
from tgnn.training.config import Config, ConfigError, make_config, with_changes
from tgnn.utils.yaml import parse_yaml

_FAN_OUT, _BATCH = 10, 1024
"""Neighbours of a node, and nodes in a step, where a graph is on disk and nobody says."""
_SCHEDULE = {"schedule": "constant", "warmup": 0, "grad_clip": None}
"""What goes with the number of epochs."""


def recipe_for(data: str, model: str, level: str = "node") -> dict[str, Any]:
    """The settings of the recipe for a data set and a model, or of the default for its level.

    On a data set of the catalogue data, budget and schedule are those of tgnn's recipe there, for every model. But how
    features are scaled, and by what the epoch is chosen, is each model's own choice: searches choose it.

    Args:
        data: Name of the data set.
        model: Name of the model.
        level: ``"node"`` or ``"graph"``.

    Example:
        >>> recipe_for("cora", "tgnn")["data"]["split"]
        'per-class-quota'
        >>> recipe_for("zinc", "gin", "graph")["train"] == recipe_for("zinc", "tgnn", "graph")["train"]
        True
    """
    own = _find(data, model, level)
    return own if model == "tgnn" or data not in CATALOG else _beside(_find(data, "tgnn", level), own)


def _beside(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe with the data, the budget and the schedule of another."""
    same = {part: {**theirs.get(part, {}), **ours.get(part, {})} for part in ("data", "train")}
    same["data"] |= {key: value for key, value in theirs.get("data", {}).items() if key == "features"}
    if "select_by" in same["train"]:
        same["train"]["select_by"] = theirs.get("train", {}).get("select_by", "metric")
    schedule = {key: ours.get("optimizer", {}).get(key, default) for key, default in _SCHEDULE.items()}
    return {**theirs, **same, "optimizer": {**theirs.get("optimizer", {}), **schedule}}


def _find(data: str, model: str, level: str) -> dict[str, Any]:
    tables = (
        [] if data not in CATALOG else sorted(files("tgnn").joinpath("recipes").iterdir(), key=lambda table: table.name)
    )
    for table in tables:
        file = table / data / f"{model}.yaml"
        if file.is_file():
            return _parse(file.read_text(encoding="utf-8"), str(file))
    file = files("tgnn") / "recipes" / "default" / level / f"{model}.yaml"
    return _parse(file.read_text(encoding="utf-8"), str(file)) if file.is_file() else {"model": {"name": model}}


def read_recipe(path: Path) -> dict[str, Any]:
    """A recipe of the user's own, whole or in part."""
    if not path.exists():
        raise ConfigError(f"there is no recipe {path}")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder, and a recipe is a YAML file; that of a run is {path / 'config.yaml'}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text file in UTF-8, and a recipe is a YAML file") from None
    return _parse(text, str(path))


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        found = parse_yaml(text) or {}
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(fields, dict) for fields in found.values()):
        raise ConfigError(f"{name} must have sections (data, model, optimizer, train) with their settings")
    return found


def resolve(
    data: str, model: str, level: str, own: Mapping[str, Any] | None = None, changes: Mapping[str, Any] | None = None
) -> Config:
    """The recipe, then the user's own file, then single settings.

    A recipe's ``train.num_neighbors`` is cut to the steps that the model sees; one that sees farther learns from whole graphs.

    Args:
        data: Name of the data set, or a path.
        model: Name of the model.
        level: ``"node"`` or ``"graph"``.
        own: Sections of a recipe of the user's.
        changes: Single settings, as ``section.key``.
    """
    settings = recipe_for(data, model, level)
    train = settings.get("train", {})
    sampling = (
        {key: train.pop(key, None) for key in ("num_neighbors", "batch_size")} if train.get("num_neighbors") else {}
    )
    on_disk = data not in CATALOG and is_on_disk(data)
    for section, fields in [*(_on_disk(data) if on_disk and model == "tgnn" else {}).items(), *(own or {}).items()]:
        settings[section] = {**settings.get(section, {}), **fields}
    if "train.num_neighbors" in (changes or {}) or "num_neighbors" in (own or {}).get("train", {}):
        sampling = {}
    named = {"data.name": data, "model.name": model}
    build = MODELS[model].builder(level) if model in MODELS else None
    own_keys = [f"model.{key}" for key in model_options(build)] if build is not None else []
    config = make_config(with_changes(settings, {**named, **(changes or {})}, own_keys))
    fitted = _fit_sample(config, sampling, on_disk)
    return make_config(with_changes(config.model_dump(mode="json"), fitted)) if fitted else config


def _fit_sample(config: Config, recipe: Mapping[str, Any], on_disk: bool) -> dict[str, Any]:
    """``train.num_neighbors`` with an entry for each step that the model sees: of the recipe, or of a graph on disk."""
    hops = count_hops(config.model.name, config.model.num_layers, config.model.arguments)
    if on_disk and config.train.num_neighbors is None:
        return {"train.num_neighbors": (_FAN_OUT,) * hops or None}
    if recipe and 0 < hops <= len(recipe["num_neighbors"]):
        batch = config.train.batch_size or recipe["batch_size"]
        return {"train.num_neighbors": recipe["num_neighbors"][:hops], "train.batch_size": batch}
    return {}


def _on_disk(path: str) -> dict[str, dict[str, Any]]:
    """How tgnn learns from a graph on disk: in 20 epochs of a large graph, and up to 200 of a small one, which has
    few steps in an epoch.
    """
    epochs = min(max(2000 * _BATCH // max(read_data_facts(Path(path).expanduser())["nodes"], 1), 20), 200)
    return {
        "model": {"low_order": "mean"},  # which is about the same for some neighbours and for all
        "train": {"epochs": epochs, "patience": epochs // 4, "batch_size": _BATCH, "workers": 2},
    }
