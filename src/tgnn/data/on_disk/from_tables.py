"""Conversion of tables larger than memory to a graph on disk.

Tables are read in blocks. Only ids, labels and split of all nodes are in memory. The graph is the same as that of
:func:`~tgnn.data.tables.read_folder.read_table`, which reads tables into memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from tgnn.data.on_disk.writer import GraphWriter
from tgnn.data.splits import split_codes
from tgnn.data.tables.edges import (
    NO_ENDPOINT,
    EndpointLookup,
    check_header,
    check_missing_ids,
    collect_ids,
    self_loops_to_drop,
    unique_ids,
)
from tgnn.data.tables.features import SPARSE, WIDE, Features, apply
from tgnn.data.tables.numeric import Encoding, NumericColumn, report_standardized
from tgnn.data.tables.read_folder import FolderReader
from tgnn.data.tables.schema import ReadOptions, Schema
from tgnn.data.tables.table_file import BLOCK_CELLS, Table, TableFile, find
from tgnn.data.validation.checks import check_feature_ranges, check_finite_features
from tgnn.data.validation.report import Finding, ValidationReport, subject
from tgnn.utils.io import claim_folder
from tgnn.utils.progress import bar

_DEFAULTS = ReadOptions()


def stream_tables(
    folder: Path | str,
    out: Path | str,
    *,
    leave_out: bool = False,
    overwrite: bool = False,
    block_cells: int = BLOCK_CELLS,
    options: ReadOptions = _DEFAULTS,
) -> ValidationReport:
    """Convert tables of nodes and edges (CSV, TSV, also gzipped, or Parquet) to a graph on disk.

    Features must be numeric. Categories, tokens and ``duplicates: keep`` are errors, and so are edge weights and edge
    features without ``leave_out``, which drops them.

    Args:
        folder: Folder of the tables and of the optional ``schema.yaml``.
        out: Folder of the graph to create.
        leave_out: Whether to drop edge weights and edge features.
        overwrite: Whether to replace an existing graph.
        block_cells: Number of cells of a table that are read at once.
        options: Columns to predict, column of ids and task, if they are not those of the schema.

    Returns:
        The report with statistics, warnings and notes.
    """
    out = Path(out)
    reading = FolderReader(folder, "table", options=options)
    schema, report = reading.schema, reading.report
    if schema.duplicates == "keep":
        raise ValueError(
            f"{folder} has duplicates: keep in schema.yaml, which needs all edges in memory. "
            "Convert the tables to a .npz file instead."
        )
    with _scratch_folder(out.with_name(f".{out.name}.scratch")) as scratch:
        edges = _open_edges(reading, scratch, leave_out)
        nodes = keys = y = target = split = None
        if find(reading.folder, "nodes") is None:
            ids = collect_ids(_edge_blocks(edges, "ids", block_cells))
        else:
            nodes = reading.open("nodes", "nodes", labels=True, scratch=scratch)
            if not nodes.count_rows():
                nodes.fail("no-rows", "the table has no rows")
            keys = nodes.read([*nodes.roles.by_role.values(), *nodes.roles.labels])
            ids = unique_ids(keys, "node")
            y, target, split = reading.targets(keys)
        check_header(edges, edges.roles.guessed, ids)
        report.raise_for_errors()
        features = [] if nodes is None else _find_features(nodes, schema, block_cells)
        width, edge_rows = sum(encoding["width"] for encoding in features), edges.count_rows()
        roles = {"edges": edges.roles} | ({} if nodes is None else {"nodes": nodes.roles})
        encoding = reading.encoding(features, [], target, roles)
        with GraphWriter(
            out,
            len(ids),
            num_edges=(1 + schema.undirected) * edge_rows,
            row_bytes=4 * width + 9,
            encoding=encoding,
            merge=True,
            overwrite=overwrite,
        ) as writer:
            if nodes is not None and features:
                encoding["sparse"] = _add_features(writer, nodes, features, schema, block_cells)
            else:
                file = "" if nodes is None else nodes.name
                report.add(Finding("warning", "no-features", "the nodes have no features", file))
            writer.add_nodes(y=y, part=None if split is None else split_codes(split) + 1)
            lookup = EndpointLookup(ids, keys, schema)
            added_rows = _add_edges(writer, _edge_blocks(edges, "edges", block_cells), lookup, schema)
            writer.set_ids(lookup.ids)
            writer.sort_edges()
            _report_edges(edges, added_rows, writer.num_edges, schema)
            report.statistics = {
                "nodes": writer.num_nodes,
                "edge rows": edge_rows,
                "edges": writer.num_edges,
                "features": width,
                "outputs": 0 if y is None else len((target or {}).get("classes", [1])),
            }
            report.findings = merge_findings(report.findings)
            report.raise_for_errors()
    return report


def merge_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Merge the findings of several blocks of one table.

    Notes, filled numbers, and findings without line numbers are merged only if their texts are equal.
    """
    found: dict[tuple[str, str, str, str], Finding] = {}
    for finding in findings:
        is_column = finding.level == "note" or finding.code == "filled-number"
        text = "" if finding.count and not is_column else finding.message
        key = (finding.level, finding.code, finding.file, text)
        if key in found and finding.count:
            before = found[key]
            places = (*before.locations, *finding.locations)[:10]
            finding = replace(before, locations=places, count=before.count + finding.count)
        found[key] = finding
    return list(found.values())


# ---- features ----------------------------------------------------------------------------------------------------


