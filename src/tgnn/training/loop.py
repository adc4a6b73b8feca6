"""The training loop: train an epoch, validate, keep the best weights, save a checkpoint, stop early."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tgnn.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from tgnn.training.config import Config
from tgnn.training.diagnostics import advice, branch_weights, gradient_norms, observe_products, product_statistics
from tgnn.training.distributed.world import SINGLE_PROCESS, World
from tgnn.training.inference import autocast, infer
from tgnn.training.interrupts import Interrupted, catch_interrupts
from tgnn.training.loaders import TimedBatches, TrainingBatch, make_inference_batches, make_training_loader
from tgnn.training.metrics import Task, is_better_epoch
from tgnn.training.optim import LearningRateSchedule, make_optimizer
from tgnn.training.prepare import Prepared
from tgnn.training.run_folder import HistoryWriter, RunFolder

logger = logging.getLogger("tgnn")

_DIAGNOSE_EVERY = 20
"""Epochs between two measurements of gradients and products, at most."""


class DivergedError(ValueError):
    """The training loss is NaN or infinite."""

    exit_code = 1  # of the command: the options are valid, but training failed


@dataclass(frozen=True)
class Epoch:
    """The result of an epoch, for ``on_epoch`` callbacks.

    Args:
        number: Number of the epoch, from 0.
        loss: Mean training loss.
        score: Validation metric.
        best_score: Validation metric of the best epoch.
        best_epoch: Number of the best epoch, from 0.
        record: The epoch's line of ``history.jsonl``.
        outputs: Outputs of the model for the validation set.
    """

    number: int
    loss: float
    score: float
    best_score: float
    best_epoch: int
    record: Mapping[str, Any]
    outputs: Tensor


OnEpoch = Callable[[Epoch], None]


def fit(
    model: torch.nn.Module,
    prepared: Prepared,
    config: Config,
    folder: RunFolder | None = None,
    resume: bool = False,
    on_epoch: OnEpoch = lambda epoch: None,
    world: World = SINGLE_PROCESS,
) -> tuple[dict[str, Tensor], Progress]:
    """Train a model; see :class:`Trainer` and :meth:`Trainer.fit`."""
    return Trainer(model, prepared, config, world).fit(folder, resume, on_epoch)


class Trainer:
    """Train a model on the training set and select the best epoch on the validation set.

    Args:
        model: On its device. Its weights change.
        prepared: Data, split and task, without test labels. A split without validation set selects the epoch on the
            training set.
        config: Configuration of the run.
        world: The processes that train together. Each of them creates a trainer.
    """

    def __init__(
        self, model: torch.nn.Module, prepared: Prepared, config: Config, world: World = SINGLE_PROCESS
    ) -> None:
        data, split = prepared.data, prepared.split
        assert data.y is not None
        self.model, self.config, self.world, self.task = model, config, world, prepared.task
        self.device = next(model.parameters()).device
        self.training_loader = make_training_loader(data, split.train, config.train, self.device, world)
        validation = split.val if len(split.val) else split.train
        self.val_batches = make_inference_batches(data, validation, config.train.batch_size, self.device, world)
        self.val_targets = data.y[validation].to(self.device)
        self.forward = world.data_parallel(model)
        self.optimizer = make_optimizer(model, config.optimizer)
        self.schedule = LearningRateSchedule(self.optimizer, config.optimizer, config.train.epochs)
        self.precision = MixedPrecision(config.train.precision, self.device)
        self.early_stopping = EarlyStopping(prepared.task.metric, config.train.select_by, config.train.patience)
        self.progress = Progress()
        self.best_weights: dict[str, Tensor] = {}
        self._has_branch_weights = bool(branch_weights(model))
        self._has_warned = False
        self._started = time.monotonic()

    def fit(
        self, folder: RunFolder | None = None, resume: bool = False, on_epoch: OnEpoch = lambda epoch: None
    ) -> tuple[dict[str, Tensor], Progress]:
        """Train until early stopping or the maximum number of epochs.

        Args:
            folder: Folder for history and checkpoints, written by rank 0. ``None``: nothing is written.
            resume: Whether to continue from the checkpoint in the folder.
            on_epoch: Called after every epoch, on rank 0.

        Returns:
            The weights of the best epoch, and the progress of the run.
        """
        if folder is not None and resume and self.world.broadcast(folder.checkpoint_path.exists):
            self._load_checkpoint(folder)
        folder = folder if self.world.is_rank_zero else None
        progress, saved = self.progress, time.monotonic()
        self._started = saved - progress.seconds
        with catch_interrupts() as stop, contextlib.closing(HistoryWriter(folder, progress.epoch)) as history:
            if self.world.any(stop.is_set()):
                raise Interrupted
            while progress.epoch < self.config.train.epochs and not self.early_stopping.should_stop(progress):
                epoch = self._run_epoch()
                history.write(epoch.record)
                self._warn_about_products(epoch)
                self._advance()
                if self.world.is_rank_zero:
                    on_epoch(epoch)
                interrupted = self.world.any(stop.is_set())
                is_due = time.monotonic() - saved >= self.config.train.save_every
                if folder is not None and (interrupted or is_due):
                    self._save_checkpoint(folder)
                    saved = time.monotonic()
                if interrupted:
                    raise Interrupted
        return self.best_weights, progress

    # ---- an epoch ----------------------------------------------------------------------------------------------

    def _run_epoch(self) -> Epoch:
        """Train an epoch, validate, and keep the weights if it is the best one."""
        number, progress = self.progress.epoch, self.progress
        self._seed(number)
        self.schedule.set_learning_rate(number)
        record: dict[str, Any] = {"epoch": number}

        started = time.monotonic()
        batches = TimedBatches(self.training_loader(number))
        self.model.train()
        record["loss"] = train_epoch(
            *(self.model, self.forward, self.task, batches, self.optimizer, self.precision),
            grad_clip=self.config.optimizer.grad_clip,
            world=self.world,
        )
        record["learning"] = round(time.monotonic() - started, 4)
        if self._is_diagnosed(number):
            record |= gradient_norms(self.model)

        products: dict[str, Tensor] = {}
        with observe_products(self.model, products) if self._is_diagnosed(number) else contextlib.nullcontext():
            outputs, score, loss = self._validate()
        self.schedule.observe_validation_loss(loss)
        if self.early_stopping.update(progress, score, loss):
            self.best_weights = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

        record |= {"val_loss": loss, f"val_{self.task.metric}": score}
        record |= branch_weights(self.model) if self._has_branch_weights else {}
        record |= product_statistics(products)
        record |= {"waiting": batches.waiting_fraction, "seconds": round(time.monotonic() - self._started, 4)}
        assert progress.best_score is not None
        return Epoch(number, record["loss"], score, progress.best_score, progress.best_epoch, record, outputs)

    def _seed(self, epoch: int) -> None:
        """Seed dropout by epoch and rank, so that an epoch depends on the weights before it and on nothing else.

        ``torch.manual_seed`` would do the same. It also records its caller for devices that are not in use, which takes
        longer than a small layer.
        """
        seed = self.config.train.seed * 1_000_003 + epoch + self.world.rank * 500_009
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _validate(self) -> tuple[Tensor, float, float]:
        """Compute the outputs, the metric and the loss of the validation set. Rank 0 computes them for all ranks."""
        outputs = infer(self.model, self.val_batches, self.config.train.precision, self.device)
        outputs = self.world.all_gather(outputs)
        score, loss = self.world.broadcast(lambda: self.task.evaluate(outputs, self.val_targets))
        return outputs, score, loss

    def _is_diagnosed(self, epoch: int) -> bool:
        every = min(_DIAGNOSE_EVERY, max(1, self.config.train.epochs // 10))
        return self.world.is_rank_zero and epoch % every == 0

    def _warn_about_products(self, epoch: Epoch) -> None:
        if self._has_warned or epoch.number == 0 or not self._is_diagnosed(epoch.number):
            return
        if (message := advice(epoch.record)) is not None:
            logger.warning(message)
            self._has_warned = True

    # ---- checkpoints -------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        self.progress.epoch += 1
        self.progress.seconds = time.monotonic() - self._started
        self.progress.schedule, self.progress.scaler = self.schedule.state_dict(), self.precision.state_dict()

    def _save_checkpoint(self, folder: RunFolder) -> None:
        save_checkpoint(folder.checkpoint_path, self.model, self.best_weights, self.optimizer, self.progress)

    def _load_checkpoint(self, folder: RunFolder) -> None:
        self.best_weights, self.progress = load_checkpoint(
            folder.checkpoint_path, self.model, self.optimizer, self.world
        )
        self.schedule.load_state_dict(self.progress.schedule or self.schedule.state_dict())
        self.precision.load_state_dict(self.progress.scaler)


class EarlyStopping:
    """Select the best epoch on the validation set, and stop after some epochs without improvement.

    Args:
        metric: Name of the validation metric.
        select_by: ``"metric"`` or ``"loss"``, by which the best epoch is selected.
        patience: Number of epochs without improvement after which training stops.
    """

    def __init__(self, metric: str, select_by: str, patience: int) -> None:
        self.metric, self.select_by, self.patience = metric, select_by, patience

    def update(self, progress: Progress, score: float, loss: float) -> bool:
        """Record the current epoch if it is the best one, and return whether it is."""
        best = (progress.best_score, progress.best_loss)
        if not is_better_epoch(self.metric, self.select_by, (score, loss), best):
            return False
        progress.best_epoch, progress.best_score, progress.best_loss = progress.epoch, score, loss
        return True

    def should_stop(self, progress: Progress) -> bool:
        """Whether ``patience`` epochs in a row brought no improvement."""
        return progress.epoch - progress.best_epoch > self.patience


def train_epoch(
    model: torch.nn.Module,
    forward: Callable[[TrainingBatch], Tensor],
    task: Task,
    batches: Iterable[TrainingBatch],
    optimizer: torch.optim.Optimizer,
    precision: MixedPrecision,
    grad_clip: float | None = None,
    world: World = SINGLE_PROCESS,
) -> float:
    """Take one optimizer step per batch and return the mean loss.

    Args:
        model: The model. A model with an attribute ``extra_loss`` adds it to the loss.
        forward: Forward pass in training, from :meth:`~tgnn.training.distributed.world.World.data_parallel`.
        task: Defines the loss.
        batches: Batches of the training set.
        optimizer: Optimizer of the model.
        precision: Precision of the forward pass.
        grad_clip: Maximum norm of the gradient. ``None``: gradients are not clipped.
        world: The processes that share each batch.
    """
    total, count = 0.0, 0
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        with precision.autocast():
            out = forward(batch)
            loss = task.loss(out if batch.rows is None else out[batch.rows], batch.y)
        total += float(loss.detach()) * batch.weight * batch.size
        count += batch.size
        extra_loss = getattr(model, "extra_loss", None)
        loss = loss if extra_loss is None else loss + extra_loss
        if world.size > 1:  # DDP averages gradients over ranks; this makes them those of the whole batch
            loss = loss * (batch.weight * world.size)
        precision.step(loss, optimizer, model, grad_clip)
    total = world.all_reduce(total)
    if not math.isfinite(total):
        raise DivergedError(f"The training loss became {total}. Try a smaller optimizer.lr, or optimizer.grad_clip=1.")
    return total / count


class MixedPrecision:
    """Forward and backward passes in float32, bfloat16 or float16. Gradients of float16 are scaled.

    Args:
        name: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        device: Device of the model.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self._scaler = torch.amp.GradScaler(device.type, enabled=name == "float16")

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context of a forward pass."""
        return autocast(self.name, self.device)

    def step(
        self, loss: Tensor, optimizer: torch.optim.Optimizer, model: torch.nn.Module, grad_clip: float | None
    ) -> None:
        """Backpropagate a loss and take an optimizer step."""
        if self.name != "float16":
            loss.backward()  # type: ignore[no-untyped-call]
            if grad_clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
            optimizer.step()
            return
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        if grad_clip is not None:
            self._scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        self._scaler.step(optimizer)
        self._scaler.update()

    def state_dict(self) -> dict[str, float] | None:
        """Return the state of the gradient scaler for a checkpoint."""
        return self._scaler.state_dict() or None

    def load_state_dict(self, state: dict[str, float] | None) -> None:
        """Restore the state of the gradient scaler."""
        if state is not None:
            self._scaler.load_state_dict(state)
