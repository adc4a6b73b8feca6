"""Definition of a hyperparameter search: base configuration, search space, number of trials and splits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tgnn.training.config import Config, make_config, with_options

FIRST_SEED = 1000
"""First seed of the splits of a search. Reported results use seeds from 0, whose splits select nothing."""

_LIST_MARK = "="
"""Prefix of a list that is stored as JSON text: Optuna's categorical values cannot be lists."""

_NOT_IN_RECIPE = {
    "data": ("root", "offline"),
    "train": ("seed", "threads", "workers", "device", "track", "save_every"),
}
"""Options that belong to the user or the machine, not to the hyperparameters."""


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
    space: Mapping[str, tuple[Any, ...]]
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
        """Return the training configuration of a trial on one of its splits.

        Args:
            params: Hyperparameters of the trial, as ``section.key``.
            split: Index of the split, from 0.
        """
        changes = {key: _decode_value(value) for key, value in params.items()}
        sections = with_options(self.config.model_dump(mode="json"), changes)
        sections["train"]["seed"] = FIRST_SEED + split
        sections["train"]["threads"] = self.config.train.threads or 1  # scores must not depend on the number of jobs
        return make_config(sections)

    def recipe(self, params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return all hyperparameters of a trial, defaults included, because a recipe may be merged over another one.

        Args:
            params: Hyperparameters of the trial, as ``section.key``.
        """
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
        sections["train"] |= {
            "select_by": self.config.train.select_by,
            "prior_correction": self.config.train.prior_correction,
        }
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
