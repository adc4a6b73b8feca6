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
from safetensors import SafetensorError, safe_open
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


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the metadata of a file of :func:`~tgnn.utils.io.write_tensors`."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: the run was not finished, or part of its folder was deleted.")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["about"])  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise _damaged(path, error) from error


def _read_tensors_on_all_ranks(path: Path, world: World) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a file on rank 0 and send its bytes to the other ranks, which may not have the folder."""
    if world.size == 1:
        return read_tensors(path)
    data = world.broadcast_bytes(path.read_bytes)
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return load(data), json.loads(header["__metadata__"]["about"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{path} is damaged, or not a file of tgnn: {error}")


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

    Args:
        path: The checkpoint. With several processes, rank 0 reads it.
        model: Its weights are replaced.
        optimizer: Its state is replaced.
        world: The processes. Their number may differ from the one that wrote the checkpoint.
    """
    tensors, progress = _read_tensors_on_all_ranks(path, world)
    best_weights = _with_prefix(tensors, "best/")
    check_weights(model, best_weights, path)
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
    """Load weights into a model; see :func:`check_weights`."""
    check_weights(model, weights, path)
    model.load_state_dict(weights)


def check_weights(model: torch.nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Raise :class:`CheckpointError` unless weights have the names and shapes of a model's parameters.

    Args:
        model: The model.
        weights: Weights by name.
        path: File of the weights, for the message.
    """
    expected = model.state_dict()
    for name, tensor in expected.items():
        if name not in weights:
            raise CheckpointError(f"{path} belongs to another model: it has no weight {name}.")
        if weights[name].shape != tensor.shape:
            raise CheckpointError(
                f"{path} belongs to another model: {name} has shape {list(weights[name].shape)}, "
                f"but the model expects {list(tensor.shape)}."
            )
    if unexpected := sorted(set(weights) - set(expected)):
        raise CheckpointError(f"{path} belongs to another model, which has no weight {unexpected[0]}.")
