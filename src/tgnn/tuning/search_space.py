"""Definition of a hyperparameter search: base configuration, search space, number of trials and splits."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tgnn.data.dataset_info import LoadedData
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk import DiskGraph
from tgnn.data.splits import STORED
from tgnn.data.transforms import FEATURE_SCALINGS
from tgnn.models import get_model, model_options, search_space
from tgnn.training.config import Config, ConfigError, make_config, option_keys, suggest_option, with_options
from tgnn.training.prepare import Prepared, check_model, make_model, prepare_without_test

Space = Mapping[str, tuple[Any, ...]]
"""Values to try for each ``section.key``."""

FIRST_SEED = 1000
"""First seed of the splits of a search. Reported results use seeds from 0. A search never uses the splits of those."""

_LIST_MARK = "="
"""Prefix of a list that is stored as JSON text: Optuna's categorical values cannot be lists."""

_NOT_IN_RECIPE = {
    "data": ("root", "offline"),
    "train": ("seed", "threads", "workers", "device", "track", "save_every"),
}
"""Options that belong to the user or the machine, not to the hyperparameters."""

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


@dataclass(frozen=True)
class SearchPlan:
    """What a study searches and how it scores a trial.

    Args:
        config: Base configuration. Trial 0 uses it unchanged, all other trials change the keys of ``space`` only.
        space: Search space: the values to try for each ``section.key``. The value of ``config`` is always included.
        trials: Number of trials.
        splits: Number of splits (and seeds) over which the validation metric of a trial is averaged.
        seed: Random seed of the sampler.
        finals: Number of best trials to evaluate again at the end on ``2 * splits + 1`` new splits, together with
            trial 0. The best of this final evaluation is the result of the search. It corrects for the optimistic
            bias of the best of many scores. 0 skips the final evaluation.

    Attributes:
        initial_params: Hyperparameters of trial 0, as ``section.key``.

    Example:
        >>> plan = SearchPlan(Config(), {"optimizer.lr": (0.01, 0.1), "train.epochs": (10,)})
        >>> plan.trial_config({"optimizer.lr": 0.1, "train.epochs": 10}).optimizer.lr
        0.1
    """

    config: Config
    space: Space
    trials: int = 60
    splits: int = 3
    seed: int = 0
    finals: int = 0
    initial_params: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        sections = self.config.model_dump(mode="json")
        initial_params = {}
        space = {}
        for path, candidates in self.space.items():
            section, _, key = path.partition(".")
            initial = _encode_value(sections[section].get(key))
            values = tuple(map(_encode_value, candidates))
            initial_params[path] = initial
            space[path] = values if initial in values else (initial, *values)
        object.__setattr__(self, "initial_params", initial_params)
        object.__setattr__(self, "space", space)

    @property
    def study_name(self) -> str:
        """Default name of the study: data set and model, such as ``cora-tgnn``."""
        return f"{Path(self.config.data.name).name}-{self.config.model.name}"

    def trial_config(self, params: Mapping[str, Any], split: int = 0) -> Config:
        """Return the training configuration of a trial with some hyperparameters, on one of its splits."""
        changes = {key: _decode_value(value) for key, value in params.items()}
        sections = with_options(self.config.model_dump(mode="json"), changes)
        sections["train"]["seed"] = FIRST_SEED + split
        sections["train"]["threads"] = self.config.train.threads or 1  # scores must not depend on the number of jobs
        return make_config(sections)

    def recipe(self, params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return all hyperparameters of a trial, defaults included, because a recipe may be merged over another one."""
        sections = self.trial_config(params).model_dump(mode="json")
        return {
            section: {key: value for key, value in fields.items() if key not in _NOT_IN_RECIPE.get(section, ())}
            for section, fields in sections.items()
        }

    @property
    def final_splits(self) -> range:
        """Indices of the splits of the final evaluation."""
        return range(self.splits, 3 * self.splits + 1)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Values that all workers of a study must share, and that cannot change when it is resumed.

        The folder of one's own data is left out, because it may differ between machines.
        """
        sections = self.config.hashed_sections
        sections["data"]["name"] = Path(self.config.data.name).name
        return {
            **{key: getattr(self, key) for key in ("splits", "seed")},
            **{f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()},
            **{f"search space of {key}": list(values) for key, values in self.space.items()},
            "validation score": "two-fold",
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "config": self.config.model_dump(mode="json"),
            "space": {key: list(values) for key, values in self.space.items()},
            **{key: getattr(self, key) for key in ("trials", "splits", "seed", "finals")},
        }


def _encode_value(value: Any) -> Any:
    """Turn a list into text that Optuna can store."""
    return _LIST_MARK + json.dumps(value) if isinstance(value, (list, tuple)) else value


def _decode_value(value: Any) -> Any:
    is_list = isinstance(value, str) and value.startswith(_LIST_MARK)
    return json.loads(value.removeprefix(_LIST_MARK)) if is_list else value


# ---- search space ----------------------------------------------------------------------------------------------


def plan_search(
    config: Config,
    user_space: Space,
    fixed: Collection[str] = (),
    trials: int = 60,
    splits: int | None = None,
    seed: int = 0,
    finals: int = 0,
) -> SearchPlan:
    """Build the search space of a model, and check all of its values before the first trial.

    The default space has the common ranges of the paper and those of the model. It also has the row normalization of
    non-negative features and, for classification, the quantity that selects the epoch.

    Args:
        config: Base configuration of the search.
        user_space: Values that replace the default range of a key. An empty tuple removes the key from the space.
        fixed: Keys that are not searched, because the user has set them.
        trials: Number of trials.
        splits: Number of splits of a trial. Default: 3, or 1 if the split comes with the data.
        seed: Random seed of the sampler.
        finals: Number of best trials to evaluate again at the end.

    Raises:
        ConfigError: If a key cannot be searched, or a value is not allowed.
    """
    prepared = prepare_without_test(config)
    make_model(config, prepared.shape)  # report data that the model cannot use now, not in every trial
    level = prepared.shape.level
    builder = get_model(config.model.name).builder(level)
    options = {} if builder is None else model_options(builder)
    defaults = {f"model.{name}": default for name, (_, default) in options.items()}
    space = _default_space(config, prepared, user_space)
    _check_user_space(config, level, user_space, list(defaults))
    optimizers = {config.optimizer.name, *user_space.get("optimizer.name", ())}
    if len(optimizers) > 1 and "optimizer.weight_decay" not in {*user_space, *fixed}:
        raise ConfigError(
            "adam and adamw need different weight decays: give the values to try, such as "
            "--search optimizer.weight_decay=0,0.001,0.1, or run one search for each optimizer"
        )
    space = {key: values for key, values in {**space, **user_space}.items() if values and key not in fixed}
    if not space:
        raise ConfigError("the search space is empty")
    # Searched arguments of the model become explicit, also where they have their default value.
    explicit = {f"model.{name}" for name in config.model.arguments}
    missing = {key: defaults[key] for key in space if key in defaults and key not in explicit}
    config = make_config(with_options(config.model_dump(mode="json"), missing))
    splits = splits or (1 if prepared.split.name in STORED else 3)
    plan = SearchPlan(config, space, trials, splits, seed, min(finals, trials))
    for key, values in plan.space.items():
        for value in values:
            plan.trial_config({**plan.initial_params, key: value})
    return plan


def _default_space(config: Config, prepared: Prepared, user_space: Space) -> dict[str, tuple[Any, ...]]:
    """Return the default space of the model, without the keys that cannot be searched with neighbor sampling."""
    is_sampled = config.train.num_neighbors is not None or bool(user_space.get("train.num_neighbors"))
    if is_sampled and (depth_keys := [key for key in _DEPTH_KEYS if user_space.get(key)]):
        key = depth_keys[0]
        raise ConfigError(
            f"{key} cannot be searched with neighbor sampling, because train.num_neighbors has one entry for each "
            f"hop: run one search for each value, with --set {key}=... --set train.num_neighbors=..."
        )
    space: dict[str, tuple[Any, ...]] = dict(search_space(config.model.name, prepared.shape.level))
    if config.optimizer.name == "adamw":
        space["optimizer.weight_decay"] = _ADAMW_WEIGHT_DECAY
    if isinstance(prepared.shape.features, int) and _are_features_nonnegative(prepared.data):
        space["data.features"] = FEATURE_SCALINGS
    if prepared.task.metric == "accuracy" and config.train.metric is None:
        space["train.select_by"] = ("metric", "loss")
    return {key: values for key, values in space.items() if not (is_sampled and key in _DEPTH_KEYS)}


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


def _check_user_space(config: Config, level: str, user_space: Space, model_keys: list[str]) -> None:
    """Raise a ``ConfigError`` if a key cannot be searched or a value is not allowed."""
    for key, values in user_space.items():
        if key in _NOT_SEARCHABLE:
            raise ConfigError(f"{key} cannot be searched, because scores of different values are not comparable")
        if not values and key not in (known_keys := [*option_keys(), *model_keys]):
            similar = suggest_option(key, known_keys)
            hint = f"did you mean {similar}?" if similar else "options are written as section.key, e.g. optimizer.lr"
            raise ConfigError(f"unknown option {key!r}; {hint}")
        for value in values:
            check_model(make_config(with_options(config.model_dump(mode="json"), {key: value}, model_keys)), level)
