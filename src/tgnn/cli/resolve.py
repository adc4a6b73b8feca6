"""From what the user typed to the settings of a run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tgnn.training.config import Config

logger = logging.getLogger("tgnn")


def resolve_config(name: str | None, model: str | None, recipe: Path | None, changes: dict[str, Any]) -> Config:
    """The settings, checked as far as that is possible without the data.

    Args:
        name: Of a data set, or a path; ``None``: the recipe names it.
        model: Its name; ``None``: the recipe's, else tgnn.
        recipe: The user's own.
        changes: Single settings, as ``section.key``.
    """
    if name is None and recipe is None and "data.name" not in changes:
        raise _no_data()  # before anything heavy is imported
    from tgnn.data.load import task_level
    from tgnn.models import get_model
    from tgnn.training.model_check import check_model
    from tgnn.training.recipes import read_recipe, resolve

    own, changes = read_recipe(recipe) if recipe is not None else {}, dict(changes)
    name = _typed_once(name, changes.pop("data.name", None), "NAME", "data.name")
    model = _typed_once(model, changes.pop("model.name", None), "--model", "model.name")
    named = {section: own.get(section, {}).get("name") for section in ("data", "model")}
    data = _whole(str(name or named["data"] or ""))
    if not data:
        raise _no_data()
    if named["data"] and data != _whole(str(named["data"])):
        logger.warning("the recipe names %s; training on %s as asked", named["data"], name)
    if model and named["model"] and model != named["model"]:
        logger.warning("the recipe is for the model %s; training %s as asked", named["model"], model)
    chosen = model or str(named["model"] or "tgnn")
    get_model(chosen)
    level = task_level(data)
    config = resolve(data, chosen, level, own, changes)
    check_model(config, level)
    return config


def _no_data() -> typer.BadParameter:
    hint = "give a data set by name, your own with --data, or a recipe that names one"
    return typer.BadParameter(hint, param_hint="NAME")


def _typed_once(typed: str | None, set_: Any, hint: str, key: str) -> str | None:
    if set_ is None:
        return typed
    if typed is not None:
        raise typer.BadParameter(f"give {hint} or --set {key}=..., not both", param_hint=hint)
    return str(set_)


def _whole(name: str) -> str:
    """A path from the root, so that a run finds its data from everywhere; a name of the catalog stays one."""
    from tgnn.data.catalog import CATALOG

    path = Path(name).expanduser()
    return str(path.resolve()) if name and name not in CATALOG and path.exists() else name
