"""Metrics of predictions, computed with scikit-learn: one number per metric, averaged over labels or targets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    recall_score,
    roc_auc_score,
    root_mean_squared_error,
)

from tgnn.training.config import CLASSIFICATION_METRICS, REGRESSION_METRICS

METRICS = {
    "classification": CLASSIFICATION_METRICS,
    "multi-label": CLASSIFICATION_METRICS,
    "regression": REGRESSION_METRICS,
}
"""Metrics of each task type."""
RANKING_METRICS = ("roc-auc", "pr-auc")
"""Metrics that need examples with and without the label."""
_RANKING: dict[str, Callable[..., float]] = {"roc-auc": roc_auc_score, "pr-auc": average_precision_score}


def class_score(metric: str, y: np.ndarray, probabilities: np.ndarray) -> float:
    """Compute a metric of class probabilities.

    ROC-AUC and PR-AUC of two classes are those of the second class. With more classes, they are averages over the
    classes, each against all others. Balanced accuracy and macro F1 are averages over the classes, too.

    Args:
        metric: One of :data:`CLASSIFICATION_METRICS`.
        y: Classes, ``[N]``.
        probabilities: Probability of each class, ``[N, C]``.

    Example:
        >>> class_score("balanced-accuracy", np.array([0, 0, 0, 1]), np.array([[0.9, 0.1]] * 4))
        0.5
    """
    predicted = probabilities.argmax(1)
    if metric == "accuracy":
        return float((predicted == y).mean())
    if metric == "balanced-accuracy":
        return float(recall_score(y, predicted, labels=np.unique(y), average="macro", zero_division=0))
    if metric == "macro-f1":
        return float(f1_score(y, predicted, average="macro", zero_division=0))
    if metric == "log-loss":
        return float(log_loss(y, _normalized(probabilities), labels=range(probabilities.shape[1])))
    classes = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    return _mean_over_defined(metric, [(y == number, probabilities[:, number]) for number in classes])


def label_score(metric: str, y: np.ndarray, probabilities: np.ndarray) -> float:
    """Compute the average of a metric over labels. NaN in ``y`` is unknown.

    Args:
        metric: One of :data:`CLASSIFICATION_METRICS`. Macro F1 is the average F1 of the labels.
        y: 0 or 1, ``[N, T]``.
        probabilities: Probability of each label, ``[N, T]``.
    """
    if metric in RANKING_METRICS:
        return _mean_over_defined(metric, list(known_columns(y, probabilities)))
    one: Callable[[np.ndarray, np.ndarray], float] = {
        "accuracy": lambda y, p: float(((p > 0.5) == y).mean()),
        "balanced-accuracy": lambda y, p: float(
            recall_score(y, p > 0.5, labels=np.unique(y), average="macro", zero_division=0)
        ),
        "macro-f1": lambda y, p: float(f1_score(y, p > 0.5, zero_division=0)),
        "log-loss": lambda y, p: float(log_loss(y, p, labels=[0, 1])),
    }[metric]
    return float(np.mean([one(truth.astype(int), p) for truth, p in known_columns(y, probabilities) if len(truth)]))


def number_score(metric: str, y: np.ndarray, predicted: np.ndarray, scale: Sequence[float] = (1.0,)) -> float:
    """Compute a metric of predicted numbers. NaN in ``y`` is unknown.

    MAE and RMSE of one target are in the unit of the target. Those of several targets are averages over the targets,
    each in units of its standard deviation ``scale``, because the units of the targets differ.

    Args:
        metric: One of :data:`REGRESSION_METRICS`.
        y: Targets, ``[N, T]``.
        predicted: Predictions, ``[N, T]``.
        scale: Standard deviation of each target in the training set.
    """
    functions: dict[str, Callable[..., float]] = {
        "mae": mean_absolute_error,
        "rmse": root_mean_squared_error,
        "r2": r2_score,
    }
    units = scale if y.shape[1] > 1 and metric != "r2" else [1.0] * y.shape[1]
    columns = list(known_columns(y, predicted))
    if any(len(truth) and not np.isfinite(value).all() for truth, value in columns):
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # R2 of one example is NaN
        scores = [functions[metric](*column) / unit for column, unit in zip(columns, units) if len(column[0])]
    return float(np.mean(scores)) if scores else float("nan")


def known_columns(y: np.ndarray, values: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the known targets of each column, and the predictions for them."""
    for column in range(y.shape[1]):
        known = ~np.isnan(y[:, column])
        yield y[known, column], values[known, column]


def _mean_over_defined(metric: str, columns: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Average ROC-AUC or PR-AUC over the columns with both values, as in OGB's evaluator."""
    scores = [_RANKING[metric](truth, value) for truth, value in columns if truth.any() and not truth.all()]
    if not scores:
        name = metric.upper()
        raise ValueError(f"{name} is not defined: no label is 0 for some examples and 1 for others.")
    return sum(scores) / len(scores)


def _normalized(probabilities: np.ndarray) -> np.ndarray:
    """Make the rows sum to 1 exactly, which float32 does not."""
    exact: np.ndarray = probabilities.astype(np.float64)
    exact /= exact.sum(1, keepdims=True)
    return exact
