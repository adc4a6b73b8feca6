"""Tables larger than memory to a graph on disk: read block by block, never whole.

In memory are the ids, the labels and the parts of all nodes. The result is that of
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

from tgnn.data.on_disk.edge_table import add_edges, collect_ids, tell_rows
from tgnn.data.on_disk.feature_table import add_features, find_features
from tgnn.data.on_disk.writer import GraphWriter
from tgnn.data.split_protocols import labelled
from tgnn.data.splits import parts_of
from tgnn.data.tables.blocks import read_blocks, rows_of
from tgnn.data.tables.columns import Roles
from tgnn.data.tables.edge_endpoints import check_header, tell_missing, tell_repeated
from tgnn.data.tables.features import Features
from tgnn.data.tables.folder_reader import FolderReader, TableWithRoles
from tgnn.data.tables.ids import as_ids
from tgnn.data.tables.labels import read_labels
from tgnn.data.tables.split_column import read_split
from tgnn.data.tables.table_file import Table, TableFile, find
from tgnn.data.validation.report import Finding, Places, Report
from tgnn.data.validation.value_checks import check_labels
from tgnn.utils.progress import bar


def stream_tables(
    folder: Path | str,
    out: Path | str,
    *,
    leave_out: bool = False,
    overwrite: bool = False,
    block: int | None = None,
) -> Report:
    r"""Writes the graph of ``nodes`` and ``edges`` (CSV, TSV, also gzipped, or Parquet) to disk; says what is odd.

    Features must be numbers. Words, tokens, and edges that are to be kept twice are errors that say so.

    Args:
        folder: Where the tables are, and ``schema.yaml`` if the names of columns do not tell what they are.
        out: The folder of the graph, to be made.
        leave_out: Whether to leave out weights and features of edges, which a graph on disk cannot have.
        overwrite: Whether to write over a graph that is there.
        block: As :func:`~tgnn.data.tables.blocks.read_blocks` takes it.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "nodes.csv").write_text("id,age,label\nann,31,red\nbob,27,blue\ncarol,45,red\n")
        >>> _ = (folder / "edges.csv").write_text("source,target\nann,bob\nbob,carol\n")
        >>> print(stream_tables(folder, folder / "graph").statistics)
        {'nodes': 3, 'rows of edges': 2, 'edges': 4, 'features': 1, 'outputs': 2}
        >>> from tgnn.data import load
        >>> load(folder / "graph").in_edges.other.tolist()
        [1, 0, 2, 1]
    """
    out = Path(out)
    reading = FolderReader(folder, "table", None, None)
    report = reading.report
    if reading.schema.duplicates == "keep":
        raise ValueError(f"{folder}: duplicates: keep needs all edges at once; write a .npz, which is made in memory")
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        edges = _edges(reading, Path(scratch), leave_out)
        nodes = None
        if find(reading.folder, "nodes") is not None:
            source, roles = reading.locate("nodes", "nodes", True, Path(scratch))
            nodes = TableWithRoles(source, roles, _keys(source, roles, report, block))
        known = _Nodes.without_table(edges, report, block) if nodes is None else _Nodes.of(nodes, reading)
        if nodes is not None:
            check_header(edges, known.ids, report)
            report.raise_for_errors()
        features = [] if nodes is None else find_features(nodes, reading.schema, report, block)
        width = sum(encoding["width"] for encoding in features)
        encoding = _encoding(reading, features, known, edges, nodes)
        with GraphWriter(
            out,
            len(known.ids),
            num_edges=(1 + reading.schema.undirected) * rows_of(edges.source),
            row_bytes=4 * width + 9,
            encoding=encoding,
            merge=True,
            overwrite=overwrite,
        ) as writer:
            if nodes is not None and features:
                encoding["sparse"] = add_features(writer, nodes, features, reading.schema, report, block)
            if not features:
                report.add(Finding("warning", "no-features", "the nodes have no features"))
            writer.add_nodes(y=known.y, part=known.part)
            words, rows = add_edges(writer, edges, nodes, known.ids, reading.schema, report, block)
            writer.set_ids(known.ids.cast(pl.String) if words else known.ids)
            writer.sort_edges()
            tell_rows(edges, rows, writer.num_edges, reading.schema, report)
            outputs = 0 if known.y is None else len((known.target or {}).get("classes", [1]))
            report.statistics = {
                "nodes": writer.num_nodes,
                "rows of edges": rows_of(edges.source),
                "edges": writer.num_edges,
                "features": width,
                "outputs": outputs,
            }
            report.findings = merged(report.findings)
            report.raise_for_errors()
    return report


@dataclass
class _Nodes:
    """What is known of all nodes, in memory."""

    ids: pl.Series
    y: Tensor | None = None
    part: np.ndarray | None = None
    target: dict[str, Any] | None = None

    @classmethod
    def without_table(cls, edges: TableWithRoles, report: Report, block: int | None) -> _Nodes:
        ids = collect_ids(edges, report, block)
        check_header(edges, ids, report)
        report.raise_for_errors()
        return cls(ids)

    @classmethod
    def of(cls, nodes: TableWithRoles, reading: FolderReader) -> _Nodes:
        report, roles = reading.report, nodes.roles
        nodes.table.check_single(roles.of, report)
        report.raise_for_errors()
        known = cls(as_ids(nodes.column("id")))
        tell_missing(nodes, [known.ids], "a node without an id", report)
        tell_repeated(nodes, known.ids, "an id that was there before", report)
        report.raise_for_errors()
        has_label = None
        if roles.labels:
            known.y, known.target = read_labels(nodes.table, roles.labels, reading.schema, report)
            report.add(*check_labels(known.y, nodes.places, known.target.get("classes")))
            has_label = labelled(known.y)
        if "split" in roles.of:
            split = read_split(nodes.table, roles.of["split"], has_label, report)
            known.part = None if split is None else (parts_of(split) + 1).astype(np.uint8)
        report.raise_for_errors()
        return known


def _keys(source: TableFile, roles: Roles, report: Report, block: int | None) -> Table:
    """Ids, labels and parts of all nodes."""
    columns = [*roles.of.values(), *roles.labels]
    with bar(f"{source.name}: ids and labels", rows_of(source)) as tick:
        blocks = list(read_blocks(source, columns, roles.text(), report, tick, block))
    if not blocks:
        report.fail(Finding("error", "no-rows", "there are no rows below the header", source.name))
    frame = pl.concat([table.frame for table in blocks], how="vertical_relaxed", rechunk=True)
    return Table(source.name, frame, blocks[0].places)


def _edges(reading: FolderReader, scratch: Path, leave_out: bool) -> TableWithRoles:
    """The table of edges, of which nothing has been read."""
    source, roles = reading.locate("edges", "edges", scratch=scratch)
    kept = {role: roles.of[role] for role in ("source", "target")}
    more = [column for column in source.columns if column in roles.features or column == roles.of.get("weight")]
    more = [column for column in more if roles.features.get(column) != "ignore"]
    if more and not leave_out:
        raise ValueError(
            f"{source.name} has {', '.join(more[:5])}, and a graph on disk has no weights and no features of edges: "
            "give --leave-out (leave_out=True) to go without, or write a .npz, which keeps them"
        )
    empty = pl.DataFrame(schema=dict.fromkeys(kept.values(), pl.String))
    return TableWithRoles(source, replace(roles, of=kept, features={}), Table(source.name, empty, Places(source.name)))


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


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """What was found in several blocks of one table, as one. What has no places, and a note, is one only if it
    says the same.

    Example:
        >>> found = Finding("warning", "self-loop", "a loop", "edges.csv", places=(3,), count=1)
        >>> merged([found, replace(found, places=(9,))])[0]
        Finding(level='warning', code='self-loop', text='a loop', file='edges.csv', unit='line', places=(3, 9), count=2)
    """
    found: dict[tuple[str, str, str, str], Finding] = {}
    for finding in findings:
        text = "" if finding.count and finding.level != "note" else finding.text
        key = (finding.level, finding.code, finding.file, text)
        if key in found and finding.count:
            before = found[key]
            places = (*before.places, *finding.places)[:10]
            finding = replace(before, places=places, count=before.count + finding.count)
        found[key] = finding
    return list(found.values())
