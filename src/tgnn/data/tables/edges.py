"""Edges of a table: the nodes that each row connects, self-loops, duplicate edges and reverse edges."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from tgnn.data.tables.ids import Lookup, as_ids, positions, same_type, to_common_type
from tgnn.data.tables.schema import Schema
from tgnn.data.tables.table_file import Table, examples
from tgnn.data.validation.checks import duplicate_mask
from tgnn.data.validation.report import Reporter, quoted

NO_ENDPOINT = "the source or the target is missing"


def unique_ids(table: Table, what: str) -> pl.Series:
    """Return the ids of a table of nodes or graphs (``what``). Missing and duplicate ids are errors."""
    ids = as_ids(table.column("id"))
    check_missing_ids(table, [ids], f"the {what} id is missing")
    _check_duplicate_ids(table, ids, f"duplicate {what} id")
    return ids


def collect_ids(blocks: Iterable[Table]) -> pl.Series:
    """Return the sorted node ids of the blocks of an edge table: integers if all of them are integers, else strings."""
    found, waiting = pl.Series("id", [], dtype=pl.Int64), list[pl.Series]()
    for block in blocks:
        sides = to_common_type(block.column("source"), block.column("target"))
        waiting += [side.drop_nulls().unique() for side in sides]
        if sum(map(len, waiting)) > len(found):  # rarely, so that merging costs little
            found, waiting = _concat(same_type([found, *waiting])).unique(), []
    return _concat(same_type([found, *waiting])).unique().sort()


def graph_of_rows(table: Table, graph_ids: pl.Series) -> np.ndarray:
    """Return the index of the graph of each row."""
    row_ids, known_ids = to_common_type(table.column("graph"), graph_ids)
    graph = positions(row_ids, known_ids)
    text = f"unknown graph id {examples(row_ids, graph < 0)}; add it to the graph table or remove the row"
    table.error("dangling-graph", text, graph < 0)
    return graph


def check_missing_ids(table: Table, columns: list[pl.Series], text: str) -> None:
    """Report rows whose id is empty or NaN, as pandas writes a missing number."""
    columns = [column.fill_nan(None) if column.dtype.is_float() else column for column in columns]
    table.error("missing-id", text, np.any([column.is_null().to_numpy() for column in columns], axis=0))


def _check_duplicate_ids(table: Table, ids: pl.Series, text: str) -> None:
    duplicate = ~ids.is_first_distinct() & ids.is_not_null()
    table.error("duplicate-id", f"{text}: {examples(table.column('id'), duplicate)}", duplicate)


def check_header(file: Reporter, guessed: Iterable[str], ids: pl.Series) -> None:
    """Report a file without a header: a guessed column whose name is also a node id is probably a row."""
    ids_in_header = [name for name in guessed if bool((ids.cast(pl.String) == name).any())]
    if ids_in_header:
        names = quoted(ids_in_header)
        text = f"the header is missing: {names} in the first line is a node id; add a line of column names"
        file.error("no-header", text)


class EndpointLookup:
    """Index of the nodes of one graph, to look up the endpoints of an edge table block by block."""

    def __init__(self, ids: pl.Series, nodes: Table | None, schema: Schema, is_new: bool = False) -> None:
        self.ids = ids
        """Node ids. They become strings if an endpoint is a string."""
        self._lookup = Lookup(ids)
        self._nodes, self._schema, self._is_new = nodes, schema, is_new

    def ends(self, edges: Table) -> np.ndarray:
        """Return the source and target index of each row (-1 if unknown). With a node table, report unknown ids."""
        ids, *sides = same_type([self.ids, *to_common_type(edges.column("source"), edges.column("target"))])
        if ids.dtype != self.ids.dtype:
            self.ids, self._lookup = ids, Lookup(ids)
        if self._nodes is not None:
            check_header(self._nodes, self._nodes.roles.guessed, _concat(sides))
            edges.report.raise_for_errors()
        ends = np.stack([self._lookup.positions(side) for side in sides])
        if self._nodes is not None:
            _check_dangling_edges(edges, sides, ends, ids, self._nodes.name, self._schema, self._is_new)
        return ends


def resolve_endpoints(
    nodes: Table | None, edges: Table, schema: Schema, is_new: bool = False
) -> tuple[pl.Series, np.ndarray]:
    """Return the node ids of one graph and the source and target index of each edge row (-1 if unknown).

    Without a node table, the nodes are all ids in the edge table, sorted. For new data (``is_new``), errors do not
    refer to ``schema.yaml``, which is not read.
    """
    check_missing_ids(edges, [edges.column("source"), edges.column("target")], NO_ENDPOINT)
    ids = collect_ids([edges]) if nodes is None else unique_ids(nodes, "node")
    check_header(edges, edges.roles.guessed, ids)
    lookup = EndpointLookup(ids, nodes, schema, is_new)
    ends = lookup.ends(edges)
    return lookup.ids, ends


def resolve_endpoints_of_graphs(
    graph_ids: pl.Series, graph_of_node: np.ndarray, nodes: Table, edges: Table, schema: Schema, is_new: bool = False
) -> np.ndarray:
    """Return the rows of the node table that are source and target of each edge (-1 if unknown).

    Different graphs may use the same node ids if the edge table has a column ``graph``. ``is_new`` as for
    :func:`resolve_endpoints`.
    """
    ids, *sides = to_common_type(nodes.column("id"), edges.column("source"), edges.column("target"))
    check_missing_ids(nodes, [ids], "the node id is missing")
    check_missing_ids(edges, sides, NO_ENDPOINT)
    distinct = ids.drop_nulls().unique()
    node_key = graph_of_node * len(distinct) + positions(ids, distinct)
    if "graph" not in edges.roles.by_role:
        _check_duplicate_ids(nodes, ids, f"duplicate node id, which needs a column 'graph' in {edges.name}")
        edges.report.raise_for_errors()
        ends = np.stack([positions(side, ids) for side in sides])
        across = (ends >= 0).all(0) & (graph_of_node[ends[0]] != graph_of_node[ends[1]])
        edges.error("edge-between-graphs", "the source and the target are in different graphs", across)
    else:
        _check_duplicate_ids(nodes, pl.Series(node_key), "duplicate node id within a graph")
        graph = graph_of_rows(edges, graph_ids)
        edges.report.raise_for_errors()
        keys = [np.where((at := positions(side, distinct)) < 0, -1, graph * len(distinct) + at) for side in sides]
        ends = np.stack([positions(pl.Series(key), pl.Series(node_key)) for key in keys])
    _check_dangling_edges(edges, sides, ends, ids, f"the same graph of {nodes.name}", schema, is_new)
    return ends


def _check_dangling_edges(
    edges: Table, sides: list[pl.Series], ends: np.ndarray, ids: pl.Series, where: str, schema: Schema, is_new: bool
) -> None:
    """Report edges whose source or target is unknown: an error, or a warning with ``dangling: drop``."""
    rows = np.flatnonzero((ends < 0).any(0))
    unknown = [side[rows].filter(pl.Series(end[rows] < 0)) for side, end in zip(sides, ends)]
    unknown_ids = _concat(unknown).drop_nulls().unique(maintain_order=True)
    if not len(unknown_ids):  # missing ids are reported elsewhere
        return
    text = f"unknown node{'s' * (len(unknown_ids) > 1)} {quoted(unknown_ids)}, not in {where}"
    known, unknown_strings = ids.cast(pl.String), unknown_ids.cast(pl.String)
    nowhere = unknown_strings.filter(~unknown_strings.is_in(known.to_list()))  # not in another graph either
    if nowhere.str.strip_chars_start("0").is_in(known.str.strip_chars_start("0").to_list()).any():
        text += " (ids differ only in leading zeros; the program that wrote a table may have converted ids to numbers)"
    if schema.dangling == "drop":
        edges.warning("dangling-id", f"{text}; edge dropped", rows)
    else:
        solution = "remove these edges" if is_new else "drop such edges with dangling: drop in schema.yaml"
        edges.error("dangling-id", f"{text}; add the node, or {solution}", rows)


def _concat(columns: list[pl.Series]) -> pl.Series:
    return pl.concat([column.rename("id") for column in columns])


def make_edges(ends: np.ndarray, num_nodes: int, schema: Schema, table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Build ``edge_index``, sorted by target and then by source, and the table row of each edge.

    Rows whose source or target is -1 are dropped. All changes are reported. Without weights and features, the returned
    rows are not meaningful.
    """
    details = table.roles.details()
    dropped = (ends[0] < 0) | (ends[1] < 0)
    dropped |= self_loops_to_drop(ends, schema, table)
    rows = np.flatnonzero(~dropped)
    source, target = ends[:, rows] if len(rows) < ends.shape[1] else ends
    keys = target * num_nodes + source
    if (duplicate := duplicate_mask(keys)) is not None:
        _report_duplicates(table, rows, keys, duplicate, schema)
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
        table.note("undirected", text)
        rows = rows[order % num_listed] if details and num_listed else rows
    else:
        text = "the graph is read as directed, from source to target (undirected: false in schema.yaml)"
        table.note("directed", text)
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order], rows[order]
    target, source = np.divmod(keys, max(num_nodes, 1))
    return np.stack([source, target]), rows


