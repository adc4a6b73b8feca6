"""Block-wise conversion of an edge table to the edges of a graph on disk."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tgnn.data.on_disk.writer import GraphWriter
from tgnn.data.tables.edge_endpoints import NO_ENDPOINT, check_dangling_edges, check_header, check_missing_ids
from tgnn.data.tables.edges import self_loops_to_drop
from tgnn.data.tables.folder_reader import TableWithRoles
from tgnn.data.tables.ids import Lookup, to_common_type
from tgnn.data.tables.schema import Schema
from tgnn.data.tables.table_file import BLOCK_CELLS
from tgnn.data.validation.report import Locations, ValidationReport
from tgnn.utils.progress import bar


def collect_ids(edges: TableWithRoles, report: ValidationReport, block_cells: int = BLOCK_CELLS) -> pl.Series:
    """Collect the sorted node ids of an edge table: integers if all of them are integers, else strings.

    Args:
        edges: The edge table; its rows are read here.
        report: Collects errors.
        block_cells: Number of cells of a table that are read at once.
    """
    found, waiting = pl.Series("id", [], dtype=pl.Int64), list[pl.Series]()
    for part in _parts(edges, report, block_cells, "ids"):
        sides = to_common_type(part.column("source"), part.column("target"))
        waiting += [side.rename("id").unique() for side in sides]
        if sum(map(len, waiting)) > len(found):  # rarely, so that merging costs little
            found, waiting = _concat([found, *waiting]), []
    return _concat([found, *waiting]).sort()


def add_edges(
    writer: GraphWriter,
    edges: TableWithRoles,
    nodes: TableWithRoles | None,
    ids: pl.Series,
    schema: Schema,
    report: ValidationReport,
    block_cells: int = BLOCK_CELLS,
) -> tuple[bool, int]:
    """Write all edges. Return whether some ids are strings, and the number of rows that were written.

    Args:
        writer: Writer of the graph.
        edges: The edge table; its rows are read here.
        nodes: The node table, if any.
        ids: Node ids.
        schema: What to do with self-loops, directions and edges to unknown nodes.
        report: Collects errors and warnings.
        block_cells: Number of cells of a table that are read at once.
    """
    as_strings: Lookup | None = None
    plain = Lookup(ids)
    has_strings, rows = ids.dtype == pl.String, 0
    for part in _parts(edges, report, block_cells, "edges"):
        sides = to_common_type(part.column("source"), part.column("target"))
        has_strings = has_strings or sides[0].dtype == pl.String
        lookup = plain
        if sides[0].dtype != ids.dtype:  # an integer id has only one spelling as a string
            sides = [side.cast(pl.String) for side in sides]
            if ids.dtype != pl.String:
                lookup = as_strings = as_strings or Lookup(ids.cast(pl.String))
        ends = np.stack([lookup.positions(side) for side in sides])
        if nodes is not None:
            for side in sides:
                check_header(nodes, side, report)
            check_dangling_edges(part, sides, ends, ids, nodes.table.name, schema, report)
            report.raise_for_errors()
        dropped = (ends < 0).any(axis=0) | self_loops_to_drop(ends, schema, part.table, report)
        source, target = ends[:, ~dropped] if dropped.any() else ends
        rows += len(source)
        writer.add_edges(source, target)
        if schema.undirected:
            writer.add_edges(target, source)
    return has_strings, rows


def report_edge_rows(
    edges: TableWithRoles, rows: int, num_edges: int, schema: Schema, report: ValidationReport
) -> None:
    """Report the number of duplicate edges and whether the graph is directed.

    The rows of duplicate edges are not listed because that would need all edges in memory.

    Args:
        edges: The edge table.
        rows: Number of rows that were written.
        num_edges: Number of unique edges.
        schema: Whether the graph is undirected.
        report: Collects warnings and notes.
    """
    here = Locations(edges.source.name)
    if not edges.source.count_rows():
        report.add(here.finding("warning", "no-rows", "the table has no rows"))
    duplicates = rows - num_edges
    if duplicates > 0:  # in an undirected graph, more duplicates may look like reverse edges
        text = f"{'at least ' * schema.undirected}{duplicates:,} duplicate edges dropped"
        report.add(here.finding("warning", "duplicate-edge", text))
    text = "the graph is read as directed, from source to target (undirected: false in schema.yaml)"
    if schema.undirected:
        text = (
            f"with reverse edges, {rows:,} rows give {num_edges:,} edges (set undirected: false for a directed graph)"
        )
    report.add(here.finding("note", "undirected" if schema.undirected else "directed", text))


def _parts(edges: TableWithRoles, report: ValidationReport, block_cells: int, what: str) -> Iterator[TableWithRoles]:
    """Yield the edge table in blocks. Missing ids are errors."""
    columns = [edges.roles.by_role["source"], edges.roles.by_role["target"]]
    with bar(f"{edges.source.name}: reading {what}", edges.source.count_rows()) as tick:
        for table in edges.source.read_blocks(columns, columns, report, tick, block_cells):
            table.check_scalar_columns(edges.roles.by_role, report)
            report.raise_for_errors()
            part = TableWithRoles(edges.source, edges.roles, table)
            sides = [part.column("source"), part.column("target")]
            check_missing_ids(part, sides, NO_ENDPOINT, report)
            report.raise_for_errors()
            yield part


def _concat(columns: list[pl.Series]) -> pl.Series:
    if any(column.dtype == pl.String for column in columns):
        columns = [column.cast(pl.String) for column in columns]
    return pl.concat(columns).unique()
