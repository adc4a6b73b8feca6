"""Details of a test result: all metrics, scores per class or target, confusion matrix, calibration and errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from torch import Tensor

from tgnn.data.dataset_info import LoadedData
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk import DiskGraph
from tgnn.training.metrics import Task
from tgnn.training.prepare import Prepared
from tgnn.training.scores import METRICS, RANKING_METRICS, known_columns, number_score

_MAX_CLASSES = 100
"""Number of classes up to which the confusion matrix is stored."""
_MAX_POINTS = 400
"""Number of pairs of predicted and true values that are stored for each target."""
_MAX_RANKED = 10**7
"""Maximum number of outputs for which ROC-AUC and PR-AUC are computed in addition to the metric of the run.

Both sort all outputs.
"""
_BINS = 10
"""Number of bins of the reliability curve."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ClassScores(_Part):
    """Scores of one class or label on the test set.

    Args:
        name: Name of the class or label.
        precision: Fraction of the predicted examples that have the class. 0 if none is predicted.
        recall: Fraction of the examples of the class that are predicted.
        f1: Harmonic mean of precision and recall.
        train: Number of examples of the class in the training set.
        test: Number of examples of the class in the test set.
        confusion: For a label, the number of test examples without and with it (rows), predicted without and with it
            (columns). The confusion matrix of classes is in :class:`ResultDetails`.
    """

    name: str
    precision: float
    recall: float
    f1: float
    train: int
    test: int
    confusion: list[list[int]] | None = None


class TargetScores(_Part):
    """Scores of one number on the test set, in its unit, and pairs of true and predicted values for a chart."""

    name: str
    mae: float | None
    rmse: float | None
    r2: float | None
    points: list[tuple[float, float]]


class Calibration(_Part):
    """Expected calibration error, and the reliability curve.

    Args:
        error: Expected calibration error: mean difference between confidence and accuracy over bins of confidence,
            weighted by the number of predictions.
        bins: Mean confidence, accuracy and number of predictions of each bin that is not empty.
        temperature: Temperature by which the logits are divided (``--calibrate``).
        error_before: Expected calibration error without temperature scaling.
    """

    error: float
    bins: list[tuple[float, float, int]]
    temperature: float = 1.0
    error_before: float | None = None


class ErrorBin(_Part):
    """Mean error of the test examples of similar degree or size: error rate, or error of standardized targets."""

    low: int
    high: int
    count: int
    error: float


class ResultDetails(_Part):
    """Details of a test result, stored as ``details`` in ``metrics.json``.

    Args:
        scores: Every metric of the task type that is defined on the test set.
        classes: Scores of each class or label.
        confusion: Number of test examples by true class (rows) and predicted class (columns).
        targets: Scores of each number.
        calibration: Calibration of the probabilities.
        errors_by: What the errors are grouped by: ``"degree"`` of the node, or ``"nodes"`` of the graph.
        errors: Mean error by degree or size.
    """

    scores: dict[str, float]
    classes: list[ClassScores] | None = None
    confusion: list[list[int]] | None = None
    targets: list[TargetScores] | None = None
    calibration: Calibration | None = None
    errors_by: str = ""
    errors: list[ErrorBin] = []


def describe_test_set(prepared: Prepared, task: Task, outputs: Tensor, labels: Tensor) -> ResultDetails:
    """Compute the details of the result of a run from its outputs and targets of the test set."""
    data, split = prepared.data, prepared.split
    assert data.y is not None
    encoding = data.encoding if isinstance(data, GraphDataset) else data.get("encoding")
    names = output_names(encoding, outputs.size(1))
    sizes = example_sizes(data, split.test)
    return describe_result(task, outputs, labels, data.y[split.train], names, sizes, data.info.level)


def describe_result(
    task: Task, out: Tensor, y: Tensor, y_train: Tensor, names: Sequence[str], sizes: Tensor | None, level: str
) -> ResultDetails:
    """Compute the details of a test result.

    Args:
        task: Task of the run.
        out: Outputs of the model for the test set.
        y: Targets of the test set.
        y_train: Targets of the training set.
        names: Names of the classes, labels or numbers.
        sizes: Degree of each test node, or number of nodes of each test graph. ``None``: unknown.
        level: ``"node"`` or ``"graph"``.
    """
    out, y, y_train = out.cpu(), y.cpu(), y_train.cpu()
    scores = all_scores(task, out, y)
    values, probabilities = task.predictions(out)
    parts: dict[str, Any] = {}
    if task.target == "classification":
        assert probabilities is not None
        parts = _describe_classes(y, values, y_train, names)
        errors = (values != y).numpy().astype(float)
    else:
        y, y_train = y.reshape(out.shape), y_train.reshape(-1, out.size(1))
        if task.target == "multi-label":
            parts = {"classes": _describe_labels(y, values, y_train, names)}
            errors = torch.where(y.isnan(), torch.nan, (values != y).float()).nanmean(1).numpy()
        else:
            parts = {"targets": _describe_targets(y, values, names)}
            scale = torch.tensor(task.scale)
            errors = ((values - y) / scale).abs().nanmean(1).numpy()
    if probabilities is not None:
        parts["calibration"] = describe_calibration(task, out, y)
    by = "" if sizes is None else "degree" if level == "node" else "nodes"
    bins = [] if sizes is None else _bin_errors(sizes.cpu().numpy(), errors)
    return ResultDetails(scores=scores, errors_by=by, errors=bins, **parts)


def all_scores(task: Task, out: Tensor, y: Tensor) -> dict[str, float]:
    """Compute every metric of the task type that is defined."""
    scores = {}
    for metric in METRICS[task.target]:
        if metric in RANKING_METRICS and metric != task.metric and out.numel() > _MAX_RANKED:
            continue
        try:
            value = task.score(out, y, metric)
        except ValueError:  # ROC-AUC of one class
            continue
        if math.isfinite(value):
            scores[metric] = value
    return scores


