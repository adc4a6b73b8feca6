"""Result of a hyperparameter search, stored as ``study.json`` and ``best.yaml``. Reading it needs no Optuna."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tgnn.data.splits import STORED
from tgnn.utils.io import write_json, write_text
from tgnn.utils.read import STRICT, read_content, validate

STUDY_FILE, RECIPE_FILE = "study.json", "best.yaml"


class StudyFileError(ValueError):
    """The file is not a study, or it is damaged. The message names the file."""


@dataclass(frozen=True)
class Trial:
    """One set of hyperparameters and its validation score.

    Args:
        number: Number of the trial, from 0.
        state: ``"complete"``, ``"pruned"`` (stopped early, because the median of earlier trials was better),
            ``"failed"`` or ``"running"``.
        params: Hyperparameters, as ``section.key``.
        score: Mean validation metric over the splits.
        scores: Validation metric on each split.
        seconds: Duration in seconds.
        reason: Error message of a failed trial.
        last_score: Last intermediate score of a pruned trial.
    """

    __pydantic_config__ = STRICT

    number: int
    state: str
    params: Mapping[str, Any]
    score: float | None = None
    scores: Sequence[float] = ()
    seconds: float | None = None
    reason: str = ""
    last_score: float | None = None


@dataclass(frozen=True)
class StudyResult:
    """Current state of a study.

    Args:
        name: Name of the study.
        data: Name of the data set.
        model: Name of the model.
        metric: Validation metric.
        higher_is_better: Whether a higher metric is better.
        split: Split protocol.
        splits: Number of splits in the score of a trial.
        trials: Trials, by number.
        num_trials: Number of trials when the study is finished.
        space: Search space: the values to try for each ``section.key``.
        config: Base configuration of the search.
        importance: Importance of each hyperparameter (fANOVA) over the complete trials.
        seed: Random seed of the sampler.
        command: Command that repeats the search.
        environment: Versions and machine.
        data_hash: Hash of the data.
        finals: Final evaluation of the best trials on new splits, including failed evaluations.
        finals_left: Number of final evaluations that are not finished.
    """

    __pydantic_config__ = STRICT

    name: str
    data: str
    model: str
    metric: str
    higher_is_better: bool
    split: str
    splits: int
    trials: Sequence[Trial]
    num_trials: int
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
        """Complete trials, best first."""
        return self._rank(self.trials)

    @property
    def final_ranking(self) -> list[Trial]:
        """Complete final evaluations, best first."""
        return self._rank(self.finals)

    def _rank(self, trials: Sequence[Trial]) -> list[Trial]:
        complete = [trial for trial in trials if trial.state == "complete" and trial.score is not None]
        return sorted(complete, key=lambda trial: (-1 if self.higher_is_better else 1) * (trial.score or 0.0))

    @property
    def best(self) -> Trial | None:
        """Best trial of the final evaluation if that is finished, otherwise the best complete trial."""
        if self.final_ranking and not self.finals_left:
            return next((trial for trial in self.trials if trial.number == self.final_ranking[0].number), None)
        return next(iter(self.ranking), None)

    @property
    def unit(self) -> str:
        """What the scores of a trial differ in: ``"split"``, or ``"seed"`` if the split comes with the data."""
        return "seed" if self.split in STORED else "split"

    def count(self, *states: str) -> int:
        """Return the number of trials in any of these states."""
        return sum(trial.state in states for trial in self.trials)

    def write(self, path: Path) -> None:
        """Write ``study.json``."""
        write_json(path, {"kind": "study", **asdict(self)})

    @classmethod
    def read(cls, path: Path) -> StudyResult:
        """Read ``study.json``. A file that is damaged or not a study raises :class:`StudyFileError`."""
        try:
            fields = read_content(path)
            if isinstance(fields, dict) and fields.pop("kind", None) == "study":
                return validate(cls, fields, path)
        except ValueError as error:
            raise StudyFileError(str(error)) from error
        raise StudyFileError(f"{path} is not a study of `tgnn tune`")

    def write_recipe(self, path: Path, recipe: Mapping[str, Any]) -> None:
        """Write the configuration of the best trial as a recipe, with the command and the score in a comment."""
        best = self.best
        assert best is not None
        command = f": {' '.join(self.command.splitlines())}" if self.command else ""
        header = (
            f"# Found by trial {best.number} of study {self.name} (seed {self.seed}){command}\n"
            f"# Validation {self.metric}: {self._describe_score(best)}. Split protocol: {self.split}.\n"
        )
        write_text(path, header + yaml.safe_dump(dict(recipe), sort_keys=False, default_flow_style=None, width=1000))

    def _describe_score(self, best: Trial) -> str:
        finished = self.count("complete", "pruned", "failed")
        mean = f"mean over {self.splits} {self.unit}{'s' * (self.splits > 1)}"
        search = f"{best.score:.4f} in the search ({finished} trials, {mean})"
        final = next((trial for trial in self.final_ranking[:1] if trial.number == best.number), None)
        if final is None:
            return search
        count = len(self.final_ranking)
        return (
            f"{final.score:.4f} in the final evaluation (best of {count} trial{'s' * (count > 1)}, mean over "
            f"{len(final.scores)} new {self.unit}s), {search}"
        )


def format_value(value: Any) -> str:
    """Format the value of a hyperparameter for a table.

    Example:
        >>> format_value(True), format_value(0.0005), format_value(None), format_value("=[5, 5]")
        ('yes', '0.0005', 'none', '[5, 5]')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value).lstrip("=")


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Map each ``section.key`` to its key, or to itself if another section has the same key.

    Example:
        >>> short_names(["model.rank", "optimizer.name", "model.name"])
        {'model.rank': 'rank', 'optimizer.name': 'optimizer.name', 'model.name': 'model.name'}
    """
    last = [key.rpartition(".")[2] for key in keys]
    return {key: name if last.count(name) == 1 else key for key, name in zip(keys, last)}
