"""Checkpoints: weights, best weights, optimizer state and progress of a run. Safetensors only, no pickle.

Resuming: :func:`tgnn.training.train.train_run` checks that configuration, data and split are unchanged, and
:class:`~tgnn.training.loop.Trainer` loads the checkpoint and continues with the next epoch.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from tgnn.training.distributed.world import SINGLE_PROCESS, World
from tgnn.utils.io import write_tensors


class CheckpointError(ValueError):
    """A file of weights is damaged or belongs to another model. The message says which."""


@dataclass
class Progress:
    """Progress of a run, stored in its checkpoint.

    Args:
        epoch: Number of finished epochs.
        best_epoch: Number of the best epoch on the validation set, from 0. -1: no epoch is finished.
        best_score: Validation metric of the best epoch.
        best_loss: Validation loss of the best epoch.
        schedule: State of the learning rate schedule.
        scaler: State of the gradient scaler of float16 training, else empty.
        seconds: Training time.
    """

    epoch: int = 0
    best_epoch: int = -1
    best_score: float | None = None
    best_loss: float | None = None
    schedule: dict[str, float] = field(default_factory=dict)
    scaler: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def read_tensors(path: Path, world: World = SINGLE_PROCESS) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the metadata of a file of :func:`~tgnn.utils.io.write_tensors`.

    Rank 0 reads the file and sends its bytes to the other ranks, which may not have the folder.
    """
    data = world.broadcast_bytes(path.read_bytes)
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return load(data), json.loads(header["__metadata__"]["about"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged, or not a file of tgnn: {error}") from error


def save_checkpoint(
    path: Path,
    model: torch.nn.Module,
    best_weights: dict[str, Tensor],
    optimizer: torch.optim.Optimizer,
    progress: Progress,
) -> None:
    """Write a checkpoint."""
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"best/{name}": tensor for name, tensor in best_weights.items()}
    for number, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"]):
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer/{number}/{key}"] = torch.as_tensor(value)
    write_tensors(path, tensors, asdict(progress))


def load_checkpoint(
    path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, world: World = SINGLE_PROCESS
) -> tuple[dict[str, Tensor], Progress]:
    """Restore the model and the optimizer from a checkpoint, and return the best weights and the progress.

    The number of processes may differ from that of the run that wrote the checkpoint.
    """
    tensors, progress = read_tensors(path, world)
    best_weights = _with_prefix(tensors, "best/")
    load_weights(model, _with_prefix(tensors, "model/"), path)
    is_fused = all(group.get("fused") for group in optimizer.param_groups)  # then the step counter is on the device
    for number, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"]):
        state = _with_prefix(tensors, f"optimizer/{number}/")
        if state:
            optimizer.state[parameter] = {
                key: t if key == "step" and not is_fused else t.to(parameter.device) for key, t in state.items()
            }
    return best_weights, Progress(**progress)


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def load_weights(model: torch.nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Load weights into a model. Raise :class:`CheckpointError` if their names or shapes are not those of the model."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        differences = "; ".join(line.strip().rstrip(". ") for line in str(error).splitlines()[1:])
        raise CheckpointError(f"{path} belongs to another model: {differences}.") from error
