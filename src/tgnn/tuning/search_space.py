"""What a search tries where nobody says: ranges of the model, scaling of features, how the epoch is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from tgnn.data.catalog.entry import LoadedData
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk import DiskGraph
from tgnn.data.split_protocols import STORED
from tgnn.data.transforms import FEATURE_SCALINGS
from tgnn.models import get_model, model_options, search_space
from tgnn.training.config import Config, ConfigError, make_config, option_keys, with_options
from tgnn.training.model_check import check_model
from tgnn.training.prepare import Prepared
from tgnn.utils.suggest import closest_match

_HOPS = ("model.num_layers", "model.powers")
"""How far a model sees: not searched where neighbours are sampled, of which there is one number for each step."""
_DECAY_OF_ADAMW = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5)
"""Its decay is a share of the step, Adam's a part of the gradient: their sizes have nothing to do with one another."""


def space_of(config: Config, prepared: Prepared, own: Mapping[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Settings and the values to try.

    Args:
        config: Where the search starts.
        prepared: The data.
        own: What somebody says, in place of what is known; no values: it is not searched.
    """
    sampled = config.train.num_neighbors is not None or bool(own.get("train.num_neighbors"))
    if sampled and (far := [key for key in _HOPS if own.get(key)]):
        raise ConfigError(
            f"{far[0]} cannot be searched where neighbours are sampled (train.num_neighbors has a number for each step): "
            f"search one value after the other, with --set {far[0]}=... and --set train.num_neighbors=..."
        )
    shape = prepared.shape
    space: dict[str, tuple[Any, ...]] = dict(search_space(config.model.name, shape.level))
    if config.optimizer.name == "adamw":
        space["optimizer.weight_decay"] = _DECAY_OF_ADAMW
    if isinstance(shape.features, int) and _like_counts(prepared.data):
        space["data.features"] = FEATURE_SCALINGS
    if prepared.task.metric == "accuracy":
        space["train.select_by"] = ("metric", "loss")
    known = {key: values for key, values in space.items() if not (sampled and key in _HOPS)}
    return {key: values for key, values in {**known, **own}.items() if values}


def _like_counts(data: LoadedData) -> bool:
    """Whether rows of one graph may be divided by their size: not where numbers are around a mean, as after
    standardizing, where the size of a row says something. Of a graph on disk the first rows tell.
    """
    if isinstance(data, GraphDataset) or data.x is None:
        return False
    x = data.rows_between(0, min(data.num_nodes, 10_000)) if isinstance(data, DiskGraph) else data.x
    values = x.values() if x.layout == torch.sparse_csr else x
    return bool((values >= 0).all())


_NEVER = (
    *("data.name", "data.root", "data.offline", "data.split", "model.name"),
    *("train.seed", "train.prior_correction", "train.threads", "train.workers"),
    *("train.device", "train.track", "train.save_every"),
)


def check_search(config: Config, level: str, space: Mapping[str, tuple[Any, ...]]) -> None:
    """Raises where a key cannot be searched or a value cannot be.

    Args:
        config: Of a run.
        level: ``"node"`` or ``"graph"``.
        space: Settings and values.
    """
    build = get_model(config.model.name).builder(level)
    own = [] if build is None else [f"model.{name}" for name in model_options(build)]
    for key, values in space.items():
        if key in _NEVER:
            raise ConfigError(f"{key} cannot be searched: scores would not be of the same thing")
        if not values and key not in (known := [*option_keys(), *own]):
            raise ConfigError(f"unknown option {key!r}; did you mean {closest_match(key, known, cutoff=0)}?")
        for value in values:
            check_model(make_config(with_options(config.model_dump(mode="json"), {key: value}, own)), level)


def with_defaults(config: Config, level: str, keys: Iterable[str]) -> Config:
    """The same settings, but those of the model's own that are searched are said, also where they are the default.

    Args:
        config: Of a run.
        level: ``"node"`` or ``"graph"``.
        keys: That are searched, as ``section.key``.
    """
    build = get_model(config.model.name).builder(level)
    own = {} if build is None else {f"model.{name}": default for name, (_, default) in model_options(build).items()}
    said = {f"model.{name}" for name in config.model.arguments}
    missing = {key: own[key] for key in keys if key in own and key not in said}
    return make_config(with_options(config.model_dump(mode="json"), missing))


def usual_splits(prepared: Prepared) -> int:
    """Over how many splits to average: three, but of a split that came with the data there is one."""
    return 1 if prepared.split.name in STORED else 3
