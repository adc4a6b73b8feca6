"""The resolved configuration of every pair of data set and model, as one line of ``configs.json`` each."""

from __future__ import annotations

from typing import Any

from tgnn.data.catalog import CATALOG
from tgnn.models import MODELS
from tgnn.training.config import Config
from tgnn.training.recipes import resolve

DEFAULTS = Config().model_dump(mode="json")


def current_configs() -> dict[str, dict[str, Any]]:
    """Map ``data set/model`` to the options that differ from the defaults of :class:`Config`.

    ``own-node`` and ``own-graph`` stand for a user's own data, which has no recipe.
    """
    levels = {name: entry.level for name, entry in CATALOG.items()} | {"own-node": "node", "own-graph": "graph"}
    return {
        f"{data}/{model}": _differences(resolve("" if data.startswith("own-") else data, model, level))
        for data, level in levels.items()
        for model, entry in MODELS.items()
        if entry.builder(level) is not None
    }


def _differences(config: Config) -> dict[str, Any]:
    sections = config.model_dump(mode="json")
    return {
        f"{section}.{key}": value
        for section, fields in sections.items()
        for key, value in fields.items()
        if key not in DEFAULTS[section] or value != DEFAULTS[section][key]
    }
