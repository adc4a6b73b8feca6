"""A search that takes a second."""

from __future__ import annotations

from typing import Any

from tgnn.training.recipes import resolve
from tgnn.tuning.plan import Plan
from tgnn.tuning.results import StudyResult

SPACE = {
    "optimizer.lr": (0.0001, 0.001, 0.01, 0.05),
    "model.dropout": (0.0, 0.3, 0.6),
    "model.hidden_channels": (4, 8, 16),
    "data.features": ("stored", "row-l2"),
}


def small_plan(data: str = "karate", epochs: int = 5, **more: Any) -> Plan:
    config = resolve(data, "gcn", "node", changes={"train.epochs": epochs, "model.hidden_channels": 16})
    how = {"space": SPACE, "trials": 10, "splits": 2, "together": 4} | more
    return Plan(config, **how)


def told(result: StudyResult) -> list[tuple[Any, ...]]:
    """All of its trials but the time they took."""
    return [(t.number, t.state, dict(t.values), t.score, list(t.scores), t.reason) for t in result.trials]
