"""Ensembles of estimators: several networks with other seeds that predict as one."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.models import DataShape
from tgnn.training.checkpoint import Progress
from tgnn.training.config import Config
from tgnn.training.loop import OnEpoch, Trainer
from tgnn.training.prepare import Prepared, make_model, set_num_threads


class Ensemble(torch.nn.Module):
    """Average of several networks: the mean of numbers, or the logarithm of the mean class probabilities.

    Args:
        members: The networks.
        target: ``"classification"`` or ``"regression"``.
    """

    def __init__(self, members: Sequence[torch.nn.Module], target: str) -> None:
        super().__init__()
        self.members, self.target = torch.nn.ModuleList(members), target

    def forward(self, data: Data) -> Tensor:
        """Compute the outputs of the ensemble, ``[N, outputs]``."""
        outputs = torch.stack([member(data).float() for member in self.members])
        if self.target == "regression":
            return outputs.mean(0)
        return outputs.log_softmax(-1).logsumexp(0) - math.log(len(outputs))


def train_members(
    config: Config, prepared: Prepared, size: int, device: torch.device, on_epoch: OnEpoch
) -> tuple[torch.nn.Module, Progress]:
    """Train the network of an estimator, or several, and keep the best weights of each.

    Returns:
        The network or the ensemble, and the progress of the first network.
    """
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise ValueError(f"n_estimators is {size!r}, but must be a positive integer")
    results = []
    with _restore_torch_state(config, device):
        model = make_estimator_model(config, prepared.shape, prepared.task.target, int(size)).to(device)
        for number, member in enumerate(getattr(model, "members", [model])):
            member_config = config.replace("train", seed=config.train.seed + number)
            results.append(Trainer(member, prepared, member_config).fit(on_epoch=on_epoch))
            member.load_state_dict(results[-1][0])
    return model, results[0][1]


def make_estimator_model(config: Config, shape: DataShape, target: str, size: int) -> torch.nn.Module:
    """Build the network of an estimator, or an ensemble of ``size`` networks with consecutive seeds."""
    members = [make_model(config.replace("train", seed=config.train.seed + i), shape) for i in range(size)]
    return members[0] if size == 1 else Ensemble(members, target)


@contextlib.contextmanager
def _restore_torch_state(config: Config, device: torch.device) -> Iterator[None]:
    """Restore torch's random state and number of threads after training."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        set_num_threads(config)
        try:
            yield
        finally:
            if config.train.threads is not None:
                torch.set_num_threads(threads)