def add_reverse_edges(edge_index: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Add the reverse of every edge that does not have one. Also return the edge that each new column comes from.

    If no edge is added, the edges are returned as they are, with ``None``.

    Example:
        >>> edges, rows = add_reverse_edges(np.array([[0, 1, 2], [1, 0, 1]]), 3)
        >>> edges.tolist(), rows.tolist()
        ([[1, 0, 2, 1], [0, 1, 1, 2]], [1, 0, 2, 2])
    """
    keys, order = _add_reverse_edges(edge_index[1] * num_nodes + edge_index[0], num_nodes, unique=False, rows=True)
    if len(keys) == edge_index.shape[1]:
        return edge_index, None
    target, source = np.divmod(keys, max(num_nodes, 1))
    return np.stack([source, target]), order


def self_loops_to_drop(ends: np.ndarray, schema: Schema, table: Table) -> np.ndarray:
    """Report self-loops and return a mask of the rows to drop."""
    loops: np.ndarray = (ends[0] == ends[1]) & (ends[0] >= 0)
    if schema.self_loops == "keep":
        table.note("self-loop", "self-loop kept", loops)
        return np.zeros_like(loops)
    table.warning("self-loop", "self-loop dropped; tGNN includes every node in its own neighborhood anyway", loops)
    return loops


def _report_duplicates(table: Table, rows: np.ndarray, keys: np.ndarray, duplicate: np.ndarray, schema: Schema) -> None:
    if schema.duplicates == "keep":
        table.warning("duplicate-edge", "duplicate edge kept; its source is counted more than once", rows[duplicate])
        return
    table.warning("duplicate-edge", "duplicate edge dropped", rows[duplicate])
    details = [name for name in table.roles.details() if not table.series[name].dtype.is_nested()]
    if not details:
        return
    some = pl.Series(keys).is_duplicated()
    frame = table.frame.select(details)[rows[some.to_numpy()]].insert_column(0, pl.Series("(key)", keys).filter(some))
    other = ~frame.select(pl.struct(pl.all()).is_duplicated()).to_series().to_numpy()
    text = f"duplicate edges differ in {', '.join(details[:5])}; the first row of each edge is used"
    table.warning("duplicate-edge-differs", text, rows[some.to_numpy()][other])


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
    first: np.ndarray = np.diff(in_order, prepend=-1) != 0  # keys are not negative
    return first
