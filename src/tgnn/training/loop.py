"""The loop: every way of training reads the same from top to bottom."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tgnn.training.checkpoint import CHECKPOINT, Progress, load_checkpoint, save_checkpoint
from tgnn.training.config import Config
from tgnn.training.diagnostics import advice, branch_weights, gradient_norms, shares, watching
from tgnn.training.distributed.world import SINGLE_PROCESS, World
from tgnn.training.history import History
from tgnn.training.interrupts import Interrupted, catch_interrupts
from tgnn.training.loaders import BatchIterator, TrainingBatch, make_loader
from tgnn.training.metrics import Task
from tgnn.training.optim import Schedule, make_optimizer
from tgnn.training.prefetch import Timed
from tgnn.training.prepare import Prepared

logger = logging.getLogger("tgnn")

_VITALS_EVERY = 20  # epochs; they cost a little


class DivergedError(ValueError):
    """The loss is no longer a number."""

    exit_code = 1  # of the command line: nothing is wrong with what was typed


@dataclass(frozen=True)
class Epoch:
    """What is known after an epoch; ``line`` is its line of the history, ``outputs`` those of validation examples."""

    number: int
    loss: float
    score: float
    best: float
    best_epoch: int
    line: Mapping[str, Any]
    outputs: Tensor


def fit(
    model: torch.nn.Module,
    prepared: Prepared,
    config: Config,
    folder: Path | None,
    resume: bool = False,
    tell: Callable[[Epoch], None] = lambda epoch: None,
    world: World = SINGLE_PROCESS,
) -> tuple[dict[str, Tensor], Progress]:
    """Trains a model, and gives the weights of the epoch that was best on validation (in the first process).

    Args:
        model: On its device; its weights change.
        prepared: Data, split and task; the test labels are out of reach. A split without validation examples chooses
            the epoch by what is learned from.
        config: Of the run.
        folder: For history and checkpoints, which the first process writes; ``None``: nothing is written.
        resume: Whether to go on from the checkpoint there.
        tell: Called after every epoch, in the first process.
        world: The processes that train together; each calls this.
    """
    task, split, device = prepared.task, prepared.split, next(model.parameters()).device
    learn = make_loader(prepared.data, split.train, config.train, device, shuffle=True, world=world)
    judges = split.val if len(split.val) else split.train
    assert prepared.data.y is not None
    truth = prepared.data.y[judges].to(device)
    choose = make_loader(prepared.data, judges, config.train, device, shuffle=False, world=world)
    outputs = world.replica(model)
    optimizer = make_optimizer(model, config.optimizer)
    schedule = Schedule(optimizer, config.optimizer, config.train.epochs)
    precision = Precision(config.train.precision, device)

    best: dict[str, Tensor] = {}
    progress = Progress()
    if folder is not None and resume and world.same((folder / CHECKPOINT).exists):
        best, progress = load_checkpoint(folder, model, optimizer, world)
        schedule.restore(progress.schedule or schedule.state())
        precision.restore(progress.scaler)
    folder = folder if world.first else None
    history = History(folder, progress.epoch)
    started, saved = time.monotonic() - progress.seconds, time.monotonic()
    mixes = bool(branch_weights(model))
    nothing_seen = contextlib.nullcontext[dict[str, Tensor]]({})
    warned, every = False, min(_VITALS_EVERY, max(1, config.train.epochs // 10))

    with catch_interrupts() as stop, contextlib.closing(history):
        if world.any(stop.is_set()):  # before it has begun
            raise Interrupted
        while progress.epoch < config.train.epochs and progress.epoch - progress.best_epoch <= config.train.patience:
            epoch = progress.epoch
            # An epoch depends on nothing before but weights; each process drops entries of its own.
            _seed(config.train.seed * 1_000_003 + epoch + world.rank * 500_009, device)
            look = epoch % every == 0 and world.first

            schedule.before(epoch)
            model.train()
            pieces, began = Timed(learn(epoch)), time.monotonic()
            loss = one_epoch(model, outputs, task, pieces, optimizer, precision, config.optimizer.grad_clip, world)
            line: dict[str, Any] = {"epoch": epoch, "loss": loss, "learning": round(time.monotonic() - began, 4)}
            if look:
                line |= gradient_norms(model)
            watch: contextlib.AbstractContextManager[dict[str, Tensor]] = watching(model) if look else nothing_seen
            with watch as products:
                said = world.gather(infer_outputs(model, choose, precision))
                score, val_loss = world.same(partial(judge, task, said, truth))
            schedule.after(val_loss)

            if is_better(task, config.train.select_by, (score, val_loss), (progress.best_score, progress.best_loss)):
                progress.best_epoch, progress.best_score, progress.best_loss = epoch, score, val_loss
                best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
            line |= {
                "val_loss": val_loss,
                f"val_{task.metric}": score,
                **(branch_weights(model) if mixes else {}),
                **shares(products),
            }
            line |= {"waiting": pieces.share_waited(), "seconds": round(time.monotonic() - started, 4)}
            history.write(line)
            if look and not warned and epoch > 0 and (words := advice(line)):
                logger.warning(words)
                warned = True

            progress.epoch, progress.seconds = epoch + 1, time.monotonic() - started
            progress.schedule, progress.scaler = schedule.state(), precision.state()
            assert progress.best_score is not None
            if world.first:
                tell(Epoch(epoch, loss, score, progress.best_score, progress.best_epoch, line, said))
            ends = world.any(stop.is_set())
            if folder is not None and (ends or time.monotonic() - saved >= config.train.save_every):
                save_checkpoint(folder, model, best, optimizer, progress)
                saved = time.monotonic()
            if ends:
                raise Interrupted
    return best, progress


def _seed(number: int, device: torch.device) -> None:
    """For what the model draws. ``torch.manual_seed`` would do, but writes down its caller for devices not in use,
    which takes longer than a small layer.
    """
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)


def one_epoch(
    model: torch.nn.Module,
    outputs: Callable[[TrainingBatch], Tensor],
    task: Task,
    pieces: Iterable[TrainingBatch],
    optimizer: torch.optim.Optimizer,
    precision: Precision,
    clip: float | None,
    world: World = SINGLE_PROCESS,
) -> float:
    """One pass over what is learned from; gives the mean loss."""
    total, count = 0.0, 0
    for piece in pieces:
        optimizer.zero_grad(set_to_none=True)
        with precision.lowered():
            out = outputs(piece)
            loss = task.loss(out if piece.rows is None else out[piece.rows], piece.y)
        total += float(loss.detach()) * piece.share * piece.size
        count += piece.size
        extra = getattr(model, "extra_loss", None)  # some models learn from more than targets
        loss = loss if extra is None else loss + extra
        if world.size > 1:  # gradients are averaged over processes, and shall be those of the whole step
            loss = loss * (piece.share * world.size)
        precision.step(loss, optimizer, model, clip)
    total = world.total(total)
    if not math.isfinite(total):
        raise DivergedError(f"the loss became {total}: try a smaller optimizer.lr, or optimizer.grad_clip=1")
    return total / count


def judge(task: Task, outputs: Tensor, truth: Tensor) -> tuple[float, float]:
    """Metric and loss."""
    return task.score(outputs, truth), float(task.loss(task.shifted(outputs), truth))


@torch.no_grad()
def infer_outputs(model: torch.nn.Module, batches: BatchIterator, precision: Precision) -> Tensor:
    """What the model says."""
    model.eval()
    outputs = []
    for piece in batches(0):
        with precision.lowered():
            out = model(piece.data)
        outputs.append((out if piece.rows is None else out[piece.rows]).float())
    if not outputs:  # all is the share of other processes
        return torch.empty(0, 0)
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def is_better(task: Task, by: str, one: tuple[float, float], other: tuple[float | None, float | None]) -> bool:
    """Whether an epoch is better: by the metric and, where that is the same, by the loss; or by the loss alone.

    Args:
        task: Whose metric it is.
        by: ``"metric"`` or ``"loss"``.
        one: Metric and loss of an epoch.
        other: Of the best one before, if there is any.
    """
    (score, loss), (best_score, best_loss) = one, other
    if best_score is None or best_loss is None:
        return True
    if by == "loss" or score == best_score:
        return loss < best_loss or math.isnan(best_loss)
    return task.better(score, best_score)


class Precision:
    """Matrix products in fewer bits, where that is asked for.

    Args:
        name: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        device: Of the model.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self._dtype = None if name == "float32" else getattr(torch, name)
        self._device = device.type
        self._scaler = torch.amp.GradScaler(self._device, enabled=name == "float16")

    def state(self) -> dict[str, float] | None:
        """What a checkpoint must keep."""
        return self._scaler.state_dict() or None

    def restore(self, state: dict[str, float] | None) -> None:
        """Goes on from there."""
        if state is not None:
            self._scaler.load_state_dict(state)

    def lowered(self) -> contextlib.AbstractContextManager[Any]:
        """Around a forward pass."""
        if self._dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self._device, self._dtype)

    def step(self, loss: Tensor, optimizer: torch.optim.Optimizer, model: torch.nn.Module, clip: float | None) -> None:
        """Gradients of a loss, and a step along them."""
        if self._dtype is not torch.float16:
            loss.backward()  # type: ignore[no-untyped-call]
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            return
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        if clip is not None:
            self._scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        self._scaler.step(optimizer)
        self._scaler.update()
