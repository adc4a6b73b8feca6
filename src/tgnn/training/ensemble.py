"""Predict with several runs as one model: mean and standard deviation over the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tgnn.data.splits import labeled_mask
from tgnn.training.metrics import Task
from tgnn.training.predictions import Predictions


def average_predictions(members: Sequence[Predictions]) -> Predictions:
    """Average the predictions of several runs for the same data.

    The probabilities and numbers are means over the runs, and the predicted class is the most probable one on average.
    ``std`` is the standard deviation over the runs: of the probability of the predicted class, of the probability of
    each label, or of each number. Runs with different splits have no common ``split``.

    Args:
        members: Predictions of each run.
    """
    first = members[0]
    if any(member.names != first.names or len(member) != len(first) for member in members):
        raise ValueError("The runs predict different classes or rows, so that they cannot be averaged.")
    splits = [member.split for member in members if member.split is not None]
    split = splits[0] if splits and all(np.array_equal(splits[0], other) for other in splits) else None
    if first.probabilities is None:
        numbers = torch.stack([member.values for member in members])
        return replace(first, values=numbers.mean(0), split=split, std=numbers.std(0))
    parts = torch.stack([member.probabilities for member in members if member.probabilities is not None])
    probabilities, deviations = parts.mean(0), parts.std(0)
    if first.values.dim() == 2:
        values = (probabilities > 0.5).long()
    else:
        values = probabilities.nan_to_num(-1).argmax(1)
        deviations = deviations.gather(1, values.unsqueeze(1)).squeeze(1)
    values[first.values < 0] = -1  # rows that could not be read
    return replace(first, values=values, probabilities=probabilities, split=split, std=deviations)


def ensemble_outputs(task: Task, predictions: Predictions) -> tuple[Tensor, Tensor]:
    """Return averaged predictions as a model outputs them, and the targets, of all labeled rows.

    Args:
        task: Task without prior correction and temperature.
        predictions: Result of :func:`average_predictions`.
    """
    labels = predictions.labels
    if labels is None:
        return torch.empty(0, len(predictions.names)), torch.empty(0)
    readable = torch.ones(len(predictions), dtype=torch.bool)
    readable[[row.row for row in predictions.unreadable]] = False
    rows = labeled_mask(labels) & readable
    if predictions.probabilities is None:
        values = predictions.values.reshape(len(predictions), -1)[rows]
        return (values - torch.tensor(task.center)) / torch.tensor(task.scale), labels[rows]
    probabilities = predictions.probabilities[rows].double()
    if task.target == "multi-label":
        return probabilities.logit(1e-9).float(), labels[rows]
    return probabilities.clamp_min(1e-30).log().float(), labels[rows]
