"""Default search space of a model, changed by the user's own ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from tgnn.data.dataset_info import LoadedData
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk import DiskGraph
from tgnn.data.splits import STORED
from tgnn.data.transforms import FEATURE_SCALINGS
from tgnn.models import get_model, model_options, search_space
from tgnn.training.config import Config, ConfigError, make_config, option_keys, with_options
from tgnn.training.prepare import Prepared, check_model
from tgnn.utils.suggest import closest_match

_DEPTH_KEYS = ("model.num_layers", "model.powers")
"""Keys that change the number of hops. ``train.num_neighbors`` has one entry for each hop, so they are not searched
with neighbor sampling."""

_ADAMW_WEIGHT_DECAY = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5)
"""AdamW decouples weight decay from the gradient, so its useful range differs from Adam's."""

_NOT_SEARCHABLE = (
    *("data.name", "data.root", "data.offline", "data.split", "model.name"),
    *("train.seed", "train.prior_correction", "train.threads", "train.workers"),
    *("train.device", "train.track", "train.save_every"),
)


def build_search_space(
    config: Config, prepared: Prepared, user_space: Mapping[str, tuple[Any, ...]]
) -> dict[str, tuple[Any, ...]]:
    """Return the values to try for each ``section.key``.

    The default space has the common ranges of the paper and those of the model. It also has the row normalization of
    non-negative features and, for classification, the quantity that selects the epoch.

    Args:
        config: Base configuration of the search.
        prepared: The data, split and task.
        user_space: Values that replace the default range of a key. An empty tuple removes the key from the space.
    """
    is_sampled = config.train.num_neighbors is not None or bool(user_space.get("train.num_neighbors"))
    if is_sampled and (depth_keys := [key for key in _DEPTH_KEYS if user_space.get(key)]):
        key = depth_keys[0]
        raise ConfigError(
            f"{key} cannot be searched with neighbor sampling, because train.num_neighbors has one entry for each "
            f"hop: run one search for each value, with --set {key}=... --set train.num_neighbors=..."
        )
    shape = prepared.shape
    space: dict[str, tuple[Any, ...]] = dict(search_space(config.model.name, shape.level))
    if config.optimizer.name == "adamw":
        space["optimizer.weight_decay"] = _ADAMW_WEIGHT_DECAY
    if isinstance(shape.features, int) and _are_features_nonnegative(prepared.data):
        space["data.features"] = FEATURE_SCALINGS
    if prepared.task.metric == "accuracy":
        space["train.select_by"] = ("metric", "loss")
    if is_sampled:
        space = {key: values for key, values in space.items() if key not in _DEPTH_KEYS}
    return {key: values for key, values in {**space, **user_space}.items() if values}


def _are_features_nonnegative(data: LoadedData) -> bool:
    """Return whether no feature of a single graph is negative, as for word counts.

    Rows of standardized features are not normalized, because their norm carries information. Only the first 10,000
    rows of a graph on disk are read.
    """
    if isinstance(data, GraphDataset) or data.x is None:
        return False
    x = data.rows_between(0, min(data.num_nodes, 10_000)) if isinstance(data, DiskGraph) else data.x
    values = x.values() if x.layout == torch.sparse_csr else x
    return bool((values >= 0).all())


def check_search_space(config: Config, level: str, space: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise a ``ConfigError`` if a key cannot be searched or a value is not allowed.

    Args:
        config: Base configuration of the search.
        level: ``"node"`` or ``"graph"``.
        space: Values to try for each ``section.key``.
    """
    builder = get_model(config.model.name).builder(level)
    model_keys = [] if builder is None else [f"model.{name}" for name in model_options(builder)]
    for key, values in space.items():
        if key in _NOT_SEARCHABLE:
            raise ConfigError(f"{key} cannot be searched, because scores of different values are not comparable")
        if not values and key not in (known_keys := [*option_keys(), *model_keys]):
            raise ConfigError(f"unknown option {key!r}: did you mean {closest_match(key, known_keys, cutoff=0)}?")
        for value in values:
            check_model(make_config(with_options(config.model_dump(mode="json"), {key: value}, model_keys)), level)


def with_model_defaults(config: Config, level: str, keys: Iterable[str]) -> Config:
    """Return the configuration with explicit values for the searched model arguments, also where they are defaults.

    Args:
        config: Base configuration of the search.
        level: ``"node"`` or ``"graph"``.
        keys: The searched keys, as ``section.key``.
    """
    builder = get_model(config.model.name).builder(level)
    defaults = {}
    if builder is not None:
        defaults = {f"model.{name}": default for name, (_, default) in model_options(builder).items()}
    explicit = {f"model.{name}" for name in config.model.arguments}
    missing = {key: defaults[key] for key in keys if key in defaults and key not in explicit}
    return make_config(with_options(config.model_dump(mode="json"), missing))


def default_num_splits(prepared: Prepared) -> int:
    """Return the default number of splits of a trial: 3, or 1 if the split comes with the data."""
    return 1 if prepared.split.name in STORED else 3
