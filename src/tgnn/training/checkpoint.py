"""Checkpoints: weights, best weights, optimizer state and progress of a run. Safetensors only, no pickle.

Resuming: :func:`tgnn.training.train.train_run` checks that configuration, data and split are unchanged, and
:class:`~tgnn.training.loop.Trainer` loads the checkpoint and continues with the next epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from tgnn.training.distributed.world import SINGLE_PROCESS, World
from tgnn.utils.io import digest_tensors, write_tensors
from tgnn.utils.read import STRICT, check_regular, parse_json, validate

_AnyFloat = Annotated[float, Field(allow_inf_nan=True)]


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

    __pydantic_config__ = STRICT

    epoch: NonNegativeInt = 0
    best_epoch: Annotated[int, Field(ge=-1)] = -1
    best_score: _AnyFloat | None = None
    best_loss: _AnyFloat | None = None
    schedule: dict[str, _AnyFloat] = field(default_factory=dict)
    scaler: dict[str, float] = field(default_factory=dict)
    seconds: NonNegativeFloat = 0.0


@dataclass(frozen=True)
class StoredTensors:
    """Content of a file of :func:`~tgnn.utils.io.write_tensors`, whose digest was verified."""

    tensors: dict[str, Tensor]
    metadata: Any
    digest: str


def read_tensors(path: Path, world: World = SINGLE_PROCESS) -> StoredTensors:
    """Read a file of :func:`~tgnn.utils.io.write_tensors`. A file without the right digest is damaged.

    Rank 0 reads the file and sends its bytes to the other ranks, which may not have the folder.
    """

    def read() -> bytes:
        check_regular(path)
        return path.read_bytes()

    data = world.broadcast_bytes(read)
    try:
        tensors = load(data)
        about = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        if digest_tensors(tensors, about["about"]) != about["sha256"]:
            raise ValueError("its tensors or metadata have changed since they were written (wrong SHA-256)")
        return StoredTensors(tensors, parse_json(about["about"]), about["sha256"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else error
        raise CheckpointError(f"{path} is damaged, or not a file of tgnn: {problem}") from error


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
    stored = read_tensors(path, world)
    metadata = stored.metadata if isinstance(stored.metadata, dict) else {}
    if missing := [item.name for item in fields(Progress) if item.name not in metadata]:
        raise CheckpointError(f"{path} is not a checkpoint: its metadata has no {missing[0]}.")
    progress = validate(Progress, metadata, path)
    best_weights, weights = (_with_prefix(stored.tensors, prefix) for prefix in ("best/", "model/"))
    if progress.best_epoch >= 0 or best_weights:
        load_weights(model, best_weights, path)  # which only checks that they fit
    load_weights(model, weights, path)
    is_fused = all(group.get("fused") for group in optimizer.param_groups)  # then the step counter is on the device
    states = 0
    for number, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"]):
        state = _with_prefix(stored.tensors, f"optimizer/{number}/")
        if not state:  # a parameter without gradients
            continue
        shapes = {"step": torch.Size(), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}
        if {key: tensor.shape for key, tensor in state.items()} != shapes:
            raise CheckpointError(f"{path} is damaged: the optimizer state of parameter {number} is incomplete.")
        states += 1
        optimizer.state[parameter] = {
            key: t if key == "step" and not is_fused else t.to(parameter.device) for key, t in state.items()
        }
    if progress.epoch <= progress.best_epoch or not states:
        raise CheckpointError(f"{path} is damaged: epoch, best_epoch and the optimizer state contradict each other.")
    return best_weights, progress


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def load_weights(model: torch.nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Load weights into a model. Raise :class:`CheckpointError` unless they are finite and fit the model."""
    check_finite(weights, path)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        differences = "; ".join(line.strip().rstrip(". ") for line in str(error).splitlines()[1:])
        raise CheckpointError(f"{path} belongs to another model: {differences}.") from error


def check_finite(weights: Mapping[str, Tensor], source: Path | str) -> None:
    """Raise :class:`CheckpointError` if a weight is NaN or infinite."""
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise CheckpointError(f"{source} is damaged: {name} contains NaN or infinity.")
