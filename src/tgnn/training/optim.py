"""Weights in two groups: those of the product branch, which may want steps of their own, and the others."""

from __future__ import annotations

import math

import torch

from tgnn.nn import CPAggregation
from tgnn.training.config import OptimizerConfig


def make_optimizer(model: torch.nn.Module, settings: OptimizerConfig) -> torch.optim.Optimizer:
    """Adam or AdamW over a model; parameters of every :class:`~tgnn.CPAggregation` are the second group.

    Args:
        model: Whose parameters.
        settings: As configured.
    """
    product = {id(p) for module in model.modules() if isinstance(module, CPAggregation) for p in module.parameters()}
    low = [p for p in model.parameters() if id(p) not in product]
    high = [p for p in model.parameters() if id(p) in product]
    groups = [{"params": low, "lr": settings.lr, "weight_decay": settings.weight_decay}]
    cp_lr = settings.lr if settings.cp_lr is None else settings.cp_lr
    cp_decay = settings.weight_decay if settings.cp_weight_decay is None else settings.cp_weight_decay
    groups.append({"params": high, "lr": cp_lr, "weight_decay": cp_decay})
    kind = torch.optim.Adam if settings.name == "adam" else torch.optim.AdamW
    return kind([group for group in groups if group["params"]], fused=_can_fuse(model))


def _can_fuse(model: torch.nn.Module) -> bool:
    """One call for all weights; the same numbers."""
    return all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in model.parameters())


class Schedule:
    """The share of the step size at each epoch; what it has seen is two numbers, so that a run can be resumed.

    Args:
        optimizer: Whose steps.
        settings: As configured.
        epochs: Of the whole run.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, settings: OptimizerConfig, epochs: int) -> None:
        self._optimizer, self._settings, self._epochs = optimizer, settings, epochs
        self._full = [group["lr"] for group in optimizer.param_groups]
        self.share, self.waited = 1.0, 0
        """For ``plateau``: what the step has come down to, and the epochs since the loss was best."""
        self.best = math.inf

    def before(self, epoch: int) -> None:
        """Sets the steps for an epoch."""
        share = self.share
        if self._settings.schedule == "cosine":
            rest = max(self._epochs - self._settings.warmup, 1)
            share = 0.5 * (1 + math.cos(math.pi * max(epoch - self._settings.warmup, 0) / rest))
        if epoch < self._settings.warmup:
            share = (epoch + 1) / self._settings.warmup
        for group, full in zip(self._optimizer.param_groups, self._full):
            group["lr"] = full * share

    def after(self, loss: float) -> None:
        """Halves the step where the validation loss has not fallen for ten epochs (``plateau``)."""
        if self._settings.schedule != "plateau":
            return
        self.waited = 0 if loss < self.best else self.waited + 1
        self.best = min(self.best, loss)
        if self.waited > 10:
            self.share, self.waited = self.share / 2, 0

    def state(self) -> dict[str, float]:
        return {"share": self.share, "waited": self.waited, "best": self.best}

    def restore(self, state: dict[str, float]) -> None:
        self.share, self.waited, self.best = state["share"], int(state["waited"]), state["best"]
