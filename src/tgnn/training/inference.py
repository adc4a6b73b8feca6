"""Inference: the outputs of a model in evaluation mode, for validation, test, evaluate, predict and estimators."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from tgnn.training.loaders import InferenceBatch


def autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Return the context of a forward pass in the configured precision.

    Args:
        precision: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        device: Device of the model.
    """
    if precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, getattr(torch, precision))


@torch.no_grad()
def infer(model: torch.nn.Module, batches: Iterable[InferenceBatch], precision: str, device: torch.device) -> Tensor:
    """Compute the outputs of a model in evaluation mode.

    Args:
        model: On its device. It is switched to evaluation mode.
        batches: From :func:`~tgnn.training.loaders.make_inference_batches`.
        precision: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        device: Device of the model.

    Returns:
        Outputs in float32, ``[N, outputs]``, in the order of the batches; ``[0, 0]`` if there are no batches.
    """
    model.eval()
    outputs = []
    for batch in batches:
        with autocast(precision, device):
            out = model(batch.data)
        outputs.append((out if batch.rows is None else out[batch.rows]).float())
    if not outputs:  # all examples belong to other ranks
        return torch.empty(0, 0)
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)
