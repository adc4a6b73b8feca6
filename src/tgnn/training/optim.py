"""Optimizer and learning rate schedule. The product branch is a parameter group with its own learning rate."""

from __future__ import annotations

import math

import torch
from torch.nn import Parameter

from tgnn.nn import CPAggregation
from tgnn.training.config import OptimizerConfig

_PLATEAU_PATIENCE = 10
"""Epochs without a lower validation loss after which ``plateau`` halves the learning rate."""


def split_parameters(model: torch.nn.Module) -> tuple[list[Parameter], list[Parameter]]:
    """Return the parameters of every :class:`~tgnn.CPAggregation` (the product branch), after all others."""
    product = {id(p) for module in model.modules() if isinstance(module, CPAggregation) for p in module.parameters()}
    parameters = list(model.parameters())
    return [p for p in parameters if id(p) not in product], [p for p in parameters if id(p) in product]


def make_optimizer(model: torch.nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """Create Adam or AdamW. The product branch is the second parameter group."""
    low_order, high_order = split_parameters(model)
    cp_lr = config.lr if config.cp_lr is None else config.cp_lr
    cp_weight_decay = config.weight_decay if config.cp_weight_decay is None else config.cp_weight_decay
    groups = [
        {"params": low_order, "lr": config.lr, "weight_decay": config.weight_decay},
        {"params": high_order, "lr": cp_lr, "weight_decay": cp_weight_decay},
    ]
    optimizer = torch.optim.Adam if config.name == "adam" else torch.optim.AdamW
    can_fuse = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in model.parameters())
    return optimizer([group for group in groups if group["params"]], fused=can_fuse)


class LearningRateSchedule:
    """Constant, cosine or plateau learning rate, with linear warm-up.

    The schedule multiplies the learning rate of every parameter group by the same factor. Its state is three numbers,
    which a checkpoint stores as JSON.

    The schedulers of ``torch.optim.lr_scheduler`` are not used. ``SequentialLR`` does not accept ``ReduceLROnPlateau``.
    ``LambdaLR`` needs a second optimizer for ``ReduceLROnPlateau``, and it warns when the gradient scaler of float16
    skips the first step.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, config: OptimizerConfig, epochs: int) -> None:
        self._optimizer, self._config, self._epochs = optimizer, config, epochs
        self._base_lrs = [group["lr"] for group in optimizer.param_groups]
        self._plateau_factor, self._bad_epochs, self._best_loss = 1.0, 0, math.inf

    def set_learning_rate(self, epoch: int) -> None:
        """Set the learning rates of an epoch."""
        factor = self._plateau_factor
        if self._config.schedule == "cosine":
            decay_epochs = max(self._epochs - self._config.warmup, 1)
            factor = 0.5 * (1 + math.cos(math.pi * max(epoch - self._config.warmup, 0) / decay_epochs))
        if epoch < self._config.warmup:
            factor = (epoch + 1) / self._config.warmup
        for group, base_lr in zip(self._optimizer.param_groups, self._base_lrs):
            group["lr"] = base_lr * factor

    def observe_validation_loss(self, loss: float) -> None:
        """Halve the learning rate if the validation loss has not decreased for ten epochs (``plateau`` only)."""
        if self._config.schedule != "plateau":
            return
        self._bad_epochs = 0 if loss < self._best_loss else self._bad_epochs + 1
        self._best_loss = min(self._best_loss, loss)
        if self._bad_epochs > _PLATEAU_PATIENCE:
            self._plateau_factor, self._bad_epochs = self._plateau_factor / 2, 0

    def state_dict(self) -> dict[str, float]:
        """Return the state for a checkpoint."""
        return {"factor": self._plateau_factor, "bad_epochs": self._bad_epochs, "best_loss": self._best_loss}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Restore the state of a checkpoint."""
        self._plateau_factor, self._bad_epochs = state["factor"], int(state["bad_epochs"])
        self._best_loss = state["best_loss"]
