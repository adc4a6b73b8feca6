"""Overhead of the training loop compared to a minimal loop in torch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from tgnn.training.config import Config
from tgnn.training.loop import Trainer
from tgnn.training.optim import make_optimizer
from tgnn.training.prepare import Prepared, make_model, prepare
from tgnn.training.recipes import resolve
from tgnn.training.run_folder import RunFolder

EPOCHS = 60


def contenders(name: str, root: str | None) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a minimal loop and the loop of the library, with the same model, optimizer, epochs and validation."""
    changes = {"train.epochs": EPOCHS, "train.patience": EPOCHS, "data.root": root}
    config = resolve(name, "tgnn", "node", changes=changes)
    prepared, folder = prepare(config), Path(tempfile.mkdtemp())
    return lambda: bare(config, prepared), lambda: ours(config, prepared, folder)


def ours(config: Config, prepared: Prepared, folder: Path) -> None:
    Trainer(make_model(config, prepared.shape), prepared, config).fit(RunFolder(folder))


def bare(config: Config, prepared: Prepared) -> None:
    data, split = prepared.data, prepared.split
    model = make_model(config, prepared.shape)
    optimizer = make_optimizer(model, config.optimizer)
    y, y_val = data.y[split.train], data.y[split.val]
    best, best_state = -1.0, {}
    for _ in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data)[split.train], y)
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            score = float((model(data)[split.val].argmax(1) == y_val).float().mean())
        if score > best:
            best, best_state = score, {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(best_state)
