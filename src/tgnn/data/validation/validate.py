"""The public entry point of validation, :func:`tgnn.data.validate`, and the checks of graphs on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from torch_geometric.data import Data

from tgnn.data.dataset_info import statistics
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk.disk_graph import DiskGraph
from tgnn.data.readers.detect import detect_format, read_path
from tgnn.data.tables.schema import ReadOptions
from tgnn.data.tensors import StringIds
from tgnn.data.validation.checks import check_feature_ranges, check_labels
from tgnn.data.validation.report import DataError, Finding, Reporter, ValidationReport
from tgnn.utils.io import sha256_of
from tgnn.utils.progress import bar

_TARGETS_AT_ONCE, _ROWS_AT_ONCE = 2**12, 2**16


def validate(path: str | os.PathLike[str], *, encoding: Mapping[str, Any] | None = None) -> ValidationReport:
    r"""Validate your own data and report its contents and every problem in it.

    Each finding names the file, the rows and the values concerned. Errors in the data are part of the report and are
    not raised. ``tgnn data check PATH`` prints the same report.

    Args:
        path: A folder of tables, a ``.npz`` file, a graph on disk, a folder of TU files or a CSV file of SMILES, as
            :func:`tgnn.data.load` accepts them.
        encoding: Encoding of the data that a model was trained on (``data.encoding``). Features and classes are then
            checked against it. Default: the encoding is inferred from the data.

    Returns:
        The report. ``report.ok`` is ``False`` if the data cannot be used, ``report.findings`` lists the problems, and
        ``print(report)`` shows all of it.

    Raises:
        FileNotFoundError: If there is no such file or folder.
        ValueError: If the format is not supported.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "edges.csv").write_text("source,target,weight\na,b,0.5\nb,c,7\n")
        >>> report = validate(folder)
        >>> report.ok
        False
        >>> [(finding.level, finding.file, finding.locations) for finding in report.findings if finding.locations]
        [('error', 'edges.csv', (3,))]
    """
    return inspect(Path(path), encoding)[1]


def inspect(
    path: Path, encoding: Mapping[str, Any] | None = None, options: ReadOptions | None = None
) -> tuple[Data | GraphDataset | DiskGraph | None, ValidationReport]:
    """Validate your own data as :func:`validate` does. Return the data, or ``None`` if it cannot be used."""
    try:
        if detect_format(path) != "graph on disk":
            data, report = read_path(path, encoding=encoding, options=options or ReadOptions())
            return data if report.ok else None, report
        report = _check_disk(path)
        return DiskGraph(path) if report.ok else None, report
    except DataError as error:
        return None, error.report


# ---- graphs on disk --------------------------------------------------------------------------------------------


def _check_disk(folder: Path | str) -> ValidationReport:
    """Verify the checksums of all files and validate the content of the graph."""
    graph = DiskGraph(folder, check=False)
    report = ValidationReport(str(folder), "graph on disk", statistics(graph))
    for check in (_check_files, _check_arrays, _check_edges, _check_nodes):
        check(graph, Reporter(report, unit="node"))
        if not report.ok:  # the next checks need valid data
            break
    return report


def _check_files(graph: DiskGraph, nodes: Reporter) -> None:
    size = sum(file.bytes for file in graph.manifest.files.values())
    with bar(f"{graph.folder.name}: verifying checksums of {size / 2**30:.2f} GiB", size, in_bytes=True) as tick:
        for name, file in graph.manifest.files.items():
            if sha256_of(graph.folder / name, tick) != file.sha256:
                text = "the SHA-256 differs from the stored one; copy the file again, or write the graph again"
                nodes.report.add(Finding("error", "damaged-file", text, name))


def _check_arrays(graph: DiskGraph, nodes: Reporter) -> None:
    for name, array in graph.arrays.items():
        if problem := graph.manifest.find_problem(name, array):
            nodes.report.add(Finding("error", "invalid-array", f"the array {problem}", name))


def _check_edges(graph: DiskGraph, nodes: Reporter) -> None:
    loops = duplicates = 0
    linked = np.zeros(graph.num_nodes, dtype=bool)
    with bar(f"{graph.folder.name}: checking {graph.num_edges:,} edges", graph.num_edges) as tick:
        for begin in range(0, graph.num_nodes, _TARGETS_AT_ONCE):
            ptr = graph.in_edges.ptr[begin : begin + _TARGETS_AT_ONCE + 1].numpy()
            source = graph.in_edges.index[ptr[0] : ptr[-1]].numpy().astype(np.int64)
            target = np.repeat(np.arange(begin, begin + len(ptr) - 1), np.diff(ptr))
            outside = (source < 0) | (source >= graph.num_nodes)
            if outside.any():
                text = f"an incoming edge has a source outside of 0 to {graph.num_nodes - 1}"
                nodes.error("dangling-id", text, np.unique(target[outside]))
                return
            others = source != target
            loops += len(source) - int(others.sum())
            linked[source[others]] = linked[target[others]] = True
            keys = np.sort((target - begin) * graph.num_nodes + source)
            duplicates += int((keys[1:] == keys[:-1]).sum())
            tick(len(source))
    nodes.report.statistics |= {"self-loops": loops, "duplicate edges": duplicates}
    if duplicates:
        text = f"{duplicates:,} duplicate edge{'s' * (duplicates > 1)}; a source is counted once per edge"
        nodes.report.add(Finding("warning", "duplicate-edge", text))
    text = "isolated node; its prediction depends on its own features only"
    nodes.note("isolated-node", text, ~linked)


def _check_nodes(graph: DiskGraph, nodes: Reporter) -> None:
    _check_features(graph, nodes)
    if graph.y is not None:
        check_labels(graph.y, nodes)
    try:
        ids = graph.node_id
    except ValueError as error:
        nodes.report.add(Finding("error", "wrong-ids", str(error)))
        return
    if ids is not None:
        series = ids.series if isinstance(ids, StringIds) else pl.Series(ids.numpy())
        text = "duplicate node id; predictions of these nodes cannot be distinguished"
        nodes.error("duplicate-id", text, ~series.is_first_distinct())


def _check_features(graph: DiskGraph, nodes: Reporter) -> None:
    if graph.x is None:
        nodes.report.add(Finding("note", "no-features", "the nodes have no features"))
        return
    least, most = np.full(graph.x.size(1), np.inf), np.full(graph.x.size(1), -np.inf)
    with bar(f"{graph.folder.name}: checking the features of {graph.num_nodes:,} nodes", graph.num_nodes) as tick:
        for begin in range(0, graph.num_nodes, _ROWS_AT_ONCE):
            rows = graph.x[begin : begin + _ROWS_AT_ONCE].numpy()
            invalid = ~np.isfinite(rows).all(axis=1)
            text = "a feature is infinite or NaN"
            if nodes.error("infinite-feature", text, np.flatnonzero(invalid) + begin):
                return
            least, most = np.minimum(least, rows.min(axis=0)), np.maximum(most, rows.max(axis=0))
            tick(len(rows))
    if graph.num_nodes > 1:
        check_feature_ranges(least, most, nodes)
