"""Small results and experiments for the tests of :mod:`tgnn.experiments`."""

from __future__ import annotations

from tgnn.experiments.experiment import Experiment
from tgnn.experiments.results import CellResult, Result, RunResult

QUICK = {"train.epochs": 2, "train.patience": 2}
KARATE = Experiment(
    "table-karate",
    "A table of karate",
    [("gcn", "gcn", {}), ("tgnn 4", "tgnn", {"model.rank": 4})],
    {"karate": ("karate", {})},
    runs=2,
)


def run_result(seed: int, test: float, split: str = "s") -> RunResult:
    return RunResult(seed, test, test, 10, 5, 2.0, 100, f"{split}{seed}", "d", "c")


def cell(row: str, column: str, tests: list[float], **more: object) -> CellResult:
    runs = tuple(run_result(seed, test) for seed, test in enumerate(tests))
    return CellResult(row, column, "accuracy", runs=runs, **more)  # type: ignore[arg-type]


def citation_result() -> Result:
    a = [0.80, 0.81, 0.83, 0.84, 0.86, 0.87]
    return Result(
        "table-1-citation",
        [
            cell("gcn", "cora", [x - 0.02 - i / 1000 for i, x in enumerate(a)], paper=0.8778, paper_spread=0.0096),
            cell("gcn", "pubmed", a, paper=0.889),
            cell("tgnn", "cora", a, paper=0.8808),
            cell("tgnn", "pubmed", [], failed="no data"),
        ],
        command="tgnn reproduce x",
    )
