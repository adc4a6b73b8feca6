"""Everything to go on from: weights, the best weights so far, the optimizer's memory. Safetensors only, no pickle."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save_file
from torch import Tensor

from tgnn.training.distributed.world import SINGLE_PROCESS, World

CHECKPOINT, MODEL = "checkpoint.safetensors", "model.safetensors"


class CheckpointError(ValueError):
    """A file of weights that does not fit; the text says how."""


@dataclass
class Progress:
    """How far a run is.

    Args:
        epoch: How many are done.
        best_epoch: Which one was best on validation.
        best_score: Its metric.
        best_loss: Its loss.
        schedule: Of the step size.
        scaler: Of half-precision gradients.
        seconds: Spent training.
    """

    epoch: int = 0
    best_epoch: int = -1
    best_score: float | None = None
    best_loss: float | None = None
    schedule: dict[str, float] | None = None
    scaler: dict[str, float] | None = None
    seconds: float = 0.0


def write_tensors(path: Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Whole or not at all: written under another name, flushed to the disk, moved into place."""
    part = path.with_name(f".{path.name}.part")
    whole = {name: t.detach().contiguous().cpu() for name, t in tensors.items()}
    try:
        save_file(whole, part, {"about": json.dumps(about)})
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except SafetensorError as error:
        raise OSError(f"{path} could not be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors, and what was said of them."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: the run was not finished, or part of its folder was deleted")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["about"])  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} is damaged, or not a file of tgnn: {error}") from error


def _read_for_all(path: Path, world: World) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """As :func:`read_tensors`; the first process has the file, and sends it to the others as it is."""
    if world.size == 1:
        return read_tensors(path)
    data = world.read(path.read_bytes)
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return load(data), json.loads(header["__metadata__"]["about"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged, or not a file of tgnn: {error}") from error


def save_checkpoint(
    folder: Path, model: torch.nn.Module, best: dict[str, Tensor], optimizer: torch.optim.Optimizer, progress: Progress
) -> None:
    """Writes a checkpoint into a run's folder."""
    tensors = {f"model/{name}": t for name, t in model.state_dict().items()}
    tensors |= {f"best/{name}": t for name, t in best.items()}
    for number, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"]):
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer/{number}/{key}"] = torch.as_tensor(value)
    write_tensors(folder / CHECKPOINT, tensors, asdict(progress))


def load_checkpoint(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, world: World = SINGLE_PROCESS
) -> tuple[dict[str, Tensor], Progress]:
    """Puts a checkpoint back: into the model, the optimizer, and what is returned (best weights and progress).

    Args:
        folder: Of the run; where there are several processes, that of the first.
        model: To change.
        optimizer: To change.
        world: The processes, however many there were when it was written.
    """
    tensors, about = _read_for_all(folder / CHECKPOINT, world)
    restore(model, {n.removeprefix("model/"): t for n, t in tensors.items() if n.startswith("model/")}, folder)
    fused = all(group.get("fused") for group in optimizer.param_groups)  # then the count of steps lies with the weights
    for number, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"]):
        prefix = f"optimizer/{number}/"
        state = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        if state:
            optimizer.state[parameter] = {
                key: t if key == "step" and not fused else t.to(parameter.device) for key, t in state.items()
            }
    best = {n.removeprefix("best/"): t for n, t in tensors.items() if n.startswith("best/")}
    return best, Progress(**about)


def restore(model: torch.nn.Module, weights: dict[str, Tensor], where: Path) -> None:
    """Loads weights; an error names the first that does not fit."""
    wanted = model.state_dict()
    for name, tensor in wanted.items():
        if name not in weights:
            raise CheckpointError(f"{where} is of another model: it has no weight {name}")
        if weights[name].shape != tensor.shape:
            found, needed = list(weights[name].shape), list(tensor.shape)
            raise CheckpointError(f"{where} is of another model: {name} has shape {found}, and {needed} is needed")
    if more := sorted(set(weights) - set(wanted)):
        raise CheckpointError(f"{where} is of another model: there is no place for its weight {more[0]}")
    model.load_state_dict(weights)
