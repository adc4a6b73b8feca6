"""Tasks and metrics: loss, metric, predictions and prior correction of each type of target, and the best epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor

HIGHER_IS_BETTER = {"accuracy": True, "roc-auc": True, "mae": False, "bit error rate": False}


@dataclass(frozen=True)
class Task:
    """Loss, metric and predictions of one type of target.

    Args:
        target: ``"classes"`` (multi-class), ``"labels"`` (multi-label) or ``"number"`` (regression).
        metric: ``"accuracy"``, ``"roc-auc"`` or ``"mae"``.
        center: Mean of the training targets of a regression task, one per output. The model predicts standardized
            targets.
        scale: Standard deviation of the training targets, one per output.
        log_prior_ratio: Added to the logits (:func:`compute_log_prior_ratio`). Empty: no prior correction.

    Example:
        >>> task = Task("classes", "accuracy")
        >>> task.score(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0]))
        0.5
    """

    target: str
    metric: str
    center: Sequence[float] = (0.0,)
    scale: Sequence[float] = (1.0,)
    log_prior_ratio: Sequence[float] = ()

    def __post_init__(self) -> None:
        for name in ("center", "scale", "log_prior_ratio"):  # JSON files hold lists
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Compute the mean loss over the known targets.

        The loss is cross-entropy for classes, binary cross-entropy for labels, and the absolute error of standardized
        targets for numbers.
        """
        out = out.float()  # half precision cannot represent targets such as years
        if self.target == "classes":
            return F.cross_entropy(out, y)
        y = y.float().reshape(out.shape)
        if self.target == "number":
            y = (y - _like(self.center, y)) / _like(self.scale, y)
        known = ~y.isnan()
        if not bool(known.all()):
            if not bool(known.any()):
                return out.sum() * 0
            out, y = out[known], y[known]
        return F.binary_cross_entropy_with_logits(out, y) if self.target == "labels" else F.l1_loss(out, y)

    def correct_priors(self, out: Tensor) -> Tensor:
        """Add the log ratio of the class priors to the logits. The training loss uses uncorrected logits."""
        return out + _like(self.log_prior_ratio, out) if self.log_prior_ratio else out

    def score(self, out: Tensor, y: Tensor) -> float:
        """Compute the metric over the examples whose target is known."""
        if self.metric == "accuracy":
            return float((self.correct_priors(out).argmax(1) == y).float().mean())
        if self.metric == "mae":
            y = y.to(out.dtype).reshape(out.shape)
            return float((self._unstandardize(out) - y).abs()[~y.isnan()].mean())
        return mean_roc_auc(out, y.reshape(out.shape))

    def evaluate(self, out: Tensor, y: Tensor) -> tuple[float, float]:
        """Compute the metric and the loss, both with prior correction."""
        return self.score(out, y), float(self.loss(self.correct_priors(out), y))

    def predictions(self, out: Tensor) -> tuple[Tensor, Tensor | None]:
        """Convert model outputs into predictions and probabilities.

        Classes: class indices and their softmax. Labels: 0 or 1 and their sigmoid. Numbers: values in the unit of the
        targets, without probabilities.
        """
        out = out.float()
        if self.target == "classes":
            out = self.correct_priors(out)
            return out.argmax(1), out.softmax(1)
        if self.target == "labels":
            return (out > 0).long(), out.sigmoid()
        return self._unstandardize(out), None

    def _unstandardize(self, out: Tensor) -> Tensor:
        return out * _like(self.scale, out) + _like(self.center, out)


def _like(values: Sequence[float], tensor: Tensor) -> Tensor:
    return torch.tensor(values, dtype=tensor.dtype, device=tensor.device)


def make_task(target: str, metric: str, y: Tensor) -> Task:
    """Create the task of a target type. Regression targets are standardized by the training targets ``y``."""
    if target != "number":
        return Task(target, metric)
    columns = y.double().reshape(len(y), -1)
    center, scale = [], []
    for column in columns.unbind(1):
        known = column[~column.isnan()]
        std = float(known.std()) if known.numel() > 1 else 0.0
        center.append(float(known.mean()) if known.numel() else 0.0)
        scale.append(std if std > 0 else 1.0)
    return Task(target, metric, tuple(center), tuple(scale))


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


# ---- ROC-AUC ---------------------------------------------------------------------------------------------------


def has_roc_auc(y: Tensor) -> bool:
    """Whether ROC-AUC is defined: a label, of ``[N]`` or ``[N, T]``, is 0 for some examples and 1 for others."""
    columns = y.reshape(len(y), -1)
    return bool(((columns == 0).any(0) & (columns == 1).any(0)).any())


def mean_roc_auc(out: Tensor, y: Tensor) -> float:
    """Average ROC-AUC over the labels ``[N, T]`` for which it is defined, as in OGB's evaluator. NaN is unknown."""
    scores = []
    for column in range(y.size(1)):
        known = ~y[:, column].isnan() if y.is_floating_point() else torch.ones(len(y), dtype=torch.bool)
        truth = y[known, column]
        if has_roc_auc(truth):
            scores.append(float(roc_auc_score(truth.cpu(), out[known, column].float().cpu())))
    if not scores:
        raise ValueError("ROC-AUC is not defined: no label is 0 for some examples and 1 for others.")
    return sum(scores) / len(scores)
