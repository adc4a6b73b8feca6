"""What a search has found, as a file that needs no Optuna to be read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tgnn.data.split_protocols import STORED
from tgnn.utils.io import write_json, write_text

RESULT, RECIPE = "study.json", "best.yaml"


class ResultError(ValueError):
    """A file that is no study, or was damaged; the text names it."""


@dataclass(frozen=True)
class Trial:
    """One set of settings.

    Args:
        number: Its place in the search, from 0.
        state: ``"complete"``, ``"pruned"`` (not finished: half of the earlier ones were better), ``"failed"`` or
            ``"running"``.
        values: The settings, as ``section.key``; of one that runs they are not told.
        score: Mean validation metric over the splits.
        scores: On each split.
        seconds: It took.
        reason: Why it failed.
        last: What a pruned one had when it was given up.
    """

    number: int
    state: str
    values: Mapping[str, Any]
    score: float | None = None
    scores: Sequence[float] = ()
    seconds: float | None = None
    reason: str = ""
    last: float | None = None


@dataclass(frozen=True)
class StudyResult:
    """A search, as far as it is.

    Args:
        name: Of the study.
        data: What was learned from.
        model: Which model.
        metric: Of validation.
        higher_is_better: Its sense.
        split: Protocol of the splits.
        splits: How many of them.
        trials: By place.
        asked: Trials that were asked for.
        finals: The best of them, as they were judged once more on other splits, or failed there.
        finals_left: How many are still to be judged.
        space: What could be tried.
        config: What the search started from and, but for its space, left as it was.
        importance: Share of each setting in how scores differ, over complete trials.
        seed: Of the search.
        command: To have the same.
        environment: What a result may depend on.
        data_hash: Of the data.
    """

    name: str
    data: str
    model: str
    metric: str
    higher_is_better: bool
    split: str
    splits: int
    trials: Sequence[Trial]
    asked: int
    space: Mapping[str, Sequence[Any]]
    config: Mapping[str, Any]
    importance: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    command: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    data_hash: str = ""
    finals: Sequence[Trial] = ()
    finals_left: int = 0

    @property
    def ranking(self) -> list[Trial]:
        """Complete trials, the best first."""
        return self._rank(self.trials)

    @property
    def judged(self) -> list[Trial]:
        """The finals that did not fail, the best there first."""
        return self._rank(self.finals)

    def _rank(self, trials: Sequence[Trial]) -> list[Trial]:
        done = [trial for trial in trials if trial.state == "complete" and trial.score is not None]
        return sorted(done, key=lambda trial: (-1 if self.higher_is_better else 1) * (trial.score or 0.0))

    @property
    def best(self) -> Trial | None:
        """The best of the finals, once all have ended; else the best complete trial."""
        if self.judged and not self.finals_left:
            return next((trial for trial in self.trials if trial.number == self.judged[0].number), None)
        return next(iter(self.ranking), None)

    @property
    def unit(self) -> str:
        """What differs between two scores of the same settings: of a published split there is but one."""
        return "seed" if self.split in STORED else "split"

    def count(self, *states: str) -> int:
        """How many trials are in one of these states."""
        return sum(trial.state in states for trial in self.trials)

    def write(self, path: Path) -> None:
        write_json(path, {"kind": "study", **asdict(self)})

    @classmethod
    def read(cls, path: Path) -> StudyResult:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found, dict) or found.pop("kind", None) != "study":
                raise ResultError(f"{path} is not a study")
            trials = [Trial(**trial) for trial in found.pop("trials")]
            finals = [Trial(**trial) for trial in found.pop("finals", ())]
            if not all(isinstance(trial.score, float | int | None) for trial in [*trials, *finals]):
                raise TypeError("a score is not a number")
            return cls(**found, trials=trials, finals=finals)
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise ResultError(f"{path} is damaged: {error}") from error

    def write_recipe(self, path: Path, recipe: Mapping[str, Any]) -> None:
        """The best settings, with where they come from.

        Args:
            path: Of the YAML file.
            recipe: The settings, in sections.
        """
        best = self.best
        assert best is not None
        tried = self.count("complete", "pruned", "failed")
        about = [
            f"{self._judged(best, tried)}. Split: {self.split}.",
            f"Study {self.name}, seed {self.seed}, trial {best.number}" + (f": {self.command}" if self.command else ""),
        ]
        text = yaml.safe_dump(dict(recipe), sort_keys=False, default_flow_style=None, width=1000)
        write_text(path, "".join(f"# {' '.join(line.splitlines())}\n" for line in about) + text)

    def _judged(self, best: Trial, tried: int) -> str:
        splits = f"{self.splits} {self.unit}{'s' * (self.splits > 1)}"
        last = next((trial for trial in self.judged[:1] if trial.number == best.number), None)
        if last is None:
            return f"Best of {tried} trials on validation: {self.metric} {best.score:.4f}, mean over {splits}"
        return (
            f"On validation {self.metric} {last.score:.4f}, mean over {len(last.scores)} {self.unit}s: the best there "
            f"of {len(self.judged)} finalists, which are the best of {tried} trials on {splits} (where this one has "
            f"{best.score:.4f}) and the start"
        )


def in_words(value: Any) -> str:
    """A setting, as a reader wants it.

    Example:
        >>> in_words(True), in_words(0.0005), in_words(None), in_words("=[5, 5]")
        ('yes', '0.0005', 'none', '[5, 5]')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value).lstrip("=")


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Without their sections, where that tells them apart.

    Example:
        >>> short_names(["model.rank", "optimizer.name", "model.name"])
        {'model.rank': 'rank', 'optimizer.name': 'optimizer.name', 'model.name': 'model.name'}
    """
    last = [key.rpartition(".")[2] for key in keys]
    return {key: word if last.count(word) == 1 else key for key, word in zip(keys, last)}
