"""Block-wise conversion of an edge table to the edges of a graph on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tgnn.data.on_disk.writer import GraphWriter
from tgnn.data.tables.edge_endpoints import NO_ENDPOINT, EndpointLookup, check_missing_ids
from tgnn.data.tables.edges import self_loops_to_drop
from tgnn.data.tables.folder_reader import TableWithRoles
from tgnn.data.tables.schema import Schema
from tgnn.data.tables.table_file import BLOCK_CELLS
from tgnn.data.validation.report import Locations, ValidationReport
from tgnn.utils.progress import bar


def add_edges(
    writer: GraphWriter,
    parts: Iterable[TableWithRoles],
    lookup: EndpointLookup,
    schema: Schema,
    report: ValidationReport,
) -> int:
    """Write all edges. Return the number of rows that were written.

    Args:
        writer: Writer of the graph.
        parts: Blocks of the edge table.
        lookup: Index of the nodes.
        schema: What to do with self-loops, directions and edges to unknown nodes.
        report: Collects errors and warnings.
    """
    rows = 0
    for part in parts:
        ends = lookup.ends(part)
        report.raise_for_errors()
        dropped = (ends < 0).any(axis=0) | self_loops_to_drop(ends, schema, part.table, report)
        source, target = ends[:, ~dropped] if dropped.any() else ends
        rows += len(source)
        writer.add_edges(source, target)
        if schema.undirected:
            writer.add_edges(target, source)
    return rows


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


def read_parts(
    edges: TableWithRoles, what: str, report: ValidationReport, block_cells: int = BLOCK_CELLS
) -> Iterator[TableWithRoles]:
    """Yield the edge table in blocks. Missing ids are errors.

    Args:
        edges: The edge table without its rows.
        what: What is read, for the progress bar.
        report: Collects errors.
        block_cells: Number of cells of a table that are read at once.
    """
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
