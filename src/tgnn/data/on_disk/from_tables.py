"""Conversion of tables larger than memory to a graph on disk.

Tables are read in blocks. Only ids, labels and split of all nodes are in memory. The graph is the same as that of
:func:`~tgnn.data.tables.single_graph.read_table`, which reads tables into memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from torch import Tensor

from tgnn.data.on_disk.edge_table import add_edges, read_parts, report_edge_rows
from tgnn.data.on_disk.feature_table import add_features, find_features
from tgnn.data.on_disk.writer import GraphWriter
from tgnn.data.splits import split_codes
from tgnn.data.tables.columns import ColumnRoles
from tgnn.data.tables.edge_endpoints import EndpointLookup, check_header, collect_ids, node_ids
from tgnn.data.tables.features import Features
from tgnn.data.tables.folder_reader import FolderReader, TableWithRoles
from tgnn.data.tables.table_file import BLOCK_CELLS, TableData, TableFile, find
from tgnn.data.validation.report import Finding, Locations, ValidationReport


def stream_tables(
    folder: Path | str,
    out: Path | str,
    *,
    leave_out: bool = False,
    overwrite: bool = False,
    block_cells: int = BLOCK_CELLS,
) -> ValidationReport:
    r"""Convert tables of nodes and edges (CSV, TSV, also gzipped, or Parquet) to a graph on disk.

    Features must be numeric. Categories, tokens and ``duplicates: keep`` are errors.

    Args:
        folder: Folder of the tables and of the optional ``schema.yaml``.
        out: Folder of the graph to create.
        leave_out: Whether to drop edge weights and edge features, which a graph on disk cannot store. By default they
            are an error.
        overwrite: Whether to replace an existing graph.
        block_cells: Number of cells of a table that are read at once.

    Returns:
        The report with statistics, warnings and notes.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "nodes.csv").write_text("id,age,label\nann,31,red\nbob,27,blue\ncarol,45,red\n")
        >>> _ = (folder / "edges.csv").write_text("source,target\nann,bob\nbob,carol\n")
        >>> print(stream_tables(folder, folder / "graph").statistics)
        {'nodes': 3, 'edge rows': 2, 'edges': 4, 'features': 1, 'outputs': 2}
        >>> from tgnn.data import load
        >>> load(folder / "graph").in_edges.index.tolist()
        [1, 0, 2, 1]
    """
    out = Path(out)
    reading = FolderReader(folder, "table", None, None)
    report = reading.report
    if reading.schema.duplicates == "keep":
        raise ValueError(
            f"{folder} has duplicates: keep in schema.yaml, which needs all edges in memory. "
            "Convert the tables to a .npz file instead."
        )
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        edges = _open_edges(reading, Path(scratch), leave_out)
        nodes = None
        if find(reading.folder, "nodes") is not None:
            source, roles = reading.locate("nodes", "nodes", True, Path(scratch))
            nodes = TableWithRoles(source, roles, _read_keys(source, roles, report))
        if nodes is None:
            known = _Nodes(collect_ids(read_parts(edges, "ids", report, block_cells)))
        else:
            known = _Nodes.of(nodes, reading)
        check_header(edges, known.ids, report)
        report.raise_for_errors()
        features = [] if nodes is None else find_features(nodes, reading.schema, report, block_cells)
        width = sum(encoding["width"] for encoding in features)
        encoding = _encoding(reading, features, known, edges, nodes)
        with GraphWriter(
            out,
            len(known.ids),
            num_edges=(1 + reading.schema.undirected) * edges.source.count_rows(),
            row_bytes=4 * width + 9,
            encoding=encoding,
            merge=True,
            overwrite=overwrite,
        ) as writer:
            if nodes is not None and features:
                encoding["sparse"] = add_features(writer, nodes, features, reading.schema, report, block_cells)
            if not features:
                report.add(Finding("warning", "no-features", "the nodes have no features"))
            writer.add_nodes(y=known.y, part=known.part)
            lookup = EndpointLookup(known.ids, nodes, reading.schema, report)
            parts = read_parts(edges, "edges", report, block_cells)
            rows = add_edges(writer, parts, lookup, reading.schema, report)
            writer.set_ids(lookup.ids)
            writer.sort_edges()
            report_edge_rows(edges, rows, writer.num_edges, reading.schema, report)
            outputs = 0 if known.y is None else len((known.target or {}).get("classes", [1]))
            report.statistics = {
                "nodes": writer.num_nodes,
                "edge rows": edges.source.count_rows(),
                "edges": writer.num_edges,
                "features": width,
                "outputs": outputs,
            }
            report.findings = merge_findings(report.findings)
            report.raise_for_errors()
    return report


@dataclass
class _Nodes:
    """Ids, labels and split of all nodes."""

    ids: pl.Series
    y: Tensor | None = None
    part: np.ndarray | None = None
    target: dict[str, Any] | None = None

    @classmethod
    def of(cls, nodes: TableWithRoles, reading: FolderReader) -> _Nodes:
        nodes.table.check_scalar_columns(nodes.roles.by_role, reading.report)
        reading.report.raise_for_errors()
        ids = node_ids(nodes, reading.report)
        reading.report.raise_for_errors()
        y, target, split = reading.targets(nodes)
        reading.report.raise_for_errors()
        return cls(ids, y, None if split is None else (split_codes(split) + 1).astype(np.uint8), target)


def _read_keys(source: TableFile, roles: ColumnRoles, report: ValidationReport) -> TableData:
    """Read the id, label and split columns of all nodes."""
    if not source.count_rows():
        report.fail(Finding("error", "no-rows", "the table has no rows", source.name))
    return source.read(roles.text(), report, [*roles.by_role.values(), *roles.labels])


def _open_edges(reading: FolderReader, scratch: Path, leave_out: bool) -> TableWithRoles:
    """Open the edge table without reading its rows."""
    source, roles = reading.locate("edges", "edges", scratch=scratch)
    kept = {role: roles.by_role[role] for role in ("source", "target")}
    more = [column for column in source.columns if column in roles.features or column == roles.by_role.get("weight")]
    more = [column for column in more if roles.features.get(column) != "ignore"]
    if more and not leave_out:
        raise ValueError(
            f"{source.name} has the columns {', '.join(more[:5])}, but a graph on disk cannot store edge weights or "
            "edge features. Drop them with --leave-out (leave_out=True), or write a .npz file, which keeps them."
        )
    empty = pl.DataFrame(schema=dict.fromkeys(kept.values(), pl.String))
    return TableWithRoles(
        source, replace(roles, by_role=kept, features={}), TableData(source.name, empty, Locations(source.name))
    )


def _encoding(
    reading: FolderReader,
    features: list[dict[str, Any]],
    known: _Nodes,
    edges: TableWithRoles,
    nodes: TableWithRoles | None,
) -> dict[str, Any]:
    parts = {"edges": edges} | ({} if nodes is None else {"nodes": nodes})
    target: Mapping[str, Any] | None = known.target
    found = reading.encoding(None, Features(0), target, parts)
    return found | {"nodes": features}


def merge_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Merge the findings of several blocks of one table.

    Notes, and findings without line numbers, are merged only if their texts are equal.

    Example:
        >>> found = Finding("warning", "self-loop", "a loop", "edges.csv", locations=(3,), count=1)
        >>> merge_findings([found, replace(found, locations=(9,))])[0]
        Finding(level='warning', code='self-loop', message='a loop', ..., locations=(3, 9), count=2, values=())
    """
    found: dict[tuple[str, str, str, str], Finding] = {}
    for finding in findings:
        text = "" if finding.count and finding.level != "note" else finding.message
        key = (finding.level, finding.code, finding.file, text)
        if key in found and finding.count:
            before = found[key]
            places = (*before.locations, *finding.locations)[:10]
            finding = replace(before, locations=places, count=before.count + finding.count)
        found[key] = finding
    return list(found.values())
