"""What is predicted: how wrong an output is (the loss), and how good (the metric)."""

from __future__ import annotations

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
        center: Mean of the training targets, for numbers: models learn standardised ones.
        scale: Their standard deviation.

    Example:
        >>> task = Task("classes", "accuracy")
        >>> task.score(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0]))
        0.5
    """

    target: str
    metric: str
    center: float = 0.0
    scale: float = 1.0

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Mean over what is known: cross-entropy, binary cross-entropy, or the absolute error in standard units."""
        if self.target == "classes":
            return F.cross_entropy(out, y)
        y = y.to(out.dtype).reshape(out.shape)
        known = ~y.isnan()
        if not bool(known.all()):
            out, y = out[known], y[known]
        if self.target == "labels":
            return F.binary_cross_entropy_with_logits(out, y)
        return F.l1_loss(out, (y - self.center) / self.scale)

    def score(self, out: Tensor, y: Tensor) -> float:
        """The metric, over examples whose target is known; of OGB's definition for ROC-AUC."""
        if self.metric == "accuracy":
            return float((out.argmax(1) == y).float().mean())
        if self.metric == "mae":
            wrong = (out * self.scale + self.center - y.to(out.dtype).reshape(out.shape)).abs()
            return float(wrong[~wrong.isnan()].mean())
        return _roc_auc(out, y.reshape(out.shape))

    def better(self, one: float, other: float) -> bool:
        """Whether one score beats another."""
        return one > other if HIGHER_IS_BETTER[self.metric] else one < other

    def predictions(self, out: Tensor) -> tuple[Tensor, Tensor | None]:
        """Classes and probabilities; labels (0/1) and their probabilities; or numbers."""
        out = out.float()
        if self.target == "classes":
            return out.argmax(1), out.softmax(1)
        if self.target == "labels":
            return (out > 0).long(), out.sigmoid()
        return out * self.scale + self.center, None


def for_target(target: str, metric: str, y: Tensor) -> Task:
    """The task; numbers are standardised by the targets ``y`` to learn from."""
    if target != "number":
        return Task(target, metric)
    known = y[~y.isnan()].double() if y.is_floating_point() else y.double()
    scale = float(known.std()) if known.numel() > 1 else 1.0
    return Task(target, metric, float(known.mean()), scale if scale > 0 else 1.0)


def _roc_auc(out: Tensor, y: Tensor) -> float:
    """The mean over labels that have both a 0 and a 1 (as OGB's evaluator), each over the examples that have it."""
    scores = []
    for column in range(y.size(1)):
        known = ~y[:, column].isnan() if y.is_floating_point() else torch.ones(len(y), dtype=torch.bool)
        truth = y[known, column]
        if bool((truth == 0).any()) and bool((truth == 1).any()):
            scores.append(float(roc_auc_score(truth.cpu(), out[known, column].float().cpu())))
    if not scores:
        raise ValueError("ROC-AUC needs a label that is 0 for some examples and 1 for others, in every part")
    return sum(scores) / len(scores)
