"""Edges as a graph wants them: between nodes that are there, each once, in both directions if it is undirected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tgnn.data.tables.schema import Schema
from tgnn.data.tables.table_file import Table
from tgnn.data.validation.report import Report
from tgnn.data.validation.value_checks import repeated


def make_edges(
    ends: np.ndarray, num_nodes: int, schema: Schema, table: Table, details: Sequence[str], report: Report
) -> tuple[np.ndarray, np.ndarray]:
    """The edges, by target and then by source, and the row of the table that each comes from.

    Args:
        ends: Numbers of the source and the target of each row, ``[2, rows]``; -1: of no node, which is dropped.
        num_nodes: How many nodes there are.
        schema: What to do with loops, doubles and directions.
        table: The rows.
        details: Columns with weights and features. Without any, the rows of the result are of no use, and not made.
        report: Takes all that is changed.
    """
    rows = np.arange(ends.shape[1])
    rows = _without(rows, (ends[0] < 0) | (ends[1] < 0))
    rows = _without(rows, loops_to_drop(ends, schema, table, report))
    source, target = ends[:, rows] if len(rows) < ends.shape[1] else ends
    keys = target * num_nodes + source
    if (again := repeated(keys)) is not None:
        _tell_doubles(rows, keys, again, schema, table, details, report)
        if schema.duplicates == "merge":
            rows, keys = rows[~again], keys[~again]
    if schema.undirected:
        listed = len(keys)
        unique = again is None or schema.duplicates == "merge"
        keys, order = _both_ways(keys, num_nodes, unique, rows=bool(details))
        added = len(keys) - listed
        text = f"each edge stands for both directions: {added:,} added (schema.yaml: undirected: false for as it is)"
        if not added and listed:
            text = "each edge is there in both directions already: none added"
        report.add(table.places.finding("note", "undirected", text))
        rows = rows[order % listed] if details and listed else rows
    else:
        text = "edges go one way, from source to target, as they are listed (schema.yaml: undirected: false)"
        report.add(table.places.finding("note", "directed", text))
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order], rows[order]
    target, source = np.divmod(keys, max(num_nodes, 1))
    return np.stack([source, target]), rows


def _without(rows: np.ndarray, dropped: np.ndarray) -> np.ndarray:
    return rows[~dropped[rows]] if dropped.any() else rows


def loops_to_drop(ends: np.ndarray, schema: Schema, table: Table, report: Report) -> np.ndarray:
    """Which rows to drop for being loops."""
    loops: np.ndarray = (ends[0] == ends[1]) & (ends[0] >= 0)
    if loops.any():
        kept = schema.self_loops == "keep"
        text = "an edge from a node to itself: " + ("kept" if kept else "dropped, as tGNN adds them all by itself")
        report.add(table.places.finding("note" if kept else "warning", "self-loop", text, loops))
        loops &= not kept
    return loops


def _tell_doubles(
    rows: np.ndarray,
    keys: np.ndarray,
    again: np.ndarray,
    schema: Schema,
    table: Table,
    details: Sequence[str],
    report: Report,
) -> None:
    kept = schema.duplicates == "keep"
    text = "an edge that was there before: " + ("kept, so that its source counts twice" if kept else "dropped")
    report.add(table.places.finding("warning", "duplicate-edge", text, rows[again]))
    details = [name for name in details if not table.frame.schema[name].is_nested()]
    if not details or kept:
        return
    some = pl.Series(keys).is_duplicated()
    frame = table.frame.select(details)[rows[some.to_numpy()]].insert_column(0, pl.Series("(key)", keys).filter(some))
    other = ~frame.select(pl.struct(pl.all()).is_duplicated()).to_series().to_numpy()
    odd = rows[some.to_numpy()][other]
    if len(odd):
        text = f"rows of one edge that differ in {', '.join(details[:5])}: the first of them counts"
        report.add(table.places.finding("warning", "duplicate-edge-differs", text, odd))


def _both_ways(keys: np.ndarray, num_nodes: int, unique: bool, rows: bool) -> tuple[np.ndarray, np.ndarray]:
    """Sorted, with all reverses; and where each comes from, counted on for the reverses that were not there."""
    target, source = np.divmod(keys, max(num_nodes, 1))
    reverse = source * num_nodes + target
    if not unique:
        missing = np.flatnonzero(~np.isin(reverse, keys))
        both, origin = np.concatenate([keys, reverse[missing]]), np.concatenate([np.arange(len(keys)), missing])
        order = np.argsort(both, kind="stable")
        return both[order], origin[order]
    both = np.concatenate([keys, reverse])
    if not rows:
        both.sort()
        return both[_first_of_equals(both)], np.empty(0, dtype=np.int64)
    order = np.argsort(both)
    both = both[order]
    first = _first_of_equals(both)
    pairs = np.flatnonzero(~first)  # an edge that is listed both ways: each way keeps its own row
    order[pairs - 1] = np.minimum(order[pairs - 1], order[pairs])
    return both[first], order[first]


def _first_of_equals(in_order: np.ndarray) -> np.ndarray:
    first = np.ones(len(in_order), dtype=bool)
    np.not_equal(in_order[1:], in_order[:-1], out=first[1:])
    return first
