"""Temperature scaling: calibrate the probabilities of a classifier on the validation set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
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

    The predicted classes do not change. If the validation set has no error, the temperature is at least 1.

    Args:
        task: Task of the model. Its class weights are ignored.
        out: Outputs of the model for the validation set, ``[N, C]``.
        y: Targets of the validation set.

    Example:
        >>> out = torch.tensor([[8.0, 0.0], [8.0, 0.0], [8.0, 0.0], [8.0, 0.0]])  # sure, but right in 3 of 4 cases
        >>> temperature = fit_temperature(Task("classes", "accuracy"), out, torch.tensor([0, 0, 0, 1]))
        >>> round(float((out / temperature).softmax(1)[0, 0]), 3)
        0.75
    """
    plain = replace(task, class_weight=(), temperature=1.0)
    logits = plain.correct_priors(out.double().cpu())

    def log_loss(log_temperature: float) -> float:
        return float(plain.loss(logits / np.exp(log_temperature), y.cpu()))

    bound = float(np.log(_LARGEST))
    values, _ = plain.predictions(out.cpu())
    known = ~y.isnan() if y.is_floating_point() else torch.ones_like(y, dtype=torch.bool)
    is_faultless = bool((values == y.cpu().reshape(values.shape))[known.cpu().reshape(values.shape)].all())
    lowest = 0.0 if is_faultless else -bound  # without an error, the loss would fall down to temperature 0
    return float(np.exp(minimize_scalar(log_loss, bounds=(lowest, bound), method="bounded").x))


def check_calibration(prepared: Prepared) -> None:
    """Raise :class:`ConfigError` if the predictions of a task cannot be calibrated."""
    if prepared.task.target == "number":
        raise ConfigError("train.calibrate needs a classification task, but the targets are numbers.")
    if not len(prepared.split.val):
        raise ConfigError("train.calibrate needs a validation set, and there is none.")


def calibrate(model: torch.nn.Module, prepared: Prepared, config: Config, device: torch.device) -> Task:
    """Return the task of a run with the temperature that its validation set gives."""
    split, y = prepared.split, prepared.data.y
    assert y is not None
    batches = make_inference_batches(prepared.data, split.val, config.train.batch_size, device)
    out = infer(model, batches, config.train.precision, device)
    return replace(prepared.task, temperature=fit_temperature(prepared.task, out, y[split.val]))
