"""The default recipes on tables without a recipe of their own, and the same features without the graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from tgnn.experiments.experiment import Row
from tgnn.experiments.own_tasks import TASKS
from tgnn.experiments.results import CellResult, RunResult
from tgnn.training.config import Config
from tgnn.training.recipes import resolve
from tgnn.training.run_folder import RunFolder
from tgnn.training.train import train_run

WITHOUT_GRAPH = "without the graph"
ROWS: list[Row] = [
    (WITHOUT_GRAPH, "tgnn", {}),
    ("mlp", "mlp", {}),
    ("gcn", "gcn", {}),
    ("graphsage or gin", "graphsage", {}),
    ("tgnn", "tgnn", {}),
    ("tgnn without products", "tgnn", {"model.rank": 0}),
]
NOTES = (
    "All tasks are tables without a recipe of their own, and all models have their default recipe. Each seed draws a "
    "new split. The features, the task and the metric are found as for any table. A task without a column has not been "
    "measured. The default recipes of tgnn were selected on the validation sets of eight of these tables, with other "
    "seeds, after a first test score was known (docs/research_log.md, 2026-11-18). The other models were not tuned.",
    "'without the graph' is gradient boosting or, for many columns, an MLP of the same features without the edges, the "
    "second baseline that `tgnn train` prints for your own data. The third network is GraphSAGE on tables of nodes and "
    "GIN on tables of graphs and molecules.",
    "iris, wine, breast cancer, diabetes and digits are tables of scikit-learn, where each row is connected with its 8 "
    "nearest neighbors. esol to tox21 are molecules of MoleculeNet.",
)


def describe_own_data(row: str, column: str) -> dict[str, Any]:
    """Return the options of a cell that can change its result."""
    config = _config(row, column, f"own-data/{column}", seed=0)  # a path: some tasks have the name of a data set
    described: dict[str, Any] = config.model_dump(mode="json", include={"model", "optimizer", "train"})
    return described


def _config(row: str, column: str, name: str, seed: int) -> Config:
    task = TASKS[column]
    _, model, changes = next(entry for entry in ROWS if entry[0] == row)
    model = "gin" if model == "graphsage" and task.level == "graph" else model
    changes = {**changes, **task.options, "train.seed": seed, "train.threads": 1}
    return resolve(name, model, task.level, changes=changes)


def measure_own_data(row: str, column: str, seed: int, store: Path, options: Mapping[str, Any]) -> CellResult:
    """Train a model with its default recipe on the tables of a task. A finished run in ``store`` is reused."""
    path = _tables(column, store, options)
    config = _config(row, column, str(path), seed)
    folder = RunFolder(store / f"own-data-{config.model.name}-{config.hash}")
    with FileLock(f"{folder.path}.lock"):  # the rows 'tgnn' and 'without the graph' share their runs
        metrics = folder.metrics if folder.is_finished else train_run(config, folder, resume=folder.has_started)
    test, val = metrics["test"], metrics["val"]
    if row == WITHOUT_GRAPH:
        test, val = metrics["baselines"][-1]["test"], float("nan")
    hashes = (metrics["split_hash"], metrics["data_hash"], config.hash)
    costs = (metrics["epochs"], metrics["best_epoch"], metrics["seconds"], metrics["parameters"])
    run = RunResult(seed, test, val, *costs, *hashes)
    return CellResult(row, column, metrics["metric"], config=describe_own_data(row, column), runs=(run,))


def _tables(column: str, store: Path, options: Mapping[str, Any]) -> Path:
    """Return the path of the tables of a task, which are written once."""
    folder = store / "own-data" / column.replace(" ", "-")
    written = folder.with_suffix(".path")
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not written.exists():
            path = TASKS[column].write(folder, (options.get("data.root"), bool(options.get("data.offline"))))
            written.write_text(path.relative_to(folder).as_posix(), encoding="utf-8")
        return (folder / written.read_text(encoding="utf-8")).resolve()
