"""Read run folders that are finished, running or damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tgnn.report.number_format import number
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.run_folder import CONFIG, DATA, ENVIRONMENT, HISTORY, METRICS, RunFolder, find_best_epoch

FILES = (CONFIG, ENVIRONMENT, DATA, METRICS, HISTORY)


@dataclass(frozen=True)
class Run:
    """Contents of a run folder.

    Args:
        name: Name of the folder on the page.
        state: ``"finished"``, ``"running"``, ``"unfinished"`` or ``"damaged"``.
        reason: Why the run is damaged.
        data: Name of the data set.
        model: Name of the model.
        metric: Name of the metric.
        val: Best score on the validation set.
        test: Score on the test set.
        epochs: Number of epochs trained.
        planned: Maximum number of epochs.
        best_epoch: Epoch whose weights are kept, counted from 1.
        seconds: Training time in seconds.
        parameters: Number of parameters of the model.
        seed: Random seed.
        config: Configuration.
        environment: Software versions and machine.
        hashes: Hashes of data, split and configuration.
        history: Metrics of each epoch.
    """

    name: str
    state: str
    reason: str = ""
    data: str = ""
    model: str = ""
    metric: str = ""
    val: float | None = None
    test: float | None = None
    epochs: int | None = None
    planned: int | None = None
    best_epoch: int | None = None
    seconds: float | None = None
    parameters: float | None = None
    seed: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    history: Sequence[Mapping[str, Any]] = ()


class DamagedRunError(ValueError):
    """Raised if a file of a run cannot be read."""


def read_run(folder: Path, name: str) -> Run:
    """Read a run folder. Damaged files are reported in the ``reason`` of the run."""
    reasons: list[str] = []
    config = _part(folder, CONFIG, reasons)
    environment = _part(folder, ENVIRONMENT, reasons)
    facts = _part(folder, DATA, reasons)
    files = RunFolder(folder)
    finished = files.is_finished
    metrics = _part(folder, METRICS, reasons) if finished else {}
    history, problem = files.read_history()
    reasons += [] if problem is None else [problem]
    about, task, split = (_dict(facts.get(key)) for key in ("info", "task", "split"))
    model, training = _dict(config.get("model")), _dict(config.get("train"))
    metric = _text(metrics.get("metric") or task.get("metric"))
    best_epoch, val = _best(history, metric, _text(training.get("select_by")) or "metric")
    hashes = {
        "data": _text(metrics.get("data_hash") or facts.get("data_hash")),
        "split": _text(metrics.get("split_hash") or split.get("hash")),
        "configuration": _text(metrics.get("config_hash")),
    }
    if finished and not reasons and number(metrics.get("test")) is None:
        reasons.append(f"{METRICS} has no test score")
    return Run(
        name=name,
        state="damaged" if reasons else "finished" if finished else "running" if files.is_running else "unfinished",
        reason="; ".join(reasons),
        data=_text(metrics.get("data") or about.get("name") or _dict(config.get("data")).get("name")),
        model=_text(metrics.get("model") or model.get("name")),
        metric=metric,
        val=number(metrics.get("val")) if finished else val,
        test=number(metrics.get("test")),
        epochs=_whole(metrics.get("epochs")) if finished else len(history),
        planned=_whole(training.get("epochs")),
        best_epoch=_whole(metrics.get("best_epoch")) if finished else best_epoch,
        seconds=number(metrics.get("seconds")) if finished else _last(history, "seconds"),
        parameters=number(metrics.get("parameters")),
        seed=_whole(training.get("seed")),
        config=config,
        environment=environment,
        hashes={key: value for key, value in hashes.items() if value},
        history=history,
    )


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a JSON or YAML file that contains a mapping."""
    try:
        text = path.read_text(encoding="utf-8")
        found = yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)
    except FileNotFoundError:
        raise DamagedRunError(f"{path.name} is missing") from None
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise DamagedRunError(f"{path.name} cannot be read: {lines[0]}") from error
    if not isinstance(found, dict):
        raise DamagedRunError(f"{path.name} contains no mapping")
    return found


def _part(folder: Path, name: str, reasons: list[str]) -> dict[str, Any]:
    try:
        return read_mapping(folder / name)
    except DamagedRunError as error:
        reasons.append(str(error))
        return {}


def _best(history: Sequence[Mapping[str, Any]], metric: str, select_by: str) -> tuple[int | None, float | None]:
    best = find_best_epoch(history, metric, select_by) if metric in HIGHER_IS_BETTER else None
    return best, None if best is None else number(history[best - 1].get(f"val_{metric}"))


def _last(history: Sequence[Mapping[str, Any]], key: str) -> float | None:
    return number(history[-1].get(key)) if history else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _whole(value: Any) -> int | None:
    found = number(value)
    return None if found is None else int(found)
