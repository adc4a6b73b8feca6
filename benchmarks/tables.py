"""Measure reading of CSV tables with all checks in a separate process. Prints a JSON object.

python -m benchmarks.tables ID_TYPE NODES EDGES      ID_TYPE: int or str, the type of the node ids
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.measure import peak, reset_peak, resident
from tgnn.data.tables.read_folder import read_table


def write(folder: Path, id_type: str, nodes: int, edges: int) -> None:
    """Write CSV files of random nodes with two features and a label, and of random edges."""
    draw = np.random.default_rng(0)
    columns = {"source": draw.integers(nodes, size=edges), "target": draw.integers(nodes, size=edges)}
    nodes_frame = pl.DataFrame(
        {
            "id": draw.permutation(nodes),
            "a": draw.random(nodes, dtype=np.float32),
            "b": draw.integers(100, size=nodes),
            "label": draw.integers(10, size=nodes),
        }
    )
    edges_frame = pl.DataFrame(columns)
    if id_type == "str":
        nodes_frame = nodes_frame.with_columns(pl.format("user_{}", "id").alias("id"))
        edges_frame = edges_frame.with_columns(pl.format("user_{}", name).alias(name) for name in columns)
    nodes_frame.write_csv(folder / "nodes.csv")
    edges_frame.write_csv(folder / "edges.csv")


def main() -> None:
    id_type, (nodes, edges) = sys.argv[1], map(int, sys.argv[2:])
    with tempfile.TemporaryDirectory() as scratch:
        write(Path(scratch), id_type, nodes, edges)
        start = time.perf_counter()
        rows = pl.read_csv(Path(scratch) / "edges.csv").height
        parsed = time.perf_counter()
        reset_peak()
        before = resident()
        begin = time.perf_counter()
        data, report = read_table(scratch)
        done = time.perf_counter()
        results = {
            "parse": parsed - start,
            "read": done - begin,
            "extra_gib": peak() - before,
            "megabytes": (Path(scratch) / "edges.csv").stat().st_size / 1e6,
            "edges": data.num_edges,
            "found": len(report.findings),
        }
    assert rows == edges
    print(json.dumps(results))


if __name__ == "__main__":
    main()
