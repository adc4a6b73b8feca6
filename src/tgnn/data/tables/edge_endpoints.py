"""Which nodes the edges of a table are between."""

from __future__ import annotations

import numpy as np
import polars as pl

from tgnn.data.tables.folder_reader import TableWithRoles
from tgnn.data.tables.ids import alike, positions
from tgnn.data.tables.schema import Schema
from tgnn.data.validation.report import Report, named


def number_nodes(
    nodes: TableWithRoles | None, edges: TableWithRoles, schema: Schema, report: Report
) -> tuple[pl.Series, np.ndarray]:
    """Ids of the nodes of one graph, and the numbers of the source and the target of each edge, -1: of no node.

    Args:
        nodes: Their table; ``None``: they are all that the edges name, in order.
        edges: Their table.
        schema: What to do with an edge to nowhere.
        report: Takes what is odd.
    """
    sides = [edges.column("source"), edges.column("target")]
    tell_missing(edges, sides, "an edge without a source or a target", report)
    if nodes is None:
        sides = alike(*sides)
        ids = _together(sides).drop_nulls().unique().sort()
        check_header(edges, ids, report)
        return ids, np.stack([positions(side, ids) for side in sides])
    ids, *sides = alike(nodes.column("id"), *sides)
    tell_missing(nodes, [ids], "a node without an id", report)
    tell_repeated(nodes, ids, "an id that was there before", report)
    check_header(nodes, _together(sides), report)
    check_header(edges, ids, report)
    report.raise_for_errors()
    ends = np.stack([positions(side, ids) for side in sides])
    tell_dangling(edges, sides, ends, ids, nodes.table.name, schema, report)
    return ids, ends


def number_nodes_of_graphs(
    graph_ids: pl.Series,
    owner: np.ndarray,
    nodes: TableWithRoles,
    edges: TableWithRoles,
    schema: Schema,
    report: Report,
) -> np.ndarray:
    """The rows of ``nodes`` that are source and target of each edge, -1: of no node.

    Args:
        graph_ids: In their order.
        owner: The graph of each node.
        nodes: Their table; ids may be the same in different graphs if ``edges`` say in which graph they are.
        edges: Their table.
        schema: What to do with an edge to nowhere.
        report: Takes what is odd.
    """
    ids, *sides = alike(nodes.column("id"), edges.column("source"), edges.column("target"))
    tell_missing(nodes, [ids], "a node without an id", report)
    tell_missing(edges, sides, "an edge without a source or a target", report)
    distinct = ids.drop_nulls().unique()
    node_key = owner * len(distinct) + positions(ids, distinct)
    if "graph" not in edges.roles.of:
        tell_repeated(nodes, ids, f"{edges.table.name} has no column 'graph', but an id is in several graphs", report)
        report.raise_for_errors()
        ends = np.stack([positions(side, ids) for side in sides])
        across = (ends >= 0).all(0) & (owner[ends[0]] != owner[ends[1]])
        if across.any():
            report.add(edges.places.finding("error", "edge-between-graphs", "its ends are in two graphs", across))
    else:
        tell_repeated(nodes, pl.Series(node_key), "an id that was there before in the same graph", report)
        graph = find_graphs(edges, graph_ids, report)
        report.raise_for_errors()
        keys = [np.where((at := positions(side, distinct)) < 0, -1, graph * len(distinct) + at) for side in sides]
        ends = np.stack([positions(pl.Series(key), pl.Series(node_key)) for key in keys])
    tell_dangling(edges, sides, ends, ids, f"{nodes.table.name} (of that graph)", schema, report)
    return ends


def find_graphs(part: TableWithRoles, graph_ids: pl.Series, report: Report) -> np.ndarray:
    """The number of the graph that each row is in."""
    asked, there = alike(part.column("graph"), graph_ids)
    graph = positions(asked, there)
    if (graph < 0).any():
        words = named(asked.filter(pl.Series(graph < 0)).unique(maintain_order=True))
        text = f"names graphs that are not in the table of graphs, {words}"
        report.add(part.places.finding("error", "dangling-graph", text, graph < 0))
    return graph


def tell_missing(part: TableWithRoles, columns: list[pl.Series], text: str, report: Report) -> None:
    """An error where an id is empty, or NaN, as pandas writes an empty number."""
    columns = [column.fill_nan(None) if column.dtype.is_float() else column for column in columns]
    missing = np.any([column.is_null().to_numpy() for column in columns], axis=0)
    if missing.any():
        report.add(part.places.finding("error", "missing-id", text, missing))


def tell_repeated(part: TableWithRoles, ids: pl.Series, text: str, report: Report) -> None:
    """An error where an id is there twice."""
    again = (~ids.is_first_distinct() & ids.is_not_null()).to_numpy()
    if again.any():
        words = part.column("id").filter(pl.Series(again)).unique(maintain_order=True)
        report.add(part.places.finding("error", "duplicate-id", f"{text}: {named(words)}", again))


def tell_dangling(
    edges: TableWithRoles,
    sides: list[pl.Series],
    ends: np.ndarray,
    ids: pl.Series,
    where: str,
    schema: Schema,
    report: Report,
) -> None:
    """An error, or a warning if that is wanted, where an edge names a node that is not there."""
    rows = np.flatnonzero((ends < 0).any(0))
    unknown = [side[rows].filter(pl.Series(end[rows] < 0)) for side, end in zip(sides, ends)]
    words = _together(unknown).drop_nulls().unique(maintain_order=True)
    if not len(words):  # an empty id has been told
        return
    text = f"names nodes that are not in {where}: {named(words)}"
    if not set(_without_zeros(words)).isdisjoint(_without_zeros(ids)):
        text += " (they would be but for zeros in front: something has taken one of the tables for numbers)"
    if schema.dangling == "drop":
        report.add(edges.places.finding("warning", "dangling-id", f"{text}; dropped", rows))
    else:
        way_out = "add them, or leave such edges out (schema.yaml: dangling: drop)"
        report.add(edges.places.finding("error", "dangling-id", f"{text}; {way_out}", rows))


def check_header(part: TableWithRoles, ids: pl.Series, report: Report) -> None:
    """A first line that is taken for names, but is an id elsewhere, is a row of a file without a header."""
    words = [name for name in part.roles.guessed if bool((ids.cast(pl.String) == name).any())]
    if words:
        text = f"the first line must name the columns, but {named(words)} is an id: put a line with names before it"
        report.add(part.places.finding("error", "no-header", text))


def _without_zeros(ids: pl.Series) -> list[str]:
    return ids.cast(pl.String).str.strip_chars_start("0").to_list()


def _together(columns: list[pl.Series]) -> pl.Series:
    return pl.concat([column.rename("id") for column in columns])
