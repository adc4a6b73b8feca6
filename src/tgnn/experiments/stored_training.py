"""Networks of measured experiments that are trained once and stored, and the search for their learning rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from tgnn.training.checkpoint import load_weights, read_tensors
from tgnn.utils.io import write_json, write_tensors
from tgnn.utils.read import read_content, validate

SEARCH_SEED = 1000
"""Seed of the networks of a search. No run of a table has it."""


def train_once(net: torch.nn.Module, path: Path, train: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Train a network and store it, or read the stored weights into it.

    Args:
        net: The network, changed in place.
        path: File of the weights. While it is written, other processes wait.
        train: Trains the network in place and returns what to store with the weights.

    Returns:
        The values that ``train`` returned.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        if not path.exists():
            results = train()
            write_tensors(path, net.state_dict(), results)
    stored = read_tensors(path)
    load_weights(net, stored.tensors, path)
    metadata: dict[str, Any] = stored.metadata
    return metadata


def select_learning_rate(path: Path, rates: Iterable[float], loss: Callable[[float], float]) -> float:
    """Return the learning rate with the lowest validation loss.

    Args:
        path: File of the losses. Losses that it contains are not computed again.
        rates: Learning rates to compare.
        loss: Trains a new network with a learning rate and returns its validation loss.
    """
    losses = validate(dict[str, float], read_content(path), path) if path.exists() else {}
    for rate in rates:
        if str(rate) not in losses:
            losses[str(rate)] = loss(rate)
            write_json(path, losses)
    return float(min(losses, key=lambda rate: losses[rate]))
