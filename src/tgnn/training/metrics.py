"""Tasks and metrics: loss, metric, predictions and prior correction of each task type, and the best epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import AfterValidator, Field
from torch import Tensor

from tgnn.data.task_types import TaskTypeName
from tgnn.training.config import CLASSIFICATION_METRICS
from tgnn.training.scores import METRICS, RANKING_METRICS, class_score, label_score, number_score
from tgnn.utils.read import STRICT

HIGHER_IS_BETTER = {name: name != "log-loss" for name in CLASSIFICATION_METRICS}
HIGHER_IS_BETTER |= {"mae": False, "rmse": False, "r2": True, "bit error rate": False}


def _check_metric(name: str) -> str:
    if name not in HIGHER_IS_BETTER:
        raise ValueError(f"it must be one of {', '.join(HIGHER_IS_BETTER)}")
    return name


@dataclass(frozen=True)
class Task:
    """Loss, metric and predictions of one task type.

    Args:
        target: ``"classification"`` (multi-class), ``"multi-label"`` or ``"regression"``.
        metric: One of the metrics of the task type (:data:`tgnn.training.scores.METRICS`). It selects the best epoch.
        center: Mean of the training targets of a regression task, one per output. The model predicts standardized
            targets.
        scale: Standard deviation of the training targets, one per output.
        log_prior_ratio: Added to the logits (:func:`compute_log_prior_ratio`). Empty: no prior correction.
        class_weight: Weight of each class in the loss, or of the positive examples of each label
            (:func:`balanced_class_weight`). Empty: equal weights.
        temperature: Divides the logits of predictions (:mod:`tgnn.training.calibration`).

    Example:
        >>> task = Task("classification", "accuracy")
        >>> task.score(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0]))
        0.5
    """

    __pydantic_config__ = STRICT

    target: TaskTypeName
    metric: Annotated[str, AfterValidator(_check_metric)]
    center: Sequence[float] = (0.0,)
    scale: Sequence[float] = (1.0,)
    log_prior_ratio: Sequence[float] = ()
    class_weight: Sequence[float] = ()
    temperature: Annotated[float, Field(gt=0)] = 1.0

    def __post_init__(self) -> None:
        for name in ("center", "scale", "log_prior_ratio", "class_weight"):  # JSON files hold lists
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def loss(self, out: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Compute the mean loss over the known targets.

        The loss is cross-entropy for classes and binary cross-entropy for labels. For numbers, it is the absolute
        error of standardized targets, or the squared error if the metric is RMSE or R2.

        Args:
            out: Outputs of the model, ``[N, C]``.
            y: Targets, ``[N]`` or ``[N, C]``.
            weight: Weight of each example, ``[N]``. ``None``: equal weights.
        """
        out = out.float()  # half precision cannot represent targets such as years
        class_weight = _like(self.class_weight, out) if self.class_weight else None
        if self.target == "classification":
            if weight is None:
                return F.cross_entropy(out, y, class_weight)
            return _weighted_mean(F.cross_entropy(out, y, class_weight, reduction="none"), weight)
        y = y.float().reshape(out.shape)
        if self.target == "regression":
            y = (y - _like(self.center, y)) / _like(self.scale, y)
        known = ~y.isnan()
        all_known = bool(known.all())
        if not all_known and not bool(known.any()):
            return out.sum() * 0
        if class_weight is not None:
            per_entry = torch.where(y == 1, class_weight.expand_as(y), 1.0)
            weight = per_entry if weight is None else per_entry * weight.unsqueeze(1)
        if weight is not None:
            weight = (weight if weight.dim() == 2 else weight.unsqueeze(1)).expand_as(y)[known]
        if not all_known:
            out, y = out[known], y[known]
        if self.target == "multi-label":
            compute_loss: Any = F.binary_cross_entropy_with_logits
        else:
            compute_loss = F.mse_loss if self.metric in ("rmse", "r2") else F.l1_loss
        if weight is None:
            return compute_loss(out, y)  # type: ignore[no-any-return]
        return _weighted_mean(compute_loss(out, y, reduction="none").reshape(-1), weight.reshape(-1))

    def correct_priors(self, out: Tensor) -> Tensor:
        """Add the log ratio of the class priors to the logits. The training loss uses uncorrected logits."""
        return out + _like(self.log_prior_ratio, out) if self.log_prior_ratio else out

    def score(self, out: Tensor, y: Tensor, metric: str | None = None) -> float:
        """Compute the metric, or another metric of the task type, over the examples whose target is known."""
        metric = metric or self.metric
        if self.target == "classification" and metric == "accuracy":
            return float((self.correct_priors(out).argmax(1) == y).float().mean())
        if self.target == "regression":
            if metric == "mae" and out.size(1) == 1:
                y = y.to(out.dtype).reshape(out.shape)
                return float((self._unstandardize(out) - y).abs()[~y.isnan()].mean())
            return number_score(metric, _array(y.reshape(out.shape)), _array(self._unstandardize(out)), self.scale)
        _, probabilities = self.predictions(out)
        assert probabilities is not None
        if self.target == "classification":
            return class_score(metric, _array(y), _array(probabilities))
        values = out if metric in RANKING_METRICS else probabilities  # float32 probabilities tie where logits do not
        return label_score(metric, _array(y.reshape(out.shape)), _array(values))

    def evaluate(self, out: Tensor, y: Tensor) -> tuple[float, float]:
        """Compute the metric and the loss, both with prior correction."""
        return self.score(out, y), float(self.loss(self.correct_priors(out), y))

    def predictions(self, out: Tensor) -> tuple[Tensor, Tensor | None]:
        """Convert model outputs into predictions and probabilities.

        Classes: class indices and their softmax. Labels: 0 or 1 and their sigmoid. Numbers: values in the unit of the
        targets, without probabilities.
        """
        out = out.float()
        if self.target == "classification":
            out = self.correct_priors(out)
            return out.argmax(1), (out / self.temperature).softmax(1)
        if self.target == "multi-label":
            return (out > 0).long(), (out / self.temperature).sigmoid()
        return self._unstandardize(out), None

    def _unstandardize(self, out: Tensor) -> Tensor:
        return out * _like(self.scale, out) + _like(self.center, out)


