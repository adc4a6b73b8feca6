"""Lookup of the nodes that each row of an edge table connects."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from tgnn.data.tables.folder_reader import TableWithRoles
from tgnn.data.tables.ids import Lookup, as_ids, positions, to_common_type
from tgnn.data.tables.schema import Schema
from tgnn.data.validation.report import ValidationReport, quoted

NO_NODE_ID = "the node id is missing"
NO_ENDPOINT = "the source or the target is missing"


def resolve_endpoints(
    nodes: TableWithRoles | None, edges: TableWithRoles, schema: Schema, report: ValidationReport
) -> tuple[pl.Series, np.ndarray]:
    """Return the node ids of one graph and the source and target index of each edge row (-1 if unknown).

    Args:
        nodes: The node table. ``None``: the nodes are all ids in the edge table, sorted.
        edges: The edge table.
        schema: What to do with an edge to an unknown node.
        report: Collects errors and warnings.
    """
    check_missing_ids(edges, [edges.column("source"), edges.column("target")], NO_ENDPOINT, report)
    ids = collect_ids([edges]) if nodes is None else node_ids(nodes, report)
    check_header(edges, ids, report)
    lookup = EndpointLookup(ids, nodes, schema, report)
    ends = lookup.ends(edges)
    return lookup.ids, ends


def collect_ids(parts: Iterable[TableWithRoles]) -> pl.Series:
    """Return the sorted node ids of an edge table: integers if all of them are integers, else strings.

    Args:
        parts: Blocks of the edge table.
    """
    found, waiting = pl.Series("id", [], dtype=pl.Int64), list[pl.Series]()
    for part in parts:
        sides = to_common_type(part.column("source"), part.column("target"))
        waiting += [side.drop_nulls().unique() for side in sides]
        if sum(map(len, waiting)) > len(found):  # rarely, so that merging costs little
            found, waiting = _concat(_same_type([found, *waiting])).unique(), []
    return _concat(_same_type([found, *waiting])).unique().sort()


def node_ids(nodes: TableWithRoles, report: ValidationReport) -> pl.Series:
    """Return the ids of a node table. Missing and duplicate ids are errors.

    Args:
        nodes: The node table.
        report: Collects errors.
    """
    ids = as_ids(nodes.column("id"))
    check_missing_ids(nodes, [ids], NO_NODE_ID, report)
    check_duplicate_ids(nodes, ids, "duplicate node id", report)
    return ids


class EndpointLookup:
    """Index of the nodes of one graph, to look up the endpoints of an edge table block by block.

    Args:
        ids: Node ids.
        nodes: The node table, if any.
        schema: What to do with an edge to an unknown node.
        report: Collects errors and warnings.
    """

    def __init__(self, ids: pl.Series, nodes: TableWithRoles | None, schema: Schema, report: ValidationReport) -> None:
        self.ids = ids
        """Node ids. They become strings if an endpoint is a string."""
        self._lookup = Lookup(ids)
        self._nodes, self._schema, self._report = nodes, schema, report

    def ends(self, part: TableWithRoles) -> np.ndarray:
        """Return the source and target index of each row (-1 if unknown). With a node table, unknown ids are reported.

        Args:
            part: A block of the edge table.
        """
        ids, *sides = _same_type([self.ids, *to_common_type(part.column("source"), part.column("target"))])
        if ids.dtype != self.ids.dtype:
            self.ids, self._lookup = ids, Lookup(ids)
        if self._nodes is not None:
            check_header(self._nodes, _concat(sides), self._report)
            self._report.raise_for_errors()
        ends = np.stack([self._lookup.positions(side) for side in sides])
        if self._nodes is not None:
            check_dangling_edges(part, sides, ends, ids, self._nodes.table.name, self._schema, self._report)
        return ends


def resolve_endpoints_of_graphs(
    graph_ids: pl.Series,
    graph_of_node: np.ndarray,
    nodes: TableWithRoles,
    edges: TableWithRoles,
    schema: Schema,
    report: ValidationReport,
) -> np.ndarray:
    """Return the rows of the node table that are source and target of each edge (-1 if unknown).

    Args:
        graph_ids: Ids of all graphs.
        graph_of_node: Index of the graph of each node.
        nodes: The node table. Different graphs may use the same node ids if the edge table has a column ``graph``.
        edges: The edge table.
        schema: What to do with an edge to an unknown node.
        report: Collects errors and warnings.
    """
    ids, *sides = to_common_type(nodes.column("id"), edges.column("source"), edges.column("target"))
    check_missing_ids(nodes, [ids], NO_NODE_ID, report)
    check_missing_ids(edges, sides, NO_ENDPOINT, report)
    distinct = ids.drop_nulls().unique()
    node_key = graph_of_node * len(distinct) + positions(ids, distinct)
    if "graph" not in edges.roles.by_role:
        text = f"duplicate node id, which needs a column 'graph' in {edges.table.name}"
        check_duplicate_ids(nodes, ids, text, report)
        report.raise_for_errors()
        ends = np.stack([positions(side, ids) for side in sides])
        across = (ends >= 0).all(0) & (graph_of_node[ends[0]] != graph_of_node[ends[1]])
        if across.any():
            text = "the source and the target are in different graphs"
            report.add(edges.places.finding("error", "edge-between-graphs", text, across))
    else:
        check_duplicate_ids(nodes, pl.Series(node_key), "duplicate node id within a graph", report)
        graph = graph_of_rows(edges, graph_ids, report)
        report.raise_for_errors()
        keys = [np.where((at := positions(side, distinct)) < 0, -1, graph * len(distinct) + at) for side in sides]
        ends = np.stack([positions(pl.Series(key), pl.Series(node_key)) for key in keys])
    check_dangling_edges(edges, sides, ends, ids, f"the same graph of {nodes.table.name}", schema, report)
    return ends


def graph_of_rows(part: TableWithRoles, graph_ids: pl.Series, report: ValidationReport) -> np.ndarray:
    """Return the index of the graph of each row."""
    row_ids, known_ids = to_common_type(part.column("graph"), graph_ids)
    graph = positions(row_ids, known_ids)
    if (graph < 0).any():
        unknown = quoted(row_ids.filter(pl.Series(graph < 0)).unique(maintain_order=True))
        text = f"unknown graph id {unknown}; add it to the graph table or remove the row"
        report.add(part.places.finding("error", "dangling-graph", text, graph < 0))
    return graph


def check_missing_ids(part: TableWithRoles, columns: list[pl.Series], text: str, report: ValidationReport) -> None:
    """Report rows whose id is empty or NaN, as pandas writes a missing number."""
    columns = [column.fill_nan(None) if column.dtype.is_float() else column for column in columns]
    missing = np.any([column.is_null().to_numpy() for column in columns], axis=0)
    if missing.any():
        report.add(part.places.finding("error", "missing-id", text, missing))


def check_duplicate_ids(part: TableWithRoles, ids: pl.Series, text: str, report: ValidationReport) -> None:
    """Report rows whose id occurs in an earlier row."""
    duplicate = (~ids.is_first_distinct() & ids.is_not_null()).to_numpy()
    if duplicate.any():
        duplicate_ids = part.column("id").filter(pl.Series(duplicate)).unique(maintain_order=True)
        report.add(part.places.finding("error", "duplicate-id", f"{text}: {quoted(duplicate_ids)}", duplicate))


def check_dangling_edges(
    edges: TableWithRoles,
    sides: list[pl.Series],
    ends: np.ndarray,
    ids: pl.Series,
    where: str,
    schema: Schema,
    report: ValidationReport,
) -> None:
    """Report edges whose source or target is unknown: an error, or a warning with ``dangling: drop``."""
    rows = np.flatnonzero((ends < 0).any(0))
    unknown = [side[rows].filter(pl.Series(end[rows] < 0)) for side, end in zip(sides, ends)]
    unknown_ids = _concat(unknown).drop_nulls().unique(maintain_order=True)
    if not len(unknown_ids):  # missing ids are reported elsewhere
        return
    text = f"unknown node{'s' * (len(unknown_ids) > 1)} {quoted(unknown_ids)}, not in {where}"
    nowhere = unknown_ids.filter(
        ~unknown_ids.cast(pl.String).is_in(ids.cast(pl.String).to_list())
    )  # not in another graph either
    if not set(_without_leading_zeros(nowhere)).isdisjoint(_without_leading_zeros(ids)):
        text += " (ids differ only in leading zeros; the program that wrote a table may have converted ids to numbers)"
    if schema.dangling == "drop":
        report.add(edges.places.finding("warning", "dangling-id", f"{text}; edge dropped", rows))
    else:
        solution = "add the node, or drop such edges with dangling: drop in schema.yaml"
        report.add(edges.places.finding("error", "dangling-id", f"{text}; {solution}", rows))


def check_header(part: TableWithRoles, ids: pl.Series, report: ValidationReport) -> None:
    """Report a file without a header: a column name that is also a node id is probably a row."""
    ids_in_header = [name for name in part.roles.guessed if bool((ids.cast(pl.String) == name).any())]
    if ids_in_header:
        text = (
            f"the header is missing: {quoted(ids_in_header)} in the first line is a node id; add a line of column names"
        )
        report.add(part.places.finding("error", "no-header", text))


def _without_leading_zeros(ids: pl.Series) -> list[str]:
    return ids.cast(pl.String).str.strip_chars_start("0").to_list()


def _same_type(columns: list[pl.Series]) -> list[pl.Series]:
    """Convert integers to strings if any column has strings. An integer id has only one spelling as a string."""
    if any(column.dtype == pl.String for column in columns):
        return [column.cast(pl.String) for column in columns]
    return columns


def _concat(columns: list[pl.Series]) -> pl.Series:
    return pl.concat([column.rename("id") for column in columns])
