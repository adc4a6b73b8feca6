"""Training on graphs that stay on disk: speed, memory, exact inference, and the cost model that fits them.

python -m benchmarks.scale FOLDER [SIZE ...]      measures, and writes docs/scale.md between its marks

FOLDER is where graphs are kept or made; SIZE a share of 2.4 million nodes and 124 million edges, by default 0.01 0.1 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measure import in_its_own_process, machine, peak

NODES, EDGES, FEATURES, CLASSES = 2_400_000, 124_000_000, 100, 47
SIZES = (0.01, 0.1, 1.0)
RANKS = (8, 32)
EPOCHS = 3
PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def measure(folder: str, rank: int) -> dict[str, Any]:
    """Epochs of training, each followed by an exact inference over all nodes, in this process; medians."""
    from tgnn.training.loop import fit
    from tgnn.training.prepare import prepare
    from tgnn.training.recipes import resolve
    from tgnn.training.run import make_model

    config = resolve(
        folder, "tgnn", "node", changes={"model.rank": rank, "train.epochs": EPOCHS, "train.patience": EPOCHS}
    )
    prepared = prepare(config)
    model = make_model(config, prepared.shape)
    with tempfile.TemporaryDirectory() as run:
        fit(model, prepared, config, Path(run))
        lines = [json.loads(line) for line in (Path(run) / "history.jsonl").read_text().splitlines()]
    ends = [0.0, *(line["seconds"] for line in lines)]
    training = [line["learning"] for line in lines]
    inference = [end - begin - learning for begin, end, learning in zip(ends, ends[1:], training)]
    return {
        "rank": rank,
        "nodes": prepared.data.num_nodes,
        "edges": prepared.data.num_edges,
        "seeds": len(prepared.split.train),
        "training": median(training),
        "waiting": median(line["waiting"] for line in lines),
        "inference": median(inference),
        "slowest": max(training),
        "peak_gib": peak(),
        "val": lines[-1]["val_accuracy"],
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def graph(folder: Path, size: float) -> tuple[Path, float]:
    """The graph of a size, and how long it took to make (0: it was there)."""
    from tgnn.data.disk.generate import generate

    path = folder / f"scale-{size:g}"
    if path.exists():
        return path, 0.0
    start = time.perf_counter()
    generate(path, round(NODES * size), round(EDGES * size), FEATURES, CLASSES)
    return path, time.perf_counter() - start


def cost_model(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds of inference for each node, edge, and edge times rank; seconds of training for each seed at each rank."""
    from scipy.optimize import nnls

    times = np.array([row["inference"] for row in rows])
    terms = np.array([[row["nodes"], row["edges"], row["edges"] * row["rank"]] for row in rows], dtype=float)
    weight = 1 / times  # relative errors count, not absolute ones
    found, _ = nnls(terms * weight[:, None], times * weight)
    model = dict(zip(("node", "edge", "edge_rank"), found))
    for rank in sorted({row["rank"] for row in rows}):
        of = [row["training"] / row["seeds"] for row in rows if row["rank"] == rank]
        model[f"seed_{rank}"] = float(np.median(of))
    return model


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| nodes | edges | rank | seeds/s | epoch, training | waiting for data | exact inference | peak memory |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        lines.append(
            f"| {row['nodes']:,} | {row['edges']:,} | {row['rank']} | {row['seeds'] / row['training']:,.0f} "
            f"| {row['training']:.1f} s | {100 * row['waiting']:.0f} % | {row['inference']:.1f} s "
            f"| {row['peak_gib']:.2f} GiB |"
        )
    return lines


def predictions(model: dict[str, float], rank: int = 32) -> list[str]:
    """A billion edges, with the degrees, features and shares of the graph that was measured."""
    factor = 1e9 / EDGES
    nodes, seeds = NODES * factor, 0.08 * NODES * factor
    disk = 8 * nodes + 4e9 + 4 * FEATURES * nodes + 9 * nodes
    scratch = 4 * nodes * (rank + 64 + 64 + CLASSES)
    infer = model["node"] * nodes + (model["edge"] + model["edge_rank"] * rank) * 1e9
    lines = [
        f"A billion edges, {nodes / 1e6:.0f} million nodes, rank {rank}: {disk / 1e9:.0f} GB on disk, "
        f"{scratch / 1e9:.0f} GB beside it while all nodes are asked about.",
        "",
        "| machines of 2 cores | epoch, training | exact inference |",
        "| --- | --- | --- |",
    ]
    for machines in (1, 8, 64):
        training = model[f"seed_{rank}"] * seeds / machines
        lines.append(f"| {machines} | {training / 60:.1f} min | {infer / 60:.1f} min |")
    return lines


def write(rows: list[dict[str, Any]], making: dict[str, float]) -> None:
    model = cost_model(rows)
    made = "; ".join(f"{name} in {seconds:.0f} s" for name, seconds in making.items() if seconds)
    text = [
        BEGIN,
        f"Machine: {machine()}.",
        "",
        *table(rows),
        "",
        *([f"Made by the generator: {made}.", ""] if made else []),
        "Exact inference takes "
        f"{1e9 * model['node']:.0f} ns a node, {1e9 * model['edge']:.2f} ns an edge and "
        f"{1e9 * model['edge_rank']:.3f} ns an edge and rank; training "
        + ", ".join(
            f"{1e6 * seconds:.0f} µs a seed at rank {name[5:]}"
            for name, seconds in model.items()
            if name.startswith("seed_")
        )
        + ".",
        "",
        *predictions(model),
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
    asked = parser.parse_args()
    if asked.one is not None:
        print(json.dumps(measure(os.fspath(asked.folder), asked.one)))
        return
    rows, making = [], {}
    for size in asked.sizes:
        path, seconds = graph(asked.folder, size)
        making[f"size {size:g}"] = seconds
        for rank in asked.ranks:
            print(f"measuring size {size:g}, rank {rank}", flush=True)
            rows.append(in_its_own_process("benchmarks.scale", path, "--one", rank))
            print(rows[-1], flush=True)
    write(rows, making)


if __name__ == "__main__":
    main()
