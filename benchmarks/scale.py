"""Training on graphs on disk: speed, memory, exact inference, and a cost model fitted to the measurements.

python -m benchmarks.scale FOLDER [SIZE ...]      measures, and updates docs/scale.md

FOLDER holds the graphs, which are generated if they are missing, and measured.json with all measurements, so that
single sizes can be measured again. SIZE is a fraction of 2.4 million nodes and 124 million edges (default: 0.01 0.1 1).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.measure import machine, peak, run_in_process

NODES, EDGES, FEATURES, CLASSES = 2_400_000, 124_000_000, 100, 47
SIZES = (0.01, 0.1, 1.0)
RANKS = (8, 32)
EPOCHS = 3
TIMES = "\N{MULTIPLICATION SIGN}"
PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def measure(folder: str, rank: int) -> dict[str, Any]:
    """Measure training epochs, then exact inference over all nodes, in this process; return medians."""
    from tgnn.training.loaders import make_training_loader
    from tgnn.training.loop import Trainer
    from tgnn.training.prepare import make_model, prepare
    from tgnn.training.recipes import resolve
    from tgnn.training.run_folder import RunFolder

    config = resolve(
        folder, "tgnn", "node", changes={"model.rank": rank, "train.epochs": EPOCHS, "train.patience": EPOCHS}
    )
    prepared = prepare(config)
    model = make_model(config, prepared.shape)
    with tempfile.TemporaryDirectory() as run:
        Trainer(model, prepared, config).fit(RunFolder(run))
        lines = RunFolder(run).history()
    pieces = make_training_loader(prepared.data, prepared.split.train, config.train, torch.device("cpu"))(0)
    some = [(piece.size, piece.data.num_nodes) for piece in islice(pieces, 8)]
    training = [line["learning"] for line in lines]
    model.eval()
    inference = [seconds_of(lambda: model(prepared.data)) for _ in range(EPOCHS)]
    return {
        "rank": rank,
        "nodes": prepared.data.num_nodes,
        "edges": prepared.data.num_edges,
        "seeds": len(prepared.split.train),
        "sampled": len(prepared.split.train) * sum(nodes for _, nodes in some) / sum(size for size, _ in some),
        "training": median(training),
        "waiting": median(line["waiting"] for line in lines),
        "inference": median(inference),
        "slowest": max(training),
        "peak_gib": peak(),
        "val": lines[-1]["val_accuracy"],
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def seconds_of(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def graph(folder: Path, size: float) -> Path:
    """Return the path of the graph of a size; generate the graph if it is missing."""
    from tgnn.data.on_disk.generate import generate

    path = folder / f"scale-{size:g}"
    if not path.exists():
        sizes = round(NODES * size), round(EDGES * size), FEATURES, CLASSES
        print(f"generated {path.name} in {seconds_of(lambda: generate(path, *sizes)):.0f} s", flush=True)
    return path


def costs(what: str, row: dict[str, Any]) -> list[float]:
    """Return the terms of the cost model.

    Inference: the number of edges, and edges times rank times log10 of the graph size relative to the smallest graph,
    whose rows fit into the CPU cache. Training: the number of sampled nodes, and this number times rank.
    """
    if what == "inference":
        return [row["edges"], row["edges"] * row["rank"] * np.log10(row["nodes"] / (NODES * SIZES[0]))]
    return [row["sampled"], row["sampled"] * row["rank"]]


def cost_model(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Fit the seconds per term of :func:`costs`, by least squares of the relative errors."""
    from scipy.optimize import nnls

    model = {}
    for what in ("inference", "training"):
        terms = np.array([[term / row[what] for term in costs(what, row)] for row in rows])
        model[what], _ = nnls(terms, np.ones(len(rows)))
    return model


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| nodes | edges | rank | training nodes/s | training epoch | waiting for data | exact inference | memory |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        lines.append(
            f"| {row['nodes']:,} | {row['edges']:,} | {row['rank']} | {row['seeds'] / row['training']:,.0f} "
            f"| {row['training']:.1f} s | {100 * row['waiting']:.1f}% | {row['inference']:.1f} s "
            f"| {row['peak_gib']:.2f} GiB |"
        )
    return lines


