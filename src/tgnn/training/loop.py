"""The training loop: train an epoch, validate, keep the best weights, save a checkpoint, stop early.

:func:`infer` computes the outputs of a model for validation, test, ``evaluate``, ``predict`` and estimators.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tgnn.training.checkpoint import CheckpointError, Progress, load_checkpoint, save_checkpoint
from tgnn.training.config import Config
from tgnn.training.diagnostics import advice, branch_weights, gradient_norms, observe_products, product_statistics
from tgnn.training.distributed.world import SINGLE_PROCESS, World
from tgnn.training.interrupts import Interrupted, catch_interrupts
from tgnn.training.loaders import (
    InferenceBatch,
    TimedBatches,
    TrainingBatch,
    make_inference_batches,
    make_training_loader,
)
from tgnn.training.metrics import is_better_epoch
from tgnn.training.optim import LearningRateSchedule, make_optimizer
from tgnn.training.prepare import Prepared
from tgnn.training.run_files import history_line
from tgnn.training.run_folder import RunFolder
from tgnn.utils.io import named_errors

logger = logging.getLogger("tgnn")

_DIAGNOSE_EVERY = 20
"""Maximum number of epochs between two measurements of gradient norms and products."""


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


def autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Return the context of a forward pass in ``"float32"``, ``"bfloat16"`` or ``"float16"``."""
    if precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, getattr(torch, precision))


@torch.no_grad()
def infer(model: torch.nn.Module, batches: Iterable[InferenceBatch], precision: str, device: torch.device) -> Tensor:
    """Switch a model to evaluation mode and compute its outputs for the batches of ``make_inference_batches``.

    Returns:
        Outputs in float32, ``[N, outputs]``, in the order of the batches; ``[0, 0]`` if there are no batches.
    """
    model.eval()
    outputs = []
    for data, rows in batches:
        with autocast(precision, device):
            out = model(data)
        outputs.append((out if rows is None else out[rows]).float())
    if not outputs:  # all examples belong to other ranks
        return torch.empty(0, 0)
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def check_outputs(outputs: Tensor) -> None:
    """Raise a ``ValueError`` if an output of a model is NaN or infinite."""
    finite = outputs.isfinite().all(1)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0])
        raise ValueError(f"The outputs of the model for example {row} are not finite. Check the features of the data.")


def check_score(name: str, metric: str, score: float | None) -> None:
    """Raise :class:`DivergedError` if the metric of a set is NaN or infinite."""
    if score is None or not math.isfinite(score):
        raise DivergedError(
            f"The {name} {metric} is {score}. Try a smaller optimizer.lr, or another unit of the targets."
        )