def _describe_classes(y: Tensor, predicted: Tensor, y_train: Tensor, names: Sequence[str]) -> dict[str, Any]:
    numbers = list(range(len(names)))
    columns = precision_recall_fscore_support(y, predicted, labels=numbers, zero_division=0)
    train = torch.bincount(y_train, minlength=len(names)).tolist()
    rows = [
        ClassScores(name=name, precision=p, recall=r, f1=f, train=count, test=int(support))
        for name, count, p, r, f, support in zip(names, train, *(column.tolist() for column in columns))
    ]
    confusion = confusion_matrix(y, predicted, labels=numbers).tolist() if len(names) <= _MAX_CLASSES else None
    return {"classes": rows, "confusion": confusion}


def _describe_labels(y: Tensor, predicted: Tensor, y_train: Tensor, names: Sequence[str]) -> list[ClassScores]:
    rows = []
    train = (y_train == 1).sum(0).tolist()
    for (truth, values), name, count in zip(known_columns(y.numpy(), predicted.numpy()), names, train):
        p, r, f, _ = precision_recall_fscore_support(truth == 1, values == 1, average="binary", zero_division=0)
        matrix = confusion_matrix(truth == 1, values == 1, labels=[False, True]).tolist()
        test = sum(matrix[1])
        rows.append(ClassScores(name=name, precision=p, recall=r, f1=f, train=count, test=test, confusion=matrix))
    return rows


def _describe_targets(y: Tensor, predicted: Tensor, names: Sequence[str]) -> list[TargetScores]:
    rows = []
    for number, (truth, values) in enumerate(known_columns(y.double().numpy(), predicted.double().numpy())):
        scores = {m: number_score(m, truth[:, None], values[:, None]) for m in METRICS["regression"]}
        finite = {metric: score if math.isfinite(score) else None for metric, score in scores.items()}
        step = max(1, math.ceil(len(truth) / _MAX_POINTS))
        points = [(round_to(a), round_to(b)) for a, b in zip(truth[::step], values[::step])]
        rows.append(TargetScores(name=names[number], points=points, **finite))
    return rows


def round_to(value: float, digits: int = 5) -> float:
    """Round to significant digits, which is enough for a chart and keeps files small."""
    return float(f"{value:.{digits}g}")


def describe_calibration(task: Task, out: Tensor, y: Tensor) -> Calibration:
    """Compute the expected calibration error and the reliability curve of the predicted classes or labels."""
    if task.temperature != 1.0:
        before = describe_calibration(replace(task, temperature=1.0), out, y).error
        bins, error = _reliability(task, out, y)
        return Calibration(error=error, bins=bins, temperature=task.temperature, error_before=before)
    bins, error = _reliability(task, out, y)
    return Calibration(error=error, bins=bins)


def _reliability(task: Task, out: Tensor, y: Tensor) -> tuple[list[tuple[float, float, int]], float]:
    confidence, correct = _confidences(task, out, y)
    number = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    bins, error = [], 0.0
    for bin_number in np.unique(number):
        inside = number == bin_number
        mean, accuracy = float(confidence[inside].mean()), float(correct[inside].mean())
        bins.append((round_to(mean), round_to(accuracy), int(inside.sum())))
        error += abs(mean - accuracy) * inside.mean()
    return bins, float(error)


def _confidences(task: Task, out: Tensor, y: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of each predicted class or label, and whether the prediction is correct."""
    values, probabilities = task.predictions(out.cpu())
    assert probabilities is not None
    if task.target == "classification":
        return probabilities.amax(1).numpy(), (values == y.cpu()).numpy()
    y = y.cpu().reshape(values.shape)
    known = ~y.isnan()
    confidence = torch.where(values == 1, probabilities, 1 - probabilities)
    return confidence[known].numpy(), (values == y)[known].numpy()


def _bin_errors(sizes: np.ndarray, errors: np.ndarray) -> list[ErrorBin]:
    """Average the errors over bins of doubling width: 0, 1, 2, 3 to 4, 5 to 8, ..."""
    known = ~np.isnan(errors)
    sizes, errors = sizes[known], errors[known]
    number = np.where(sizes > 0, np.ceil(np.log2(np.maximum(sizes, 1))).astype(int) + 1, 0)
    bins = []
    for bin_number in np.unique(number):
        inside = number == bin_number
        low, high = int(sizes[inside].min()), int(sizes[inside].max())
        bins.append(ErrorBin(low=low, high=high, count=int(inside.sum()), error=float(errors[inside].mean())))
    return bins


def example_sizes(data: LoadedData, examples: Tensor) -> Tensor | None:
    """Return the in-degree of nodes, or the number of nodes of graphs."""
    if isinstance(data, GraphDataset):
        sizes = data.num_nodes
    elif isinstance(data, DiskGraph):
        sizes = data.in_edges.ptr.diff()
    elif data.get("edge_index") is None:
        return None
    else:
        sizes = torch.bincount(data.edge_index[1].cpu(), minlength=int(data.num_nodes))
    selected: Tensor = sizes[examples.cpu()]
    return selected


def output_names(encoding: Mapping[str, Any] | None, outputs: int) -> list[str]:
    """Return the names of the classes, labels or numbers, from the encoding of a table, or their numbers from 0."""
    target = (encoding or {}).get("target") or {}
    names = target.get("classes") or target.get("labels") or target.get("columns")
    return [str(name) for name in names] if names and len(names) == outputs else [str(n) for n in range(outputs)]
