"""Construction of ``edge_index`` from a table: self-loops, duplicate edges and reverse edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tgnn.data.tables.schema import Schema
from tgnn.data.tables.table_file import TableData
from tgnn.data.validation.report import ValidationReport
from tgnn.data.validation.value_checks import duplicate_mask


def make_edges(
    ends: np.ndarray, num_nodes: int, schema: Schema, table: TableData, details: Sequence[str], report: ValidationReport
) -> tuple[np.ndarray, np.ndarray]:
    """Build ``edge_index``, sorted by target and then by source, and the table row of each edge.

    Args:
        ends: Source and target index of each row, ``[2, rows]``. Rows with -1 are dropped.
        num_nodes: Number of nodes.
        schema: What to do with self-loops, duplicate edges and directions.
        table: The edge table.
        details: Columns with weights and features. Without any, the returned rows are not meaningful.
        report: Collects every change.
    """
    rows = np.arange(ends.shape[1])
    rows = _drop(rows, (ends[0] < 0) | (ends[1] < 0))
    rows = _drop(rows, self_loops_to_drop(ends, schema, table, report))
    source, target = ends[:, rows] if len(rows) < ends.shape[1] else ends
    keys = target * num_nodes + source
    if (duplicate := duplicate_mask(keys)) is not None:
        _report_duplicates(rows, keys, duplicate, schema, table, details, report)
        if schema.duplicates == "merge":
            rows, keys = rows[~duplicate], keys[~duplicate]
    if schema.undirected:
        num_listed = len(keys)
        unique = duplicate is None or schema.duplicates == "merge"
        keys, order = _add_reverse_edges(keys, num_nodes, unique, rows=bool(details))
        added = len(keys) - num_listed
        text = f"{added:,} reverse edges added (set undirected: false in schema.yaml for a directed graph)"
        if not added and num_listed:
            text = "every edge is listed in both directions, so no reverse edges are added"
        report.add(table.places.finding("note", "undirected", text))
        rows = rows[order % num_listed] if details and num_listed else rows
    else:
        text = "the graph is read as directed, from source to target (undirected: false in schema.yaml)"
        report.add(table.places.finding("note", "directed", text))
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order], rows[order]
    target, source = np.divmod(keys, max(num_nodes, 1))
    return np.stack([source, target]), rows


def _drop(rows: np.ndarray, dropped: np.ndarray) -> np.ndarray:
    return rows[~dropped[rows]] if dropped.any() else rows


def self_loops_to_drop(ends: np.ndarray, schema: Schema, table: TableData, report: ValidationReport) -> np.ndarray:
    """Report self-loops and return a mask of the rows to drop."""
    loops: np.ndarray = (ends[0] == ends[1]) & (ends[0] >= 0)
    if loops.any():
        kept = schema.self_loops == "keep"
        text = "self-loop " + ("kept" if kept else "dropped; tGNN includes every node in its own neighborhood anyway")
        report.add(table.places.finding("note" if kept else "warning", "self-loop", text, loops))
        loops &= not kept
    return loops


def _report_duplicates(
    rows: np.ndarray,
    keys: np.ndarray,
    duplicate: np.ndarray,
    schema: Schema,
    table: TableData,
    details: Sequence[str],
    report: ValidationReport,
) -> None:
    kept = schema.duplicates == "keep"
    text = "duplicate edge " + ("kept; its source is counted more than once" if kept else "dropped")
    report.add(table.places.finding("warning", "duplicate-edge", text, rows[duplicate]))
    details = [name for name in details if not table.frame.schema[name].is_nested()]
    if not details or kept:
        return
    some = pl.Series(keys).is_duplicated()
    frame = table.frame.select(details)[rows[some.to_numpy()]].insert_column(0, pl.Series("(key)", keys).filter(some))
    other = ~frame.select(pl.struct(pl.all()).is_duplicated()).to_series().to_numpy()
    different = rows[some.to_numpy()][other]
    if len(different):
        text = f"duplicate edges differ in {', '.join(details[:5])}; the first row of each edge is used"
        report.add(table.places.finding("warning", "duplicate-edge-differs", text, different))


def _add_reverse_edges(keys: np.ndarray, num_nodes: int, unique: bool, rows: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted keys of all edges and their reverses, and the position in ``keys`` that each comes from."""
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
    pairs = np.flatnonzero(~first)  # an edge that is listed in both directions keeps the row of each direction
    order[pairs - 1] = np.minimum(order[pairs - 1], order[pairs])
    return both[first], order[first]


def _first_of_equals(in_order: np.ndarray) -> np.ndarray:
    first = np.ones(len(in_order), dtype=bool)
    np.not_equal(in_order[1:], in_order[:-1], out=first[1:])
    return first
