r"""Planted interactions: accuracy of pooling functions on labels that are an interaction of m neighbors.

This experiment goes beyond the paper. A set has eight members. Each member has a value :math:`v` with a magnitude from
0.5 to 1.5 and a random sign. A random subset of m members is marked. The label is the sign of the product of the marked
values, which is an interaction of order m. The features of a member are its mark, its value if it is marked, and its
value if it is not marked. Every model is a pooling function followed by an MLP of the same width. The classical pooling
functions also have an MLP before the pooling.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation, AttentionalAggregation, DegreeScalerAggregation
from torch_geometric.nn.models import MLP
from torch_geometric.nn.resolver import aggregation_resolver

from tgnn.experiments.results import CellResult, RunResult
from tgnn.nn import CPAggregation
from tgnn.utils.io import hash_tensor, write_json
from tgnn.utils.read import read_content, validate

MEMBERS, FEATURES = 8, 3
ORDERS = tuple(range(1, MEMBERS + 1))
WIDTHS = (8, 32)
POOLINGS = ("cp", "sum", "mean", "max", "attention", "pna")
_TRAIN, _VAL, _TEST, _BATCH, _EPOCHS = 8000, 2000, 4000, 250, 200
NOTES = (
    "Each set has 8 members, m of which are marked. The label is the sign of the product of the marked values. The "
    "training set has 8,000 sets, the validation set 2,000 and the test set 4,000. The epoch is selected on the "
    "validation set. An accuracy of 0.5 is chance level.",
    "Rows are a pooling function and its number of hidden channels. Columns are the order m of the interaction.",
)


class Sets(NamedTuple):
    """Features of the members ``[S, 8, 3]`` and labels ``[S]`` of S sets."""

    x: Tensor
    y: Tensor


def draw_sets(count: int, order: int, generator: torch.Generator) -> Sets:
    """Draw random sets and their labels.

    Example:
        >>> sets = draw_sets(3, 2, torch.Generator().manual_seed(0))
        >>> sets.x.shape, sets.y.shape
        (torch.Size([3, 8, 3]), torch.Size([3]))
    """
    sign = torch.randint(2, (count, MEMBERS), generator=generator) * 2 - 1
    values = sign * (torch.rand(count, MEMBERS, generator=generator) + 0.5)
    marked = torch.rand(count, MEMBERS, generator=generator).argsort(1) < order
    x = torch.stack([marked, values * marked, values * ~marked], dim=2)
    return Sets(x, (torch.where(marked, values, 1.0).prod(1) > 0).long())


class SetNetwork(torch.nn.Module):
    """Pooling function between two MLPs of the same width. ``"cp"`` has this rank and no MLP before the pooling."""

    def __init__(self, pooling: str, width: int) -> None:
        super().__init__()
        self.before = torch.nn.Identity() if pooling == "cp" else MLP([FEATURES, width, width], norm=None)
        self.pool = _make_pooling(pooling, width)
        in_channels = 12 * width if pooling == "pna" else width
        self.after = MLP([in_channels, width, 2], norm=None)

    def forward(self, x: Tensor) -> Tensor:
        sets, members, _ = x.shape
        index = torch.arange(sets).repeat_interleave(members)
        out: Tensor = self.after(self.pool(self.before(x.reshape(sets * members, -1)), index, dim_size=sets))
        return out


def _make_pooling(name: str, width: int) -> Aggregation:
    if name == "cp":
        return CPAggregation(FEATURES, width, rank=width, act_out="relu")
    if name == "attention":
        return AttentionalAggregation(MLP([width, 1], norm=None))
    if name == "pna":
        scalers = ["identity", "amplification", "attenuation"]
        degrees = torch.bincount(torch.tensor([MEMBERS]))
        return DegreeScalerAggregation(["mean", "min", "max", "std"], scalers, degrees)
    return aggregation_resolver(name)


def measure_interaction(row: str, column: str, seed: int, store: Path, options: Mapping[str, Any]) -> CellResult:
    """Measure one pooling function and width at one order. A run stored in ``store`` is reused."""
    pooling, width = row.split()
    run = _cached_run(pooling, int(width), int(column), seed, store)
    return CellResult(row, column, "accuracy", runs=(run,))


def _cached_run(pooling: str, width: int, order: int, seed: int, store: Path) -> RunResult:
    options = ["marks", pooling, width, order, seed, _TRAIN, _VAL, _TEST, _BATCH, _EPOCHS]
    key = hashlib.sha256(json.dumps(options).encode()).hexdigest()[:12]
    path = store / f"interactions-{key}.json"
    if path.exists():
        return validate(RunResult, read_content(path), path)
    result = train_sets(pooling, width, order, seed, key)
    store.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(result))
    return result


def train_sets(pooling: str, width: int, order: int, seed: int, key: str = "") -> RunResult:
    """Train one model. The epoch is selected on the validation set."""
    generator = torch.Generator().manual_seed(1000 * order + seed)
    train, val, test = (draw_sets(count, order, generator) for count in (_TRAIN, _VAL, _TEST))
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(seed)
        model = SetNetwork(pooling, width)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    best, best_epoch, best_test, start, epoch = -1.0, 0, 0.0, time.monotonic(), 0
    while epoch < _EPOCHS and best < 1:
        for batch in torch.split(torch.randperm(_TRAIN, generator=generator), _BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(train.x[batch]), train.y[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        score = _accuracy(model, val)
        if score > best:
            best, best_epoch, best_test = score, epoch, _accuracy(model, test)
        epoch += 1
    data = hash_tensor(train.x)
    count = sum(parameter.numel() for parameter in model.parameters())
    return RunResult(
        seed, best_test, best, epoch, best_epoch + 1, round(time.monotonic() - start, 3), count, data, data, key
    )


@torch.no_grad()
def _accuracy(model: torch.nn.Module, sets: Sets) -> float:
    return float((model(sets.x).argmax(1) == sets.y).float().mean())
