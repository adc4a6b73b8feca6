"""Prior correction: adapt a classifier to class priors that differ from those of its training set (label shift)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tgnn.data.splits import Split
from tgnn.training.config import ConfigError
from tgnn.training.metrics import Task


def with_prior_correction(task: Task, y: Tensor, split: Split, num_classes: int) -> Task:
    """Return the task with the class priors of the validation set (``train.prior_correction=validation``).

    Args:
        task: A classification task.
        y: Class of each example.
        split: Training and validation sets.
        num_classes: Number of classes.
    """
    if task.target != "classes":
        raise ConfigError(
            "train.prior_correction=validation needs a classification task, but the target type is "
            f"{task.target}. Use train.prior_correction=none."
        )
    if not len(split.val):
        raise ConfigError(
            "train.prior_correction=validation needs a validation set, and there is none. "
            "Use train.prior_correction=none."
        )
    ratio = compute_log_prior_ratio(y[split.train], y[split.val], num_classes)
    return replace(task, log_prior_ratio=ratio)


def compute_log_prior_ratio(train_classes: Tensor, shifted_classes: Tensor, num_classes: int) -> tuple[float, ...]:
    r"""Compute the prior correction of the logits under label shift.

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
