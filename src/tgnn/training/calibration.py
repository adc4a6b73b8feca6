"""Temperature scaling: calibrate the probabilities of a classifier on the validation set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar
from torch import Tensor

from tgnn.training.config import Config, ConfigError
from tgnn.training.loaders import make_inference_batches
from tgnn.training.loop import infer
from tgnn.training.metrics import Task
from tgnn.training.prepare import Prepared

_LARGEST = 20.0
"""Largest temperature, and inverse of the smallest one."""


def fit_temperature(task: Task, out: Tensor, y: Tensor) -> float:
    r"""Find the temperature :math:`T` that minimizes the log loss of the logits :math:`z / T` (Guo et al., 2017).

    The predicted classes do not change. With :math:`N` examples, the target probability of the true class is
    :math:`(N + 1) / (N + 2)` instead of 1 (Platt, 1999). Otherwise a small validation set with few errors, which has
    also selected the epoch, would give a temperature near 0.

    Args:
        task: Task of the model. Its class weights are ignored.
        out: Outputs of the model for the validation set, ``[N, C]``.
        y: Targets of the validation set.

    Example:
        >>> out = torch.tensor([[8.0, 0.0]]).repeat(400, 1)  # confident, but correct in 3 of 4 cases
        >>> y = (torch.arange(400) < 100).long()
        >>> temperature = fit_temperature(Task("classification", "accuracy"), out, y)
        >>> round(float((out / temperature).softmax(1)[0, 0]), 2)
        0.75
    """
    logits, y = task.correct_priors(out.double().cpu()), y.cpu()
    unsure = 1 / (len(y) + 2)

    def log_loss(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        if task.target == "classification":
            classes = scaled.size(1)
            return float(F.cross_entropy(scaled, y, label_smoothing=unsure * classes / max(classes - 1, 1)))
        targets = y.double().reshape(scaled.shape)
        known = ~targets.isnan()
        targets = unsure + (1 - 2 * unsure) * targets[known]
        return float(F.binary_cross_entropy_with_logits(scaled[known], targets))

    bound = float(np.log(_LARGEST))
    return float(np.exp(minimize_scalar(log_loss, bounds=(-bound, bound), method="bounded").x))


def check_calibration(prepared: Prepared) -> None:
    """Raise :class:`ConfigError` if the predictions of a task cannot be calibrated."""
    if prepared.task.target == "regression":
        raise ConfigError("train.calibrate needs a classification task, but this is a regression task. Remove it.")
    if not len(prepared.split.val):
        raise ConfigError("train.calibrate needs a validation set, and there is none.")


def calibrate(model: torch.nn.Module, prepared: Prepared, config: Config, device: torch.device) -> Task:
    """Return the task of a run with the temperature that its validation set gives."""
    split, y = prepared.split, prepared.data.y
    assert y is not None
    batches = make_inference_batches(prepared.data, split.val, config.train.batch_size, device)
    out = infer(model, batches, config.train.precision, device)
    return replace(prepared.task, temperature=fit_temperature(prepared.task, out, y[split.val]))
