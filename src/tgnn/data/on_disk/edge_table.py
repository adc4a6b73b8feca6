"""The table of edges, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tgnn.data.on_disk.writer import GraphWriter
from tgnn.data.tables.blocks import read_blocks, rows_of
from tgnn.data.tables.edge_endpoints import check_header, tell_dangling, tell_missing
from tgnn.data.tables.edges import loops_to_drop
from tgnn.data.tables.folder_reader import TableWithRoles
from tgnn.data.tables.ids import Lookup, alike
from tgnn.data.tables.schema import Schema
from tgnn.data.validation.report import Places, Report
from tgnn.utils.progress import bar


def collect_ids(edges: TableWithRoles, report: Report, block: int | None = None) -> pl.Series:
    """Everything that edges name, in order: numbers if all are, else words.

    Args:
        edges: Their table, of which nothing has been read.
        report: Takes what is odd.
        block: As :func:`~tgnn.data.tables.blocks.read_blocks` takes it.
    """
    found, waiting = pl.Series("id", [], dtype=pl.Int64), list[pl.Series]()
    for part in _parts(edges, report, block, "ids"):
        sides = alike(part.column("source"), part.column("target"))
        waiting += [side.rename("id").unique() for side in sides]
        if sum(map(len, waiting)) > len(found):  # now and then, so that it costs little
            found, waiting = _together([found, *waiting]), []
    return _together([found, *waiting]).sort()


def add_edges(
    writer: GraphWriter,
    edges: TableWithRoles,
    nodes: TableWithRoles | None,
    ids: pl.Series,
    schema: Schema,
    report: Report,
    block: int | None = None,
) -> tuple[bool, int]:
    """Gives all edges to the writer; says whether some of the ids that they name are words, and how many rows it took.

    Args:
        writer: Takes them.
        edges: Their table, of which nothing has been read.
        nodes: The table of nodes; ``None``: there is none.
        ids: Of the nodes.
        schema: What to do with loops, directions and edges to nowhere.
        report: Takes what is odd.
        block: As :func:`~tgnn.data.tables.blocks.read_blocks` takes it.
    """
    as_words: Lookup | None = None
    plain = Lookup(ids)
    words, rows = ids.dtype == pl.String, 0
    for part in _parts(edges, report, block, "edges"):
        sides = alike(part.column("source"), part.column("target"))
        words = words or sides[0].dtype == pl.String
        lookup = plain
        if sides[0].dtype != ids.dtype:  # the same number is the same word: whole numbers are written in one way only
            sides = [side.cast(pl.String) for side in sides]
            if ids.dtype != pl.String:
                lookup = as_words = as_words or Lookup(ids.cast(pl.String))
        ends = np.stack([lookup.positions(side) for side in sides])
        if nodes is not None:
            for side in sides:
                check_header(nodes, side, report)
            tell_dangling(part, sides, ends, ids, nodes.table.name, schema, report)
            report.raise_for_errors()
        dropped = (ends < 0).any(axis=0) | loops_to_drop(ends, schema, part.table, report)
        source, target = ends[:, ~dropped] if dropped.any() else ends
        rows += len(source)
        writer.add_edges(source, target)
        if schema.undirected:
            writer.add_edges(target, source)
    return words, rows


def tell_rows(edges: TableWithRoles, rows: int, num_edges: int, schema: Schema, report: Report) -> None:
    """What became of the rows as a whole. Which of them are doubles would take a look at all at once.

    Args:
        edges: Their table.
        rows: How many of its rows were given to the writer.
        num_edges: How many edges these are, each once.
        schema: Whether each stands for both directions.
        report: Takes it.
    """
    here = Places(edges.source.name)
    if not rows_of(edges.source):
        report.add(here.finding("warning", "no-rows", "there are no rows below the header"))
    again = rows - num_edges
    if again > 0:  # undirected, some more may be among those that are taken for the other direction
        text = f"{'at least ' * schema.undirected}{again:,} rows name an edge that was there before: dropped"
        report.add(here.finding("warning", "duplicate-edge", text))
    text = "edges go one way, from source to target, as they are listed (schema.yaml: undirected: false)"
    if schema.undirected:
        text = f"each edge stands for both directions: {rows:,} rows are {num_edges:,} edges, each there once"
    report.add(here.finding("note", "undirected" if schema.undirected else "directed", text))


def _parts(edges: TableWithRoles, report: Report, block: int | None, what: str) -> Iterator[TableWithRoles]:
    """The table in pieces without empty ids."""
    columns = [edges.roles.of["source"], edges.roles.of["target"]]
    with bar(f"{edges.source.name}: {what}", rows_of(edges.source)) as tick:
        for table in read_blocks(edges.source, columns, columns, report, tick, block):
            table.check_single(edges.roles.of, report)
            report.raise_for_errors()
            part = TableWithRoles(edges.source, edges.roles, table)
            sides = [part.column("source"), part.column("target")]
            tell_missing(part, sides, "an edge without a source or a target", report)
            report.raise_for_errors()
            yield part


def _together(columns: list[pl.Series]) -> pl.Series:
    if any(column.dtype == pl.String for column in columns):
        columns = [column.cast(pl.String) for column in columns]
    return pl.concat(columns).unique()
