"""A small search that takes about a second."""

from __future__ import annotations

from typing import Any

from tgnn.training.recipes import resolve
from tgnn.tuning.results import StudyResult
from tgnn.tuning.search_space import SearchPlan

SPACE = {
    "optimizer.lr": (0.0001, 0.001, 0.01, 0.05),
    "model.dropout": (0.0, 0.3, 0.6),
    "model.hidden_channels": (4, 8, 16),
    "data.features": ("stored", "row-l2"),
}


def small_plan(data: str = "karate", epochs: int = 5, **more: Any) -> SearchPlan:
    config = resolve(data, "gcn", "node", changes={"train.epochs": epochs, "model.hidden_channels": 16})
    options = {"space": SPACE, "trials": 10, "splits": 2} | more
    return SearchPlan(config, **options)


def comparable(result: StudyResult) -> list[tuple[Any, ...]]:
    """Return what two runs of the same search must have in common: everything about the trials but their duration."""
    return [(t.number, t.state, dict(t.params), t.score, list(t.scores), t.reason) for t in result.trials]
