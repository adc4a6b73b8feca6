"""What is predicted: how wrong an output is (the loss), and how good (the metric)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor

HIGHER_IS_BETTER = {"accuracy": True, "roc-auc": True, "mae": False}


@dataclass(frozen=True)
class Task:
    """Loss, metric and predictions of one kind of target.

    Args:
        target: ``"classes"``, ``"labels"`` or ``"number"``.
        metric: ``"accuracy"``, ``"roc-auc"`` or ``"mae"``.
        center: Mean of the training targets, for numbers, one for each: models learn standardised ones.
        scale: Their standard deviations.
        shift: Added to the output of each class before one is predicted (:func:`log_prior_ratio`); none: nothing is.

    Example:
        >>> task = Task("classes", "accuracy")
        >>> task.score(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0]))
        0.5
    """

    target: str
    metric: str
    center: Sequence[float] = (0.0,)
    scale: Sequence[float] = (1.0,)
    shift: Sequence[float] = ()

    def __post_init__(self) -> None:
        for name in ("center", "scale", "shift"):  # a file has lists
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Mean over what is known: cross-entropy, binary cross-entropy, or the absolute error in standard units."""
        out = out.float()  # half precision has no room for targets such as years
        if self.target == "classes":
            return F.cross_entropy(out, y)
        y = y.float().reshape(out.shape)
        if self.target == "number":
            y = (y - self._row(self.center, y)) / self._row(self.scale, y)
        known = ~y.isnan()
        if not bool(known.all()):
            if not bool(known.any()):
                return out.sum() * 0
            out, y = out[known], y[known]
        return F.binary_cross_entropy_with_logits(out, y) if self.target == "labels" else F.l1_loss(out, y)

    def shifted(self, out: Tensor) -> Tensor:
        """Outputs for the shares of classes that are expected; training sees those that were learned from."""
        return out + self._row(self.shift, out) if self.shift else out

    @staticmethod
    def _row(values: Sequence[float], like: Tensor) -> Tensor:
        return torch.tensor(values, dtype=like.dtype, device=like.device)

    def _unscaled(self, out: Tensor) -> Tensor:
        return out * self._row(self.scale, out) + self._row(self.center, out)

    def score(self, out: Tensor, y: Tensor) -> float:
        """The metric, over examples whose target is known; of OGB's definition for ROC-AUC."""
        if self.metric == "accuracy":
            return float((self.shifted(out).argmax(1) == y).float().mean())
        if self.metric == "mae":
            y = y.to(out.dtype).reshape(out.shape)
            return float((self._unscaled(out) - y).abs()[~y.isnan()].mean())
        return _roc_auc(out, y.reshape(out.shape))

    def better(self, one: float, other: float) -> bool:
        """Whether one score beats another; what is not a number beats nothing."""
        if math.isnan(one) or math.isnan(other):
            return math.isnan(other) and not math.isnan(one)
        return one > other if HIGHER_IS_BETTER[self.metric] else one < other

    def predictions(self, out: Tensor) -> tuple[Tensor, Tensor | None]:
        """Classes and probabilities; labels (0/1) and their probabilities; or numbers."""
        out = out.float()
        if self.target == "classes":
            out = self.shifted(out)
            return out.argmax(1), out.softmax(1)
        if self.target == "labels":
            return (out > 0).long(), out.sigmoid()
        return self._unscaled(out), None


def for_target(target: str, metric: str, y: Tensor) -> Task:
    """The task; numbers are standardised by the targets ``y`` to learn from."""
    if target != "number":
        return Task(target, metric)
    columns = y.double().reshape(len(y), -1)
    center, scale = [], []
    for column in columns.unbind(1):
        known = column[~column.isnan()]
        spread = float(known.std()) if known.numel() > 1 else 0.0
        center.append(float(known.mean()) if known.numel() else 0.0)
        scale.append(spread if spread > 0 else 1.0)
    return Task(target, metric, tuple(center), tuple(scale))


def log_prior_ratio(learned: Tensor, expected: Tensor, classes: int) -> tuple[float, ...]:
    r"""What outputs must be shifted by where classes have other shares than in the examples learned from.

    By Bayes' rule a classifier that learned from shares :math:`p_c` and meets shares :math:`q_c` adds
    :math:`\log q_c - \log p_c` to the logit of class :math:`c` (Saerens et al. 2002). Splits by quota learn from
    as many examples of each class, and small classes are then rare or absent elsewhere. To what is expected some
    examples of the shares that were learned are added, one for each class, so that none is impossible. Of a class that
    nothing was learned of, nothing can be known: it is not shifted.

    Args:
        learned: Classes of the examples to learn from.
        expected: Of others, such as those of validation.
        classes: How many there are.

    Example:
        >>> log_prior_ratio(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, 1]), 2)
        (-0.405..., 0.287...)
    """
    before, there = (torch.bincount(part, minlength=classes).double() for part in (learned, expected))
    before = before / before.sum()
    after = (there + classes * before) / (there.sum() + classes)
    return tuple(torch.where(before > 0, (after / before).log(), 0).tolist())


def has_roc_auc(y: Tensor) -> bool:
    """Whether a label is 0 for some examples and 1 for others.

    Args:
        y: Labels, ``[N]`` or ``[N, T]``; NaN where none is known.

    Example:
        >>> has_roc_auc(torch.tensor([[0, 1], [0, 0]])), has_roc_auc(torch.tensor([0, 0]))
        (True, False)
    """
    columns = y.reshape(len(y), -1)
    return bool(((columns == 0).any(0) & (columns == 1).any(0)).any())


def _roc_auc(out: Tensor, y: Tensor) -> float:
    """The mean over labels that have both a 0 and a 1 (as OGB's evaluator), each over the examples that have it."""
    scores = []
    for column in range(y.size(1)):
        known = ~y[:, column].isnan() if y.is_floating_point() else torch.ones(len(y), dtype=torch.bool)
        truth = y[known, column]
        if has_roc_auc(truth):
            scores.append(float(roc_auc_score(truth.cpu(), out[known, column].float().cpu())))
    if not scores:
        raise ValueError("ROC-AUC needs a label that is 0 for some examples and 1 for others, in every part")
    return sum(scores) / len(scores)
