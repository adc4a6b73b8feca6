"""What a search does: the settings it starts from, what it may change, and how a trial is judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tgnn.training.config import Config, make_config, with_options

FIRST_SEED = 1000
"""Of the splits a search sees. Results are made with seeds from 0: on splits that chose nothing."""


@dataclass(frozen=True)
class Plan:
    """A search.

    Args:
        config: Where it starts, and what it leaves as it is.
        space: Settings, as ``section.key``, and the values to try.
        trials: How many sets of settings to try. Trial 0 is ``config`` itself.
        splits: Over how many splits and seeds the validation metric is averaged.
        seed: Of what is tried.
        finals: How many of the best are judged once more at the end, and the start with them, on other splits, twice as
            many and one; the best there is the result. The best of many on a few splits is best by luck in part.
        together: Trials that do not wait for one another: what is tried next depends on all whole rounds before, and
            so not on how many workers there are.

    Example:
        >>> plan = Plan(Config(), {"optimizer.lr": (0.01, 0.1), "train.epochs": (10,)})
        >>> plan.config_of({"optimizer.lr": 0.1, "train.epochs": 10}).optimizer.lr
        0.1
    """

    config: Config
    space: Mapping[str, tuple[Any, ...]]
    trials: int = 60
    splits: int = 3
    seed: int = 0
    finals: int = 0
    together: int = 10
    start: Mapping[str, Any] = field(init=False)
    """Values of the first trial."""

    def __post_init__(self) -> None:
        plain = self.config.model_dump(mode="json")
        start = {key: _plain(plain[key.partition(".")[0]].get(key.partition(".")[2])) for key in self.space}
        space = {key: tuple(map(_plain, values)) for key, values in self.space.items()}
        space = {key: values if start[key] in values else (start[key], *values) for key, values in space.items()}
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "space", space)

    @property
    def name(self) -> str:
        """Of its study, where nobody names it: data set and model."""
        return f"{Path(self.config.data.name).name}-{self.config.model.name}"

    def config_of(self, values: Mapping[str, Any], split: int = 0) -> Config:
        """Settings of a trial, on one of the splits."""
        changes = {key: json.loads(value[1:]) if _is_list(value) else value for key, value in values.items()}
        settings = with_options(self.config.model_dump(mode="json"), changes)
        settings["train"]["seed"] = FIRST_SEED + split
        settings["train"]["threads"] = self.config.train.threads or 1  # so that scores depend on no number of jobs
        return make_config(settings)

    @property
    def final_splits(self) -> range:
        """Numbers of the splits on which the best are judged once more."""
        return range(self.splits, 3 * self.splits + 1)

    @property
    def facts(self) -> dict[str, Any]:
        """What all who work on a study must have in common, in words and values.

        Where one's own data lies does not count: machines differ in that.
        """
        sections = self.config.hashed_sections
        sections["data"]["name"] = Path(self.config.data.name).name
        sections["train"] |= {
            "select_by": self.config.train.select_by,
            "prior_correction": self.config.train.prior_correction,
        }
        return {
            **{key: getattr(self, key) for key in ("splits", "seed", "together")},
            **{f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()},
            **{f"values of {key}": list(values) for key, values in self.space.items()},
            "way to judge": "halves",
        }

    def to_dict(self) -> dict[str, Any]:
        """For another process."""
        return {
            "config": self.config.model_dump(mode="json"),
            "space": {key: list(values) for key, values in self.space.items()},
            **{key: getattr(self, key) for key in ("trials", "splits", "seed", "finals", "together")},
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Plan:
        space = {key: tuple(values) for key, values in found["space"].items()}
        return cls(**{**found, "config": make_config(found["config"]), "space": space})


def _plain(value: Any) -> Any:
    """As Optuna can keep it: a list becomes text."""
    return "=" + json.dumps(value) if isinstance(value, (list, tuple)) else value


def _is_list(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("=")