def extrapolation(model: dict[str, np.ndarray], rank: int = 32) -> list[str]:
    """Describe the extrapolation of the cost model to a billion edges.

    Degrees, features and training fraction are those of the measured graphs. Seed nodes of a batch share no neighbor.
    """
    factor = 1e9 / EDGES
    nodes, seeds = NODES * factor, 0.08 * NODES * factor
    disk = 4e9 + (17 + 4 * FEATURES) * nodes
    scratch = 4 * nodes * (rank + 64 + 64 + CLASSES)
    large = {"nodes": nodes, "edges": 1e9, "rank": rank, "sampled": seeds * (1 + 10 + 100)}
    infer, learn = (float(model[what] @ costs(what, large)) for what in ("inference", "training"))
    lines = [
        f"Extrapolation of the cost model to one billion edges and {nodes / 1e6:.0f} million nodes at rank {rank}: "
        f"the graph needs {disk / 1e9:.0f} GB on disk, and inference needs {scratch / 1e9:.0f} GB of temporary files.",
        "",
        "| machines with 2 cores | training epoch | exact inference |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {count} | {learn / count / 60:.1f} min | {infer / 60:.1f} min |" for count in (1, 8, 64)]
    return lines


def describe_costs(model: dict[str, np.ndarray], rows: list[dict[str, Any]]) -> list[str]:
    """Describe the cost model and its largest errors."""
    off = {what: max(abs(model[what] @ costs(what, row) / row[what] - 1) for row in rows) for what in model}
    (edge, edge_rank), (node, node_rank) = model["inference"], model["training"]
    smallest = round(NODES * SIZES[0])
    least, most = (row["sampled"] / row["seeds"] for row in (rows[0], rows[-1]))
    return [
        "A cost model fitted to these measurements:",
        "",
        f"- Exact inference takes {1e9 * edge:.0f} ns per edge, plus {1e9 * edge_rank:.1f} ns {TIMES} rank {TIMES} "
        f"log10(nodes / {smallest:,}) per edge. The features of the smallest graph ({smallest:,} nodes) fit into the "
        "processor's cache.",
        f"- A training epoch takes {1e6 * node:.2f} µs plus {1e9 * node_rank:.0f} ns {TIMES} rank per sampled node. A "
        f"batch has {least:.0f} sampled nodes per training node in the smallest graph and {most:.0f} in the largest, "
        "where neighborhoods overlap less.",
        f"- The largest relative error of the cost model is {100 * off['inference']:.0f}% for inference and "
        f"{100 * off['training']:.0f}% for training.",
        f"- A graph on disk needs 4 bytes per edge and {17 + 4 * FEATURES} bytes per node with {FEATURES} features. "
        f"Inference needs temporary files of 4 {TIMES} (rank + 64 + 64 + {CLASSES}) bytes per node: factors, "
        "summands, hidden channels of the first layer, and classes.",
    ]


def write(rows: list[dict[str, Any]]) -> None:
    model = cost_model(rows)
    text = [
        BEGIN,
        f"Machine: {machine()}. Medians of {EPOCHS} epochs and {EPOCHS} inferences.",
        "",
        *table(rows),
        "",
        *describe_costs(model, rows),
        "",
        *extrapolation(model),
        END,
    ]
    page = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    PAGE.write_text(pattern.sub(lambda _: "\n".join(text), page), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sizes", nargs="*", type=float, default=SIZES)
    parser.add_argument("--ranks", nargs="+", type=int, default=RANKS)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(measure(os.fspath(arguments.folder), arguments.one)))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    measured = arguments.folder / "measured.json"
    rows = json.loads(measured.read_text()) if measured.exists() else {}
    for size in arguments.sizes:
        path = graph(arguments.folder, size)
        for rank in arguments.ranks:
            print(f"measuring size {size:g}, rank {rank}", flush=True)
            rows[f"{size:g} {rank}"] = run_in_process("benchmarks.scale", path, "--one", rank)
            print(rows[f"{size:g} {rank}"], flush=True)
            measured.write_text(json.dumps(rows, indent=1))
    write(sorted(rows.values(), key=lambda row: (row["nodes"], row["rank"])))


if __name__ == "__main__":
    main()
