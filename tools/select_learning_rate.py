"""Select the learning rate of models on a data set from a grid, with a tenth of the epochs of the recipe.

Every model has the same grid, budget, schedule and seed. Only validation scores are read. A line per model shows the
score of each learning rate and the selected one, for the comment of the model's block in the recipe.

Run: python tools/select_learning_rate.py zinc gin,pna --grid 0.01,0.003,0.001
"""

from __future__ import annotations

import argparse
import logging
import sys

from tgnn.cli.train import parse_option
from tgnn.data.catalog import CATALOG
from tgnn.training.config import Config, make_config, with_options
from tgnn.training.loop import Epoch, Trainer
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.prepare import make_model, prepare_without_test, set_num_threads
from tgnn.training.recipes import resolve

FRACTION = 10
"""The epochs and the warmup of the recipe are divided by this number."""


def short_config(config: Config, lr: float) -> Config:
    """Return the configuration with another learning rate and a tenth of the epochs and of the warmup."""
    epochs = max(config.train.epochs // FRACTION, 1)
    options = {
        "optimizer.lr": lr,
        "optimizer.warmup": -(-config.optimizer.warmup // FRACTION),
        "train.epochs": epochs,
        "train.patience": epochs,
    }
    return make_config(with_options(config.model_dump(mode="json"), options))


def validation_score(config: Config) -> tuple[float, str]:
    """Train, and return the validation score of the best epoch and its metric."""
    set_num_threads(config)
    prepared = prepare_without_test(config)
    epochs: list[Epoch] = []
    Trainer(make_model(config, prepared.shape), prepared, config).fit(on_epoch=epochs.append)
    return epochs[-1].best_score, prepared.task.metric


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", help="name of a data set")
    parser.add_argument("models", help="names of models, separated by commas")
    parser.add_argument("--grid", default="0.01,0.003,0.001", help="learning rates, separated by commas")
    parser.add_argument("--root", help="folder with the files of the data set")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="option of every run")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    changes = {"data.root": arguments.root, **dict(map(parse_option, arguments.set))}
    rates = [float(text) for text in arguments.grid.split(",")]
    for model in arguments.models.split(","):
        config = resolve(arguments.data, model, CATALOG[arguments.data].level, changes=changes)
        scores: dict[float, float] = {}
        for rate in rates:
            scores[rate], metric = validation_score(short_config(config, rate))
            print(
                f"{model}: learning rate {rate:g}, validation {metric} {scores[rate]:.4f}", file=sys.stderr, flush=True
            )
        best = (max if HIGHER_IS_BETTER[metric] else min)(scores, key=lambda rate: scores[rate])
        line = ", ".join(f"{rate:g}: {score:.4f}" for rate, score in scores.items())
        print(f"{model}: {best:g} (validation {metric} {line})", flush=True)


if __name__ == "__main__":
    main()
