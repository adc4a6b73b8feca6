r"""Beyond the paper: when is high-order pooling worth it? A label that is an interaction of m neighbours.

A set has eight members, each with a value :math:`v`, from 0.5 to 1.5 and of either sign; m of them, any m, are marked.
The label is the sign of the product of the marked values: of order m, and blind to the others. Features are the mark,
the value where there is a mark, and the value where there is none. Every contender is a pooling and an MLP of the same
width after it; classical poolings have an MLP before it, too.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn.aggr import (
    Aggregation,
    AttentionalAggregation,
    DegreeScalerAggregation,
    MaxAggregation,
    MeanAggregation,
    SumAggregation,
)
from torch_geometric.nn.models import MLP

from tgnn.experiments.results import CellResult, Outcome
from tgnn.nn import CPAggregation
from tgnn.utils.io import write_json

MEMBERS, FEATURES = 8, 3
ORDERS = tuple(range(1, MEMBERS + 1))
WIDTHS = (8, 32)
POOLINGS = ("cp", "sum", "mean", "max", "attention", "pna")
_TRAIN, _VAL, _TEST, _BATCH, _EPOCHS = 8000, 2000, 4000, 250, 200
NOTES = (
    "Sets of 8 members, m of them marked; the label is the sign of the product of the marked values. 8,000 sets to "
    "learn from, 2,000 to choose the epoch, accuracy on 4,000 more; 0.5 is chance.",
    "Rows are a pooling and the width of its network; columns are the order of the interaction.",
)


class Sets(NamedTuple):
    """Members of many sets, ``[S, 8, 3]``, and labels, ``[S]``."""

    x: Tensor
    y: Tensor


def draw_sets(count: int, order: int, generator: torch.Generator) -> Sets:
    """Sets and their labels.

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
    """A pooling between two MLPs.

    Args:
        pooling: A name of ``POOLINGS``.
        width: Of both MLPs; for ``cp``, its rank and no MLP before.
    """

    def __init__(self, pooling: str, width: int) -> None:
        super().__init__()
        self.before = torch.nn.Identity() if pooling == "cp" else MLP([FEATURES, width, width], norm=None)
        self.pool = self._pooling(pooling, width)
        into = 12 * width if pooling == "pna" else width
        self.after = MLP([into, width, 2], norm=None)

    @staticmethod
    def _pooling(name: str, width: int) -> Aggregation:
        make: dict[str, Callable[[], Aggregation]] = {
            "cp": lambda: CPAggregation(FEATURES, width, rank=width),
            "sum": SumAggregation,
            "mean": MeanAggregation,
            "max": MaxAggregation,
            "attention": lambda: AttentionalAggregation(MLP([width, 1], norm=None)),
            "pna": lambda: DegreeScalerAggregation(
                ["mean", "min", "max", "std"],
                ["identity", "amplification", "attenuation"],
                torch.bincount(torch.tensor([MEMBERS])),
            ),
        }
        return make[name]()

    def forward(self, x: Tensor) -> Tensor:
        sets, members, _ = x.shape
        index = torch.arange(sets).repeat_interleave(members)
        out: Tensor = self.after(self.pool(self.before(x.reshape(sets * members, -1)), index, dim_size=sets))
        return out


POINTS = [(f"{pooling} {width}", str(order)) for pooling in POOLINGS for width in WIDTHS for order in ORDERS]


def measure_interaction(row: str, column: str, runs: int, store: Path) -> CellResult:
    """A pooling and width at one order; what was measured before is found again in ``store``."""
    pooling, width = row.split()
    found = tuple(_remembered(pooling, int(width), int(column), seed, store) for seed in range(runs))
    return CellResult(row, column, "accuracy", runs=found)


def _remembered(pooling: str, width: int, order: int, seed: int, store: Path) -> Outcome:
    settings = ["marks", pooling, width, order, seed, _TRAIN, _VAL, _TEST, _BATCH, _EPOCHS]
    key = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:12]
    path = store / f"interactions-{key}.json"
    if path.exists():
        return Outcome(**json.loads(path.read_text(encoding="utf-8")))
    found = train_sets(pooling, width, order, seed, key)
    store.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(found))
    return found


def train_sets(pooling: str, width: int, order: int, seed: int, key: str = "") -> Outcome:
    """Trains one contender; the epoch is chosen on validation."""
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
    data = hashlib.sha256(train.x.numpy().tobytes()).hexdigest()[:16]
    count = sum(parameter.numel() for parameter in model.parameters())
    return Outcome(
        seed, best_test, best, epoch, best_epoch + 1, round(time.monotonic() - start, 3), count, data, data, key
    )


@torch.no_grad()
def _accuracy(model: torch.nn.Module, sets: Sets) -> float:
    return float((model(sets.x).argmax(1) == sets.y).float().mean())
