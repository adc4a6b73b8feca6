"""Bit error rates of decoders: networks that differ in the aggregation at the parity checks, and belief propagation.

All networks have the same skeleton (:class:`~tgnn.nn.FactorGraphNet`), the same training frames and, within 5%, the
same number of weights. The learning rate of each is selected on validation frames.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tgnn.data.codes import ParityCheckCode, load_code
from tgnn.experiments.decoder_networks import make_network
from tgnn.experiments.results import CellResult, RunResult
from tgnn.experiments.stored_training import SEARCH_SEED, select_learning_rate, train_once
from tgnn.nn import BeliefPropagation, FactorGraphNet
from tgnn.training.decoding import DecoderTraining, ErrorCount, count_errors, train_decoder, validation_loss
from tgnn.utils.io import hash_json, hash_tensor, write_json
from tgnn.utils.read import read_content, validate

logger = logging.getLogger("tgnn")

METRIC = "bit error rate"
AGGREGATIONS = ("cp", "sum", "mean", "max", "pna", "gat", "gated")
RULES = ("sum-product", "min-sum")
ITERATIONS = (5, 8, 20)
MIN_FRAME_ERRORS = 100
NETWORK_ROWS = (*AGGREGATIONS, *(f"{name} 10x" for name in AGGREGATIONS))
BELIEF_PROPAGATION_ROWS = tuple(f"{rule} {iterations}" for rule in RULES for iterations in ITERATIONS)
PUBLISHED: Mapping[str, Mapping[str, tuple[int, Mapping[int, float]]]] = {
    "bch-63-45": {
        "published GNN 8": (9640, {5: 2.07e-3, 6: 2.24e-4, 7: 1.30e-5}),
        "published GNN 10": (9640, {5: 1.73e-3, 6: 1.84e-4, 7: 9.7e-6}),
        "published sum-product 20": (0, {5: 4.82e-3, 6: 9.01e-4, 7: 1.48e-4}),
    }
}
"""Number of weights and bit error rates of other publications, by code and decoder."""

NOTES = (
    "All networks are FactorGraphNets that differ in the aggregation at the checks. Their numbers of weights agree "
    "within 5%. The learning rate of each network is the one with the lowest validation loss. The candidates are "
    "0.001, 0.0025 and 0.005 for BCH codes, 0.0025, 0.005 and 0.01 for LDPC(49,24), and 0.003, 0.01, 0.03 and 0.1 for "
    "the other codes. They are trained for a tenth of the steps on BCH codes and LDPC(49,24), and for a fifth on the "
    "other codes. A step has 64 new frames for BCH codes and LDPC(49,24), and 32 for the other codes. Rows with '10x' "
    "have ten times the steps, also in the selection of the learning rate. The networks of BCH(63,45), PEG(96,48) and "
    "LDPC(49,24) were changed after the test error rates of earlier ones were known (docs/research_log.md, Selections "
    "made after a test score was known).",
    "The frames are random codewords sent with BPSK over an AWGN channel. With the same seed, all decoders decode the "
    f"same test frames. Counting ends after {MIN_FRAME_ERRORS} wrong frames, once 10,000 frames are decoded. It ends "
    f"earlier after {10 * MIN_FRAME_ERRORS:,} wrong frames, and at the latest after 100,000 frames (500,000 for BCH "
    "codes). Rates from fewer than 100 wrong frames are marked.",
    "'to' means that the networks were trained on the first code and tested on the second. 'with 20 rounds' means that "
    "they were trained with fewer rounds: 5 on PEG(96,48), 8 on LDPC(49,24). Rows such as 'sum-product 20' are belief "
    "propagation with 20 iterations. min-sum is normalized by 0.75.",
    "Rows such as 'published GNN 8' are the values of Cammerer et al. 2022 (arXiv:2207.14742) for 8 iterations. Their "
    "GNN was trained on 635,000 batches of 256 frames. 'cp' on BCH(63,45) has 0.1% of these steps, and 'cp 10x' 1%.",
)
_FORMAT = 3
"""Part of the hash of stored runs. Increase it if the training or the network changes."""


@dataclass(frozen=True)
class CodeRecipe:
    """How the networks of a code are trained, and where they are tested.

    Args:
        hidden_channels: Size of the edge states of the product network. The other networks have as many weights.
        num_rounds: Number of rounds.
        steps: Number of training steps.
        search_steps: Number of training steps with each learning rate, to select one.
        train_db: Lowest and highest signal-to-noise ratio of the training frames.
        test_db: Signal-to-noise ratios of the test frames.
        max_frames: Maximum number of test frames per point and run.
        transfer: Another code that the trained networks are tested on, without training.
        more_rounds: Another number of rounds that the trained networks are run with.
        batch_size: Number of frames per training step.
        learning_rates: Learning rates to select from.
    """

    hidden_channels: int
    num_rounds: int
    steps: int
    search_steps: int
    train_db: tuple[float, float]
    test_db: tuple[int, ...]
    max_frames: int = 100_000
    transfer: str = ""
    more_rounds: int = 0
    batch_size: int = 32
    learning_rates: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1)


_BCH_LEARNING_RATES = (0.001, 0.0025, 0.005)
RECIPES: Mapping[str, CodeRecipe] = {
    "bch-63-45": CodeRecipe(
        *(28, 8, 635, 60, (3.0, 7.0), (4, 5, 6, 7)),
        max_frames=500_000,
        transfer="bch-63-36",
        batch_size=64,
        learning_rates=_BCH_LEARNING_RATES,
    ),
    "bch-63-36": CodeRecipe(
        *(28, 8, 635, 60, (3.0, 7.0), (4, 5, 6)),
        max_frames=500_000,
        batch_size=64,
        learning_rates=_BCH_LEARNING_RATES,
    ),
    "peg-96-48": CodeRecipe(16, 5, 500, 100, (1.0, 5.0), (2, 3, 4), transfer="ccsds-128-64", more_rounds=20),
    "ldpc-49-24": CodeRecipe(
        *(28, 8, 1500, 150, (2.0, 6.0), (4, 5, 6)),
        more_rounds=20,
        batch_size=64,
        learning_rates=(0.0025, 0.005, 0.01),
    ),
    "ldpc-121-60": CodeRecipe(16, 5, 500, 100, (2.0, 6.0), (4, 5)),
    "ccsds-128-64": CodeRecipe(16, 5, 500, 100, (1.0, 5.0), (3, 4)),
    "5g-128-64": CodeRecipe(16, 8, 500, 100, (0.0, 4.0), (2, 3)),
}


@dataclass(frozen=True)
class TestPoint:
    """One column: the code of the training, the code of the test, the rounds of the test and its Eb/N0."""

    trained_on: str
    tested_on: str
    num_rounds: int
    ebn0_db: int


def _points() -> dict[str, TestPoint]:
    points = {}
    for name, recipe in RECIPES.items():
        for ebn0_db in recipe.test_db:
            points[f"{name} {ebn0_db} dB"] = TestPoint(name, name, recipe.num_rounds, ebn0_db)
        for ebn0_db in recipe.test_db if recipe.more_rounds else ():
            column = f"{name} with {recipe.more_rounds} rounds {ebn0_db} dB"
            points[column] = TestPoint(name, name, recipe.more_rounds, ebn0_db)
        for ebn0_db in RECIPES[recipe.transfer].test_db if recipe.transfer else ():
            column = f"{name} to {recipe.transfer} {ebn0_db} dB"
            points[column] = TestPoint(name, recipe.transfer, recipe.num_rounds, ebn0_db)
    return points


POINTS: Mapping[str, TestPoint] = _points()
"""All columns of the table."""


def by_protocol(columns: Iterable[str]) -> dict[str, dict[int, str]]:
    """Group columns by code and protocol, and order them by signal-to-noise ratio.

    Example:
        >>> by_protocol(["bch-63-45 5 dB", "peg-96-48 with 20 rounds 3 dB", "bch-63-45 6 dB"])
        {'bch-63-45': {5: 'bch-63-45 5 dB', 6: 'bch-63-45 6 dB'}, 'peg-96-48 with 20 rounds': {3: ...}}
    """
    groups: dict[str, dict[int, str]] = {}
    for column in columns:
        protocol, ebn0_db, _ = column.rsplit(" ", 2)
        groups.setdefault(protocol, {})[int(ebn0_db)] = column
    return {protocol: dict(sorted(group.items())) for protocol, group in groups.items()}


def error_rates_text(cell: CellResult | None) -> str:
    """Format the bit and frame error rates of a cell, with the standard deviation of the former over runs."""
    if cell is None or not cell.runs:
        return "" if cell is None or not cell.failed else f"failed: {cell.failed}"
    errors, frames = (sum(value or 0 for value in cell.series[name]) for name in ("frame errors", "frames"))
    if not errors:
        return f"no wrong frame in {frames:,.0f}"
    rates = torch.tensor(cell.tests, dtype=torch.float64)
    spread = f" ± {rates.std():.1e}" if len(rates) > 1 else ""
    few = f" (fewer than {MIN_FRAME_ERRORS} wrong frames)" if errors < MIN_FRAME_ERRORS else ""
    return f"{rates.mean():.2e}{spread} / {errors / frames:.2e}{few}"


def describe_decoding(row: str, column: str) -> dict[str, Any]:
    """Return the options of a cell that can change its result."""
    point = POINTS[column]
    test = {"code": point.tested_on, "ebn0_db": point.ebn0_db, "max_frames": RECIPES[point.tested_on].max_frames}
    if row in BELIEF_PROPAGATION_ROWS:
        return {"format": 1, "decoder": row, "test": test}
    return {
        "format": _FORMAT,
        "train": _training_options(row, point.trained_on),
        "test": test | {"rounds": point.num_rounds},
    }


def _training_options(row: str, code: str) -> dict[str, Any]:
    """Return the options of a trained network that can change its weights."""
    aggr, _, factor = row.partition(" ")
    recipe = RECIPES[code]
    longer = 10 if factor else 1
    return {
        "code": code,
        "aggr": aggr,
        "hidden_channels": recipe.hidden_channels,
        "rounds": recipe.num_rounds,
        "steps": longer * recipe.steps,
        "search_steps": longer * recipe.search_steps,
        "learning_rates": list(recipe.learning_rates),
        "batch_size": recipe.batch_size,
        "ebn0_db": list(recipe.train_db),
    }


def measure_decoding(row: str, column: str, seed: int, store: Path, options: Mapping[str, Any]) -> CellResult:
    """Train and test one decoder at one point. A trained network and counted errors in ``store`` are reused."""
    source, point = (options.get("data.root"), bool(options.get("data.offline"))), POINTS[column]
    config, code = describe_decoding(row, column), load_code(point.tested_on, *source)
    if row in BELIEF_PROPAGATION_ROWS:
        rule, iterations = row.split()
        decoder: torch.nn.Module = BeliefPropagation(int(iterations), rule)
        trained: dict[str, Any] = {"val": float("nan"), "steps": 0, "seconds": 0.0}
    else:
        decoder, trained = _load_or_train(config["train"], load_code(point.trained_on, *source), seed, store)
    key = hash_json([config, seed])
    count = _count(decoder, code, point, seed, store / f"decoding-errors-{key}.json")
    weights = sum(parameter.numel() for parameter in decoder.parameters())
    matrix, steps = hash_tensor(code.parity_check), trained["steps"]
    costs = (steps, steps, round(trained["seconds"], 3), weights)
    run = RunResult(seed, count.bit_error_rate, trained["val"], *costs, matrix, matrix, key)
    series: dict[str, list[float | None]] = {
        "frame error rate": [count.frame_error_rate],
        "frame errors": [count.frame_errors],
        "frames": [count.frames],
    }
    return CellResult(row, column, METRIC, config=config, runs=(run,), series=series)


def _count(decoder: torch.nn.Module, code: ParityCheckCode, point: TestPoint, seed: int, path: Path) -> ErrorCount:
    if path.exists():
        return validate(ErrorCount, read_content(path), path)
    count = count_errors(
        decoder,
        code,
        point.ebn0_db,
        seed=seed,
        num_rounds=None if isinstance(decoder, BeliefPropagation) else point.num_rounds,
        max_frames=RECIPES[point.tested_on].max_frames,
        min_frame_errors=MIN_FRAME_ERRORS,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(count))
    return count


# ---- training --------------------------------------------------------------------------------------------------


def _load_or_train(
    options: Mapping[str, Any], code: ParityCheckCode, seed: int, store: Path
) -> tuple[FactorGraphNet, dict[str, Any]]:
    """Train a network, or read it from ``store``."""
    net = make_network(options, code, seed)
    path = store / f"decoding-{hash_json([_FORMAT, options, seed])}.safetensors"

    def train() -> dict[str, Any]:
        lr = _select_learning_rate(options, code, store)
        seconds, loss = _train(net, options, code, seed, options["steps"], lr, path.with_suffix(".checkpoint"))
        return {"val": loss, "steps": options["steps"], "seconds": seconds, "lr": lr}

    return net, train_once(net, path, train)


def _train(
    net: FactorGraphNet,
    options: Mapping[str, Any],
    code: ParityCheckCode,
    seed: int,
    steps: int,
    lr: float,
    checkpoint: Path | None = None,
) -> tuple[float, float]:
    """Train a network, and return the seconds and the validation loss."""

    def log(step: int, loss: float) -> None:
        if step % max(1, steps // 20) == 0:
            message = "%s at the checks of %s, seed %d, learning rate %g: step %d of %d, loss %.4f"
            logger.info(message, options["aggr"], options["code"], seed, lr, step, steps, loss)

    ebn0_db = (options["ebn0_db"][0], options["ebn0_db"][1])
    training = DecoderTraining(steps, options["batch_size"], lr, ebn0_db, seed)
    seconds = train_decoder(net, code, training, checkpoint, log)
    return seconds, validation_loss(net, code, ebn0_db, 5000)


def _select_learning_rate(options: Mapping[str, Any], code: ParityCheckCode, store: Path) -> float:
    """Return the learning rate with the lowest validation loss after ``search_steps``."""
    search = {key: value for key, value in options.items() if key != "steps"}

    def loss(lr: float) -> float:
        net = make_network(options, code, SEARCH_SEED)
        return _train(net, options, code, SEARCH_SEED, options["search_steps"], lr)[1]

    path = store / f"decoding-lr-{hash_json([_FORMAT, search])}.json"
    return select_learning_rate(path, options["learning_rates"], loss)
