"""Compare models on one data set: same splits and seeds, paired tests, and a conclusion."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tgnn.data.load import task_level
from tgnn.experiments.experiment import Experiment, Selection
from tgnn.experiments.results import Result
from tgnn.experiments.runner import CELLS_FOLDER, OnProgress, run_experiment
from tgnn.experiments.statistics import SIGNIFICANCE_LEVEL, corrected_paired_test
from tgnn.training.candidates import WITHOUT_PRODUCTS, list_candidates
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.repeated_runs import student_interval
from tgnn.training.run_folder import RunFolder
from tgnn.training.train import resolve_config
from tgnn.utils.io import write_json

COMPARISON = "comparison.json"
DEFAULT_RUNS = 5


@dataclass(frozen=True)
class ComparedModel:
    """Scores of one model or baseline over all seeds.

    Args:
        name: Name of the model or baseline.
        tests: Test metric of each seed.
        val: Mean validation metric. ``None`` for a baseline.
        mean: Mean test metric.
        std: Standard deviation of the test metric.
        interval: 95 % confidence interval of the mean (Student's t). ``None`` for one run.
        difference: Mean difference of the test metric to the selected model.
        p_value: p-value of the paired test against the selected model. ``None`` for one run.
        seconds: Mean training time.
        failed: Why runs are missing.
    """

    name: str
    tests: Sequence[float]
    val: float | None = None
    mean: float | None = None
    std: float = 0.0
    interval: tuple[float, float] | None = None
    difference: float | None = None
    p_value: float | None = None
    seconds: float | None = None
    failed: str = ""


@dataclass(frozen=True)
class Comparison:
    """Comparison of models on one data set.

    Args:
        data: Name of the data set or of the user's file or folder.
        metric: Metric of validation and test.
        runs: Number of seeds.
        models: Models, the simplest first, then baselines.
        selected: Model with the best mean validation metric.
        conclusion: What the comparison says, in one sentence.
        test_ratio: Number of test examples per training example, which the paired test uses.
    """

    data: str
    metric: str
    runs: int
    models: Sequence[ComparedModel]
    selected: str
    conclusion: str
    test_ratio: float


def compare(
    data: str | os.PathLike[str],
    folder: Path,
    models: Sequence[str] | None = None,
    runs: int = DEFAULT_RUNS,
    options: Mapping[str, Any] | None = None,
    jobs: int = 1,
    command: str = "",
    on_progress: OnProgress = lambda progress: None,
) -> Comparison:
    """Train several models with the same splits and seeds, and compare their test metrics.

    Finished runs in the folder are reused, so that an interrupted comparison continues. The selected model has the
    best mean validation metric. Its test metric is compared with every other model by a paired test
    (:func:`~tgnn.experiments.statistics.corrected_paired_test`).

    Args:
        data: Name of a data set, or path of your own data.
        folder: Folder for runs, the result file and ``comparison.json``.
        models: Names of models. ``None``: mlp, gcn, graphsage (graphs: gin), tgnn, and tgnn without products.
        runs: Number of seeds, from 0.
        options: Hyperparameters and options of all models, as ``{"section.key": value}``.
        jobs: Number of runs that train in parallel.
        command: Command line that repeats the comparison, stored in the result file.
        on_progress: Called whenever a run starts or ends.
    """
    name = resolve_config(data, "tgnn", options=_shared(options)).data.name
    label = Path(name).name
    candidates = list_candidates(task_level(name), models)
    for model, changes in candidates.values():
        resolve_config(data, model, options={**(options or {}), **changes})  # raises for a wrong name or option
    with_baselines = next(iter(candidates))  # the baselines depend on the split only
    rows = [
        (row, model, {**changes, "train.baselines": row == with_baselines})
        for row, (model, changes) in candidates.items()
    ]
    experiment = Experiment(f"compare-{label}", f"Models on {label}", rows, {label: (name, {})}, runs)
    selection = Selection(runs=runs, changes=dict(options or {}), jobs=jobs)
    result = run_experiment(experiment, selection, folder, command, on_progress)
    comparison = summarize_comparison(result, label, folder)
    write_json(folder / COMPARISON, asdict(comparison))
    return comparison


def _shared(options: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (options or {}).items() if not key.startswith("model.")}


def summarize_comparison(result: Result, column: str, folder: Path) -> Comparison:
    """Compute means, intervals, paired tests and the conclusion of a comparison from its result."""
    cells = {cell.row: cell for cell in result.cells if cell.column == column}
    first = next((cell for cell in cells.values() if cell.runs), None)
    if first is None:
        reason = next((cell.failed for cell in cells.values() if cell.failed), "no run has finished")
        raise ValueError(f"No model could be trained: {reason}")
    scores = {row: {run.seed: run.test for run in cell.runs} for row, cell in cells.items()}
    vals = {row: float(np.mean([run.val for run in cell.runs])) for row, cell in cells.items() if cell.runs}
    sign = 1.0 if HIGHER_IS_BETTER[first.metric] else -1.0
    selected = max(vals, key=lambda row: -math.inf if math.isnan(vals[row]) else sign * vals[row])
    baselines, ratio = _read_baselines(folder)
    scores |= baselines
    if len({run.split_hash for run in first.runs}) == 1:
        ratio = 0.0  # one split: only the seeds differ
    compared = []
    for row, tests in scores.items():
        values = list(tests.values())
        pairs = [tests[seed] - scores[selected][seed] for seed in sorted(tests.keys() & scores[selected].keys())]
        is_other, cell = row != selected and bool(pairs), cells.get(row)
        compared.append(
            ComparedModel(
                row,
                values,
                vals.get(row),
                float(np.mean(values)) if values else None,
                float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
                student_interval(values, first.metric) if len(values) > 1 else None,
                float(np.mean(pairs)) if is_other else None,
                corrected_paired_test(pairs, ratio) if is_other else None,
                None if cell is None or not cell.runs else float(np.mean([run.seconds for run in cell.runs])),
                "" if cell is None else cell.failed,
            )
        )
    runs = max(len(tests) for tests in scores.values())
    conclusion = conclude(first.metric, scores, vals, selected, ratio)
    return Comparison(column, first.metric, runs, compared, selected, conclusion, ratio)


def _read_baselines(folder: Path) -> tuple[dict[str, dict[int, float]], float]:
    """Read the baselines of each seed from the runs that have scored them, and the ratio of test to training set."""
    scores: dict[str, dict[int, float]] = {}
    ratio = 1 / 3
    for path in sorted((folder / CELLS_FOLDER).iterdir()):
        run = RunFolder(path)
        if not run.is_finished or "baselines" not in (metrics := run.metrics):
            continue
        for baseline in metrics["baselines"]:
            scores.setdefault(baseline["name"], {})[metrics["seed"]] = baseline["test"]
        examples = metrics.get("examples") or {}
        ratio = examples["test"] / max(examples["train"], 1) if examples else ratio
    return scores, ratio


# ---- conclusion ------------------------------------------------------------------------------------------------


def conclude(
    metric: str,
    scores: Mapping[str, Mapping[int, float]],
    vals: Mapping[str, float],
    selected: str,
    test_ratio: float,
) -> str:
    """State whether the graph and the products help, and which model to use.

    Args:
        metric: Metric of the scores.
        scores: Test metric of each model and baseline by seed.
        vals: Mean validation metric of each model.
        selected: Model with the best mean validation metric.
        test_ratio: See :func:`~tgnn.experiments.statistics.corrected_paired_test`.
    """
    sign = 1.0 if HIGHER_IS_BETTER[metric] else -1.0
    parts = []
    with_graph = [row for row in vals if row != "mlp"]
    if "mlp" in vals and with_graph:
        best = max(with_graph, key=lambda row: sign * vals[row])
        gain, p = _paired_gain(scores[best], scores["mlp"], test_ratio)
        verb = _verb(sign * gain, p, "helps", "hurts", "makes no significant difference")
        parts.append(f"the graph {verb} ({format_difference(gain, metric)}{_format_p(p)} with {best})")
    if "tgnn" in vals and WITHOUT_PRODUCTS in vals:
        gain, p = _paired_gain(scores["tgnn"], scores[WITHOUT_PRODUCTS], test_ratio)
        verb = _verb(sign * gain, p, "help", "hurt", "make no significant difference")
        parts.append(f"products {verb} ({format_difference(gain, metric)}{_format_p(p)})")
    advice = f"use {selected}" + (f", which has the best validation {metric}" if len(vals) > 1 else "")
    if ties := [row for row in vals if row != selected and f"{vals[row]:.4f}" == f"{vals[selected]:.4f}"]:
        advice += f" (tied with {' and '.join(ties)})"
    for row in scores.keys() - vals.keys():
        gain, p = _paired_gain(scores[row], scores[selected], test_ratio)
        if p is not None and p < SIGNIFICANCE_LEVEL and sign * gain > 0:
            advice = f"use {row}, which is better than {selected} ({format_difference(gain, metric)}{_format_p(p)})"
    return f"{'; '.join(parts)}: {advice}" if parts else advice


def _paired_gain(one: Mapping[int, float], other: Mapping[int, float], test_ratio: float) -> tuple[float, float | None]:
    """Return the mean difference over the seeds that two models share, and its p-value."""
    differences = [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]
    return (float(np.mean(differences)) if differences else 0.0), corrected_paired_test(differences, test_ratio)


def _verb(gain: float, p: float | None, positive: str, negative: str, neither: str) -> str:
    if p is None:
        return f"{positive if gain > 0 else negative} in the only run"
    return neither if p >= SIGNIFICANCE_LEVEL else positive if gain > 0 else negative


def _format_p(p: float | None) -> str:
    """Format a p-value after a difference.

    Example:
        >>> _format_p(0.0123), _format_p(0.61), _format_p(0.0001), _format_p(None)
        (', p = .01', ', p = .61', ', p < .001', '')
    """
    if p is None:
        return ""
    digits = f"{p:.3f}" if p < 0.01 else f"{p:.2f}"
    return ", p < .001" if p < 0.001 else f", p = {digits.removeprefix('0')}"


def format_difference(value: float, metric: str) -> str:
    """Format a difference of a metric: in points for fractions, else in the unit of the metric.

    Example:
        >>> format_difference(0.0412, "accuracy"), format_difference(-0.31, "mae")
        ('+4.1 points', '-0.31 mae')
    """
    if metric in ("mae", "rmse", "log-loss", "r2", "bit error rate"):
        return f"{value:+.3g} {metric}"
    return f"{100 * value:+.1f} points"
