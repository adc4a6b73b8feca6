"""From CSV files to predictions by three commands, on every task of ``tgnn reproduce table-own-data``.

python -m benchmarks.own_data [--epochs 3] [--root DATA] [TASK ...]

For each task the tables are written into an empty folder. Then ``tgnn data check``, ``tgnn train --data`` and
``tgnn predict`` run as a user would run them, and the number of predictions is compared with the rows of the table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

from tgnn.experiments.own_tasks import TASKS


def tgnn(*words: str, folder: Path) -> str:
    """Run a command in a folder and return its output. An error ends the script."""
    command = [sys.executable, "-m", "tgnn", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"tgnn {' '.join(words)} failed with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout


def predict_tables(task: str, epochs: int, root: str | None, folder: Path) -> str:
    """Write the tables of a task, run the three commands, and describe the result in one line."""
    (folder / "data").mkdir()
    path = TASKS[task].write(folder / "data", (root, False))
    tgnn("data", "check", str(path), folder=folder)
    trained = json.loads(
        tgnn("train", "--data", str(path), "--epochs", str(epochs), "--out", "run", "--json", folder=folder)
    )
    written = json.loads(tgnn("predict", "run", "--out", "predictions.csv", "--json", folder=folder))
    table = path
    if path.is_dir():
        table = path / "graphs.csv" if (path / "graphs.csv").exists() else path / "nodes.csv"
    rows, values = pl.read_csv(table).height, pl.read_csv(folder / "predictions.csv").select("^prediction.*$")
    predicted = values.filter(pl.any_horizontal(pl.all().is_not_null())).height
    unreadable = len(written["unreadable"])
    if rows != predicted + unreadable:
        raise SystemExit(f"{task}: {predicted:,} predictions and {unreadable} unreadable molecules for {rows:,} rows")
    counts = f"{rows:,} rows, {predicted:,} predictions, {unreadable} unreadable molecules"
    return f"{task}: {counts}, test {trained['metric']} {trained['test']:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"default: all of {', '.join(TASKS)}")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--root", help="folder with the files of catalog data sets")
    arguments = parser.parse_args()
    for task in arguments.tasks or TASKS:
        with tempfile.TemporaryDirectory() as folder:
            print(predict_tables(task, arguments.epochs, arguments.root, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