def _find_features(nodes: TableFile, schema: Schema, block_cells: int) -> list[Encoding]:
    """Scan all feature columns and return their encodings. Columns that are not numeric are an error."""
    columns = [NumericColumn(name, kind) for name, kind in nodes.roles.features.items() if kind != "ignore"]
    if not columns:
        return []
    with bar(f"{nodes.name}: scanning features", nodes.count_rows()) as tick:
        for table in nodes.read_blocks([column.name for column in columns], tick, block_cells):
            for column in columns:
                column.update(table.series[column.name])
    used = []
    for column in columns:
        if column.width or column.kind is not None or column.unsupported:
            used.append(column)
        else:
            nodes.warning("empty-column", f"column {column.name!r} is empty and ignored")
    if not_numeric := [column.name for column in used if not column.is_numeric]:
        text = (
            f"{subject('column', not_numeric, 'is', 'are')} not numeric, but tables larger than memory can have "
            "numeric features only; ignore such columns (schema.yaml: nodes: features: "
            f"{not_numeric[0]}: ignore), or convert the tables to a .npz file in memory and that file to a folder"
        )
        nodes.fail("not-streamed", text)
    return [column.encoding(nodes, schema) for column in used]


def _add_features(
    writer: GraphWriter, nodes: TableFile, encodings: list[Encoding], schema: Schema, block_cells: int
) -> bool:
    """Write the features, and return whether the feature matrix is sparse."""
    columns, widths = [encoding["column"] for encoding in encodings], [encoding["width"] for encoding in encodings]
    report, nonzeros, features = nodes.report, 0, Features(0)
    least, most = np.full(sum(widths), np.inf), np.full(sum(widths), -np.inf)
    with bar(f"{nodes.name}: writing features", nodes.count_rows()) as tick:
        for table in nodes.read_blocks(columns, tick, block_cells):
            features = apply(table, encodings)
            report.raise_for_errors()
            matrix = features.matrix()
            assert matrix is not None
            check_finite_features(matrix, table)
            report.raise_for_errors()
            x = matrix.numpy()
            writer.add_nodes(x=x)
            nonzeros += int(np.count_nonzero(x))
            least, most = np.minimum(least, x.min(axis=0)), np.maximum(most, x.max(axis=0))
    if writer.num_nodes > 1:
        check_feature_ranges(least, most, nodes, features.names())
    report_standardized(nodes, encodings, np.maximum(-least, most), schema.standardize)
    return bool(sum(widths) >= WIDE and nonzeros <= SPARSE * writer.num_nodes * sum(widths))


# ---- edges -------------------------------------------------------------------------------------------------------


@contextmanager
def _scratch_folder(path: Path) -> Iterator[Path]:
    """Create a folder for temporary files, and remove it at the end. One that a killed process has left is replaced."""
    lock = claim_folder(path)
    try:
        yield path
    finally:
        lock.release()
        shutil.rmtree(path, ignore_errors=True)


def _open_edges(reading: FolderReader, scratch: Path, leave_out: bool) -> TableFile:
    """Open the edge table without reading its rows."""
    edges = reading.open("edges", "edges", scratch=scratch)
    details = edges.roles.details()
    if details and not leave_out:
        raise ValueError(
            f"{edges.name} has the columns {', '.join(details[:5])}, but a graph on disk cannot store edge weights or "
            "edge features. Drop them with --leave-out (leave_out=True), or write a .npz file, which keeps them."
        )
    kept = {role: edges.roles.by_role[role] for role in ("source", "target")}
    return replace(edges, roles=replace(edges.roles, by_role=kept, features={}))


def _edge_blocks(edges: TableFile, what: str, block_cells: int) -> Iterator[Table]:
    """Yield the edge table in blocks. Missing ids are errors."""
    columns = list(edges.roles.by_role.values())
    with bar(f"{edges.name}: reading {what}", edges.count_rows()) as tick:
        for block in edges.read_blocks(columns, tick, block_cells):
            check_missing_ids(block, [block.column("source"), block.column("target")], NO_ENDPOINT)
            block.report.raise_for_errors()
            yield block


def _add_edges(writer: GraphWriter, blocks: Iterable[Table], lookup: EndpointLookup, schema: Schema) -> int:
    """Write all edges. Return the number of rows that were written."""
    rows = 0
    for block in blocks:
        ends = lookup.ends(block)
        block.report.raise_for_errors()
        dropped = (ends < 0).any(axis=0) | self_loops_to_drop(ends, schema, block)
        source, target = ends[:, ~dropped] if dropped.any() else ends
        rows += len(source)
        writer.add_edges(source, target)
        if schema.undirected:
            writer.add_edges(target, source)
    return rows


def _report_edges(edges: TableFile, rows: int, num_edges: int, schema: Schema) -> None:
    """Report the number of duplicate edges, whose rows are not known, and whether the graph is directed."""
    if not edges.count_rows():
        edges.warning("no-rows", "the table has no rows")
    duplicates = rows - num_edges
    if duplicates > 0:  # in an undirected graph, more duplicates may look like reverse edges
        text = f"{'at least ' * schema.undirected}{duplicates:,} duplicate edges dropped"
        edges.warning("duplicate-edge", text)
    if not schema.undirected:
        text = "the graph is read as directed, from source to target (undirected: false in schema.yaml)"
        edges.note("directed", text)
        return
    text = f"with reverse edges, {rows:,} rows give {num_edges:,} edges (set undirected: false for a directed graph)"
    edges.note("undirected", text)
