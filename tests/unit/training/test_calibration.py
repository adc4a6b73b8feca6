"""Temperature scaling."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tgnn.training.calibration import fit_temperature
from tgnn.training.metrics import Task
from tgnn.training.result_details import describe_calibration


@pytest.mark.parametrize("target", ["classification", "multi-label"])
def test_a_small_validation_set_without_errors_hardly_sharpens_probabilities(target):
    """The target probability is 81 / 82, so the logits, with a margin of 3, are scaled to a margin of log 81."""
    y = torch.arange(80) % 2
    out = torch.stack([3.0 - 6 * y, 6 * y - 3.0], 1) / 2 if target == "classification" else (6 * y - 3.0).unsqueeze(1)
    assert fit_temperature(Task(target, "accuracy"), out, y) == pytest.approx(3 / math.log(81), rel=1e-3)


@pytest.mark.parametrize("target", ["classification", "multi-label"])
def test_the_temperature_of_overconfident_logits_is_found(target):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4000, 3, generator=generator)
    if target == "classification":
        y = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    else:
        y = torch.bernoulli(logits.sigmoid(), generator=generator)
    task = Task(target, "accuracy", class_weight=(9.0, 1.0, 1.0))  # class weights do not matter
    temperature = fit_temperature(task, 4 * logits, y)
    assert temperature == pytest.approx(4, rel=0.1)
    scaled = replace(task, temperature=temperature)
    assert torch.equal(task.predictions(4 * logits)[0], scaled.predictions(4 * logits)[0])
    calibration = describe_calibration(scaled, 4 * logits, y)
    assert calibration.error_before is not None
    assert calibration.error_before > 0.15 > 0.05 > calibration.error