def _array(tensor: Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def _weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    return (values * weight).sum() / weight.sum().clamp_min(torch.finfo(weight.dtype).tiny)


def _like(values: Sequence[float], tensor: Tensor) -> Tensor:
    return torch.tensor(values, dtype=tensor.dtype, device=tensor.device)


def make_task(target: TaskTypeName, metric: str, y: Tensor) -> Task:
    """Create the task of a task type. Regression targets are standardized by the training targets ``y``."""
    if target != "regression":
        return Task(target, metric)
    columns = y.double().reshape(len(y), -1)
    center, scale = [], []
    for column in columns.unbind(1):
        known = column[~column.isnan()]
        std = float(known.std()) if known.numel() > 1 else 0.0
        center.append(float(known.mean()) if known.numel() else 0.0)
        scale.append(std if std > 0 else 1.0)
    return Task(target, metric, tuple(center), tuple(scale))


def check_metric(metric: str, target: str) -> None:
    """Raise ``ValueError`` if a metric is not defined for a task type."""
    if metric not in METRICS[target]:
        raise ValueError(
            f"The metric {metric} (--metric) cannot be used for a {target} task. "
            f"Use {', '.join(METRICS[target][:-1])} or {METRICS[target][-1]}."
        )


def balanced_class_weight(y: Tensor, target: str, num_classes: int) -> tuple[float, ...]:
    """Compute class weights that make all classes equally important (``train.class_weight=balanced``).

    Class :math:`c` with :math:`n_c` of :math:`n` training examples has the weight :math:`n / (C n_c)`, as in
    scikit-learn. The positive examples of a label have the weight :math:`n_0 / n_1`.

    Args:
        y: Targets of the training set.
        target: ``"classification"`` or ``"multi-label"``.
        num_classes: Number of classes or labels.

    Example:
        >>> balanced_class_weight(torch.tensor([0, 0, 0, 1]), "classification", 2)
        (0.666..., 2.0)
    """
    if target == "classification":
        counts = torch.bincount(y, minlength=num_classes).double()
        return tuple((counts.sum() / (num_classes * counts.clamp_min(1))).tolist())
    columns = y.reshape(len(y), -1)
    positive, negative = ((columns == value).sum(0).double() for value in (1, 0))
    return tuple(torch.where((positive > 0) & (negative > 0), negative / positive.clamp_min(1), 1).tolist())


def has_both_values(y: Tensor, target: str) -> bool:
    """Whether ROC-AUC and PR-AUC are defined: two classes occur, or a label is 0 for some examples and 1 for others."""
    if target == "classification":
        return len(torch.unique(y)) > 1
    columns = y.reshape(len(y), -1)
    return bool(((columns == 0).any(0) & (columns == 1).any(0)).any())


def compute_log_prior_ratio(train_classes: Tensor, shifted_classes: Tensor, num_classes: int) -> tuple[float, ...]:
    r"""Compute the prior correction of the logits under label shift (``train.prior_correction``).

    A classifier trained with class priors :math:`p_c` and applied to data with class priors :math:`q_c` adds
    :math:`\log q_c - \log p_c` to the logit of class :math:`c` (Bayes' rule, Saerens et al. 2002). Splits with a quota
    per class have uniform priors in the training set, while small classes are rare elsewhere. The shifted priors are
    smoothed with ``num_classes`` pseudo-examples distributed as the training set, so that no class becomes impossible.
    A class without training examples is not corrected.

    Args:
        train_classes: Classes of the training examples.
        shifted_classes: Classes of the examples whose priors are assumed, such as the validation set.
        num_classes: Number of classes.

    Example:
        >>> compute_log_prior_ratio(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, 1]), 2)
        (-0.405..., 0.287...)
    """
    train_counts = torch.bincount(train_classes, minlength=num_classes).double()
    shifted_counts = torch.bincount(shifted_classes, minlength=num_classes).double()
    train_priors = train_counts / train_counts.sum()
    shifted_priors = (shifted_counts + num_classes * train_priors) / (shifted_counts.sum() + num_classes)
    return tuple(torch.where(train_priors > 0, (shifted_priors / train_priors).log(), 0).tolist())


# ---- selection of the best epoch -------------------------------------------------------------------------------


def is_better_epoch(
    metric: str, select_by: str, epoch: tuple[float, float], best: tuple[float | None, float | None]
) -> bool:
    """Whether an epoch is better on the validation set than the best epoch before it. NaN is worse than every number.

    Args:
        metric: Name of the validation metric.
        select_by: ``"metric"``: the epoch with the better metric wins, and the loss decides between equal metrics.
            ``"loss"``: the epoch with the lower validation loss wins.
        epoch: Validation metric and validation loss of the epoch.
        best: The same of the best epoch before it. ``None``: there is no epoch before it.

    Example:
        >>> is_better_epoch("accuracy", "metric", (0.9, 0.7), (0.8, 0.5))
        True
        >>> is_better_epoch("accuracy", "loss", (0.9, 0.7), (0.8, 0.5))
        False
    """
    (score, loss), (best_score, best_loss) = epoch, best
    if best_score is None or best_loss is None:
        return True
    if select_by == "loss" or score == best_score:
        return loss < best_loss or math.isnan(best_loss)
    if math.isnan(best_score):
        return not math.isnan(score)
    return score > best_score if HIGHER_IS_BETTER[metric] else score < best_score


def find_best_epoch(history: Sequence[Mapping[str, Any]], metric: str, select_by: str = "metric") -> int | None:
    """Return the number of the best epoch of ``history.jsonl``, from 1. ``None``: no epoch was validated.

    Example:
        >>> find_best_epoch([{"val_mae": 0.5}, {"val_mae": 0.2}, {"val_mae": 0.3}], "mae")
        2
    """

    def as_float(value: Any) -> float:  # JSON has null in place of NaN
        return float(value) if isinstance(value, int | float) else math.nan

    best: tuple[float | None, float | None] = (None, None)
    best_epoch = None
    for number, record in enumerate(history, start=1):
        if f"val_{metric}" not in record:
            continue
        epoch = as_float(record[f"val_{metric}"]), as_float(record.get("val_loss", 0.0))
        if is_better_epoch(metric, select_by, epoch, best):
            best, best_epoch = epoch, number
    return best_epoch
