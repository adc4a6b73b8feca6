"""Select the learning rate of models on a data set from a grid, with a tenth of the epochs of the recipe.

Every model has the same grid, budget, schedule and seed. Only validation scores are read. A line per model shows the
score of each learning rate and the selected one. ``--write`` stores the learning rate in the model's block of the
recipe, with the command and the scores as its comment.

Run: python tools/select_learning_rate.py zinc gin,pna --grid 0.01,0.003,0.001 --write
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from pathlib import Path

from tgnn.cli.train import parse_option
from tgnn.data.catalog import CATALOG
from tgnn.training.config import Config, make_config, with_options
from tgnn.training.loop import Epoch, Trainer
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.prepare import Prepared, make_model, prepare_without_test, set_num_threads
from tgnn.training.recipes import resolve
from tgnn.utils.io import write_text

RECIPES = Path(__file__).parents[1] / "src" / "tgnn" / "recipes"
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


def validation_score(config: Config, prepared: Prepared) -> float:
    """Train, and return the validation score of the best epoch."""
    epochs: list[Epoch] = []
    Trainer(make_model(config, prepared.shape), prepared, config).fit(on_epoch=epochs.append)
    return epochs[-1].best_score


def with_learning_rate(recipe: str, model: str, rate: float, comment: str) -> str:
    """Return the text of a recipe with another learning rate and another comment of a model's block."""
    block = re.compile(
        rf"^  #[^\n]*\n(?P<head>  {re.escape(model)}:\n(?:    [^\n]*\n)*?    optimizer: [^\n]*\blr: )[^,}}\n]+",
        re.MULTILINE,
    )
    changed, count = block.subn(lambda match: f"  # {comment}\n{match['head']}{rate:g}", recipe)
    if count != 1:
        raise ValueError(f"The recipe has {count} blocks of {model} with a learning rate, not one.")
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", help="name of a data set")
    parser.add_argument("models", help="names of models, separated by commas")
    parser.add_argument("--grid", default="0.01,0.003,0.001", help="learning rates, separated by commas")
    parser.add_argument("--root", help="folder with the files of the data set")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="option of every run")
    parser.add_argument("--write", action="store_true", help="store the learning rates in the recipe")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    changes = {"data.root": arguments.root, **dict(map(parse_option, arguments.set))}
    rates = [float(text) for text in arguments.grid.split(",")]
    for model in arguments.models.split(","):
        path = RECIPES / f"{arguments.data}.yaml"
        if arguments.write:  # fails before the training if the recipe has no block of the model
            with_learning_rate(path.read_text(encoding="utf-8"), model, rates[0], "")
        config = resolve(arguments.data, model, CATALOG[arguments.data].level, changes=changes)
        set_num_threads(config)
        prepared = prepare_without_test(config)
        metric, scores = prepared.task.metric, {}
        for rate in rates:
            scores[rate] = validation_score(short_config(config, rate), prepared)
            print(
                f"{model}: learning rate {rate:g}, validation {metric} {scores[rate]:.4f}", file=sys.stderr, flush=True
            )
        best = (max if HIGHER_IS_BETTER[metric] else min)(scores, key=lambda rate: scores[rate])
        found = ", ".join(f"{score:.4f}" for score in scores.values())
        options = "".join(f" --set {option}" for option in arguments.set if not option.startswith("train.threads="))
        command = f"python tools/select_learning_rate.py {arguments.data} {model} --grid {arguments.grid}{options}"
        print(f"{command}: validation {metric} {found}. Selected: {best:g}", flush=True)
        if arguments.write:
            comment = f"{command}: validation {metric} {found}"
            write_text(path, with_learning_rate(path.read_text(encoding="utf-8"), model, best, comment))


if __name__ == "__main__":
    main()