def infer_test_set(
    model: torch.nn.Module, prepared: Prepared, config: Config, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Compute the outputs of a model on its device for the test set, and read the test labels.

    This is the only function that reads the test labels.
    """
    batches = make_inference_batches(prepared.data, prepared.split.test, config.train.batch_size, device)
    outputs = infer(model, batches, config.train.precision, device)
    check_outputs(outputs)
    return outputs, prepared.test_labels.read().to(outputs.device)


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
        self.training_loader = make_training_loader(
            data, split.train, config.train, self.device, world, prepared.sample_weight
        )
        validation = split.val if len(split.val) else split.train
        self.val_batches = make_inference_batches(data, validation, config.train.batch_size, self.device, world)
        self.val_targets = data.y[validation].to(self.device)
        self.forward = world.data_parallel(model)
        self.optimizer = make_optimizer(model, config.optimizer)
        self.schedule = LearningRateSchedule(self.optimizer, config.optimizer, config.train.epochs)
        self.precision = config.train.precision
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.precision == "float16")
        self.progress = Progress()
        self.best_weights: dict[str, Tensor] = {}
        self._has_branch_weights = bool(branch_weights(model))
        self._has_warned = False
        self._started = time.monotonic()

    def fit(
        self,
        folder: RunFolder | None = None,
        resume: bool = False,
        on_epoch: OnEpoch = lambda epoch: None,
        save_last: bool = False,
    ) -> tuple[dict[str, Tensor], Progress]:
        """Train until early stopping or the maximum number of epochs.

        Args:
            folder: Folder for history and checkpoints, written by rank 0. ``None``: nothing is written.
            resume: Whether to continue from the checkpoint in the folder.
            on_epoch: Called after every epoch, on rank 0.
            save_last: Whether to save a checkpoint of the last epoch, from which the run can be extended.

        Returns:
            The weights of the best epoch, and the progress of the run.
        """
        if folder is not None and resume and self.world.broadcast(folder.checkpoint_path.exists):
            self._load_checkpoint(folder.checkpoint_path)
        folder = folder if self.world.is_rank_zero else None
        progress, saved = self.progress, time.monotonic()
        self._started = saved - progress.seconds
        open_history = contextlib.nullcontext() if folder is None else folder.open_history(progress.epoch)
        with catch_interrupts() as stop, open_history as history:
            if self.world.any(stop.is_set()):
                raise Interrupted
            while progress.epoch < self.config.train.epochs and not self._should_stop_early():
                epoch = self._run_epoch()
                if history is not None:
                    with named_errors(history.name):
                        history.write(history_line(epoch.record))
                self._warn_about_products(epoch)
                progress.epoch += 1
                progress.seconds = time.monotonic() - self._started
                if self.world.is_rank_zero:
                    on_epoch(epoch)
                interrupted = self.world.any(stop.is_set())
                is_due = time.monotonic() - saved >= self.config.train.save_every
                if folder is not None and (interrupted or is_due):
                    self._save_checkpoint(folder.checkpoint_path)
                    saved = time.monotonic()
                if interrupted:
                    raise Interrupted
        if folder is not None and save_last:
            self._save_checkpoint(folder.checkpoint_path)
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
        record["loss"] = self._train(batches)
        record["learning"] = round(time.monotonic() - started, 4)
        if self._is_diagnosed(number):
            record |= gradient_norms(self.model)

        products: dict[str, Tensor] = {}
        with observe_products(self.model, products) if self._is_diagnosed(number) else contextlib.nullcontext():
            outputs, score, loss = self._validate()
        self.schedule.observe_validation_loss(loss)
        best = progress.best_score, progress.best_loss
        if is_better_epoch(self.task.metric, self.config.train.select_by, (score, loss), best):
            progress.best_epoch, progress.best_score, progress.best_loss = number, score, loss
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

    def _train(self, batches: Iterable[TrainingBatch]) -> float:
        """Take one optimizer step per batch and return the mean loss."""
        self.model.train()
        total, count = 0.0, 0
        for batch in batches:
            self.optimizer.zero_grad(set_to_none=True)
            with autocast(self.precision, self.device):
                out = self.forward(batch)
                out = out if batch.rows is None else out[batch.rows]
                loss = self.task.loss(out, batch.y, batch.sample_weight)
            total += float(loss.detach()) * batch.weight * batch.size
            count += batch.size
            extra_loss = getattr(self.model, "extra_loss", None)  # the only loss of node2vec's embedding
            loss = loss if extra_loss is None else loss + extra_loss
            if self.world.size > 1:  # DDP averages gradients over ranks; this makes them those of the whole batch
                loss = loss * (batch.weight * self.world.size)
            self._step(loss)
        total = self.world.all_reduce(total)
        if not math.isfinite(total):
            raise DivergedError(
                f"The training loss became {total}. Try a smaller optimizer.lr, or optimizer.grad_clip=1."
            )
        return total / count

    def _step(self, loss: Tensor) -> None:
        """Backpropagate a loss and take an optimizer step. The scaler does nothing unless the precision is float16."""
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        if (grad_clip := self.config.optimizer.grad_clip) is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), grad_clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def _validate(self) -> tuple[Tensor, float, float]:
        """Compute the outputs, the metric and the loss of the validation set. Rank 0 computes them for all ranks."""
        outputs = infer(self.model, self.val_batches, self.precision, self.device)
        outputs = self.world.all_gather(outputs)
        score, loss = self.world.broadcast(lambda: self.task.evaluate(outputs, self.val_targets))
        return outputs, score, loss

    def _should_stop_early(self) -> bool:
        """Whether ``train.patience`` epochs in a row brought no improvement on the validation set."""
        return self.progress.epoch - self.progress.best_epoch > self.config.train.patience

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

    def _save_checkpoint(self, path: Path) -> None:
        self.progress.schedule, self.progress.scaler = self.schedule.state_dict(), self.scaler.state_dict()
        save_checkpoint(path, self.model, self.best_weights, self.optimizer, self.progress)

    def _load_checkpoint(self, path: Path) -> None:
        self.best_weights, self.progress = load_checkpoint(path, self.model, self.optimizer, self.world)
        for name in ("schedule", "scaler"):
            state, part = getattr(self.progress, name), getattr(self, name)
            if state.keys() != part.state_dict().keys():
                raise CheckpointError(f"{path} is damaged: {name} must have the keys {', '.join(part.state_dict())}.")
            part.load_state_dict(state)
