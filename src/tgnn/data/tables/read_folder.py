"""Readers of one graph and of many graphs from a folder of tables (docs/own_data.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.splits import PARTS, Split, labeled_mask, split_codes
from tgnn.data.tables.columns import ColumnRoles, as_list, find_roles
from tgnn.data.tables.edges import (
    graph_of_rows,
    make_edges,
    resolve_endpoints,
    resolve_endpoints_of_graphs,
    unique_ids,
)
from tgnn.data.tables.features import apply, infer_encodings
from tgnn.data.tables.labels import (
    Target,
    graph_statistics,
    missing_labels_text,
    read_labels,
    read_split,
    target_statistics,
    warn_of_missing_label,
)
from tgnn.data.tables.numeric import Encoding, as_numbers, report_standardized
from tgnn.data.tables.schema import FILE, ReadOptions, make_schema, read_schema
from tgnn.data.tables.table_file import SUFFIXES, Table, TableFile, examples, find, open_table_file
from tgnn.data.tensors import keep_ids
from tgnn.data.validation.checks import (
    check_edge_weights,
    check_features,
    check_finite_features,
    check_isolated_nodes,
)
from tgnn.data.validation.report import Reporter, ValidationReport, quoted, subject

_STEMS = ("nodes", "edges", "graphs")
VERSION = 1
"""Version of ``data.encoding``."""
_DEFAULTS = ReadOptions()


def read_table(
    folder: Path | str,
    encoding: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
    options: ReadOptions = _DEFAULTS,
) -> tuple[Data, ValidationReport]:
    r"""Read one graph from ``nodes.csv`` and ``edges.csv`` (or TSV or Parquet).

    Without a node table, the nodes are the ids in the edge table and have no features. Invalid tables raise a
    :class:`~tgnn.data.validation.report.DataError` that lists all errors.

    Args:
        folder: Folder of the tables and of the optional ``schema.yaml``.
        encoding: ``data.encoding`` of the training data, to encode features and classes of new data the same way.
        schema: Schema as a dictionary, used instead of ``schema.yaml``.
        options: Columns to predict, column of ids and task, if they are not those of the schema.

    Shapes:
        - ``x`` ``[N, F]`` dense or sparse CSR
        - ``edge_index`` ``[2, E]``, ``edge_weight`` ``[E]``, ``edge_attr`` ``[E, D]``
        - ``y`` ``[N]`` or ``[N, T]``
        - ``train_mask``, ``val_mask``, ``test_mask`` ``[N]`` if the node table has a split column
        - ``node_id`` ``[N]``: ids of the table, a tensor or :class:`~tgnn.data.tensors.StringIds`
        - ``encoding``: JSON values

    Example:
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "nodes.csv").write_text("id,age,label\nann,31,red\nbob,27,blue\ncarol,45,red\n")
        >>> _ = (folder / "edges.csv").write_text("source,target\nann,bob\nbob,carol\n")
        >>> data, report = read_table(folder, schema={"standardize": False})
        >>> data.x.tolist(), data.edge_index.tolist(), data.y.tolist()
        ([[31.0], [27.0], [45.0]], [[1, 0, 2, 1], [0, 1, 1, 2]], [1, 0, 1])
        >>> data.node_id.tolist(), data.encoding["target"]["classes"]
        (['ann', 'bob', 'carol'], ['blue', 'red'])
    """
    reading = FolderReader(folder, "table", encoding, schema, options)
    report = reading.report
    if find(reading.folder, "graphs") is not None:
        raise ValueError(f"{folder} has a graph table. Read it with read_graph_tables.")
    nodes = None
    if find(reading.folder, "nodes") is not None:
        nodes = reading.open("nodes", "nodes", labels=True).read()
    edges = reading.open("edges", "edges").read()
    ids, ends = resolve_endpoints(nodes, edges, reading.schema, encoding is not None)
    edge_index, rows = make_edges(ends, len(ids), reading.schema, edges)
    of_nodes = Reporter(report, unit="node") if nodes is None else nodes
    check_isolated_nodes(edge_index, len(ids), of_nodes)
    details, edge_encodings = reading.edge_details(edges, rows)
    data = Data(edge_index=torch.from_numpy(edge_index), num_nodes=len(ids), node_id=keep_ids(ids), **details)
    encodings: Sequence[Encoding] = []
    target, roles = None, {"edges": edges.roles}
    if nodes is not None:
        roles["nodes"] = nodes.roles
        encodings, data.x = reading.features(nodes, may_be_sparse=True)
        data.y, target, split = reading.targets(nodes)
        if split is not None:
            data.train_mask, data.val_mask, data.test_mask = split.masks()
    if data.x is None:
        of_nodes.warning("no-features", "the nodes have no features")
    is_sparse = data.x is not None and data.x.layout == torch.sparse_csr
    data.encoding = reading.encoding(encodings, edge_encodings, target, roles, is_sparse)
    report.statistics = _statistics(data, edges.frame.height)
    report.raise_for_errors()
    return data, report


def read_graph_tables(
    folder: Path | str,
    encoding: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
    options: ReadOptions = _DEFAULTS,
) -> tuple[GraphDataset, ValidationReport]:
    r"""Read a data set of many graphs from ``graphs.csv``, ``nodes.csv`` and ``edges.csv`` (or TSV or Parquet).

    Node ids must be unique within a graph. If the edge table has no column ``graph``, node ids must be unique in the
    whole data set. All columns of the node table except the ids are features. The arguments are those of
    :func:`read_table`.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "graphs.csv").write_text("id,label\nfirst,0.5\nsecond,1.5\n")
        >>> _ = (folder / "nodes.csv").write_text("graph,id,size\nfirst,a,1\nfirst,b,2\nsecond,a,3\n")
        >>> _ = (folder / "edges.csv").write_text("graph,source,target\nfirst,a,b\n")
        >>> graphs, report = read_graph_tables(folder, schema={"standardize": False})
        >>> graphs[0].x.tolist(), graphs[0].edge_index.tolist(), graphs[0].y.tolist()
        ([[1.0], [2.0]], [[1, 0], [0, 1]], [0.5])
    """
    reading = FolderReader(folder, "graph tables", encoding, schema, options)
    report = reading.report
    graphs = reading.open("graphs", "graphs", labels=True).read()
    nodes, edges = (reading.open(stem, f"{stem} of graphs").read() for stem in ("nodes", "edges"))
    if unused := graphs.roles.details():
        text = f"{subject('column', unused, 'ignored', 'ignored')}; only nodes and edges have features"
        graphs.warning("ignored-column", text)
    ids = unique_ids(graphs, "graph")
    report.raise_for_errors()
    graph_of_node = graph_of_rows(nodes, ids)
    is_new = encoding is not None
    ends = resolve_endpoints_of_graphs(ids, graph_of_node, nodes, edges, reading.schema, is_new)
    report.raise_for_errors()

    order = np.argsort(graph_of_node, kind="stable")  # graph by graph
    number = np.empty(len(order) + 1, dtype=np.int64)
    number[order], number[-1] = np.arange(len(order)), -1
    edge_index, rows = make_edges(number[ends], len(order), reading.schema, edges)
    in_order = replace(nodes, numbers=lambda rows: nodes.numbers(order[rows]))
    check_isolated_nodes(edge_index, len(order), in_order)
    details, edge_encodings = reading.edge_details(edges, rows)
    encodings, x = reading.features(nodes)
    y, target, split = reading.targets(graphs)

    count = np.bincount(graph_of_node, minlength=len(ids))
    graphs.warning("empty-graph", "the graph has no nodes", count == 0)
    of_edge = graph_of_node[order][edge_index[1]]
    arrays: dict[str, object] = {
        "directed": True,
        "num_nodes": count,
        "num_edges": np.bincount(of_edge, minlength=len(ids)),
        "edge_index": edge_index - (np.cumsum(count) - count)[of_edge],
        **{name: values.numpy() for name, values in details.items()},
    }
    if x is None:
        nodes.warning("no-features", "the nodes have no features")
    else:
        arrays["x"] = x.numpy()[order]
    if y is not None:
        arrays["y"] = y.numpy()
    if split is not None:
        arrays["split"] = split_codes(split)
    report.statistics = graph_statistics(arrays, target)
    report.raise_for_errors()
    roles = {"graphs": graphs.roles, "nodes": nodes.roles, "edges": edges.roles}
    made = reading.encoding(encodings, edge_encodings, target, roles)
    return GraphDataset(arrays, graph_id=keep_ids(ids), encoding=made), report


class FolderReader:
    """Reader of a folder of tables.

    New data is read with the ``encoding`` of the training data, which replaces the schema. ``schema`` replaces
    ``schema.yaml``.
    """

    def __init__(
        self,
        folder: Path | str,
        kind: str,
        encoding: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | None = None,
        options: ReadOptions = _DEFAULTS,
    ) -> None:
        self.folder, self.known, self.options = Path(folder), encoding, options
        self.seen: dict[str, list[str]] = {}
        """Columns of each table that was opened."""
        self._examples: Literal["nodes", "graphs"] = "graphs" if kind == "graph tables" else "nodes"
        self.largest = 1.0 if encoding is None else float(encoding.get("largest_weight", 1))
        self.report = ValidationReport(str(folder), kind)
        file = Reporter(self.report, FILE)
        if encoding is None:
            try:
                self.schema = read_schema(self.folder) if schema is None else make_schema(schema)
            except ValueError as error:
                file.fail("schema", str(error))
            self.schema = options.apply(self.schema, self._examples)
            self._check_sections(file)
            return
        if encoding.get("version") != VERSION or encoding.get("kind") != kind:
            raise ValueError(
                f"encoding has the format {encoding.get('kind')!r} and the version {encoding.get('version')}, but "
                f"{folder} has the format {kind!r} and needs version {VERSION}."
            )
        self.schema = options.apply(make_schema(encoding["schema"]), self._examples)
        if (self.folder / FILE).exists():
            file.note("schema-unused", "the file is ignored because new data has the columns of the training data")

    def _check_sections(self, file: Reporter) -> None:
        """Report sections of the schema for tables that do not exist, which would have no effect."""
        there = [stem for stem in _STEMS if find(self.folder, stem) is not None]
        for stem in _STEMS:
            if stem not in there and getattr(self.schema, stem).model_dump(exclude_defaults=True):
                text = f"the section {stem!r} has no table {stem}.csv; the folder has {quoted(there)}"
                file.error("schema", text)
        self.report.raise_for_errors()

    def open(self, stem: str, part: str, *, labels: bool = False, scratch: Path | None = None) -> TableFile:
        """Find a table and assign roles to its columns. A missing table is an error.

        ``part`` is that of :func:`~tgnn.data.tables.columns.find_roles`. Files are decompressed in ``scratch``, or in
        memory without it.
        """
        path = find(self.folder, stem)
        if path is None:
            raise FileNotFoundError(
                f"{self.folder} has no table {stem} ({', '.join(f'{stem}{suffix}' for suffix in SUFFIXES)})."
            )
        file = open_table_file(path, self.report, scratch)
        given = getattr(self.schema, stem)
        if self.known is not None:
            if stem == self._examples:
                self._check_label_columns(file)
            present = set(file.columns)
            given_label = bool(self.options.target) and stem == self._examples
            roles = ("split",) if given_label else ("label", "split")  # new data may have no labels
            optional = {role: getattr(given, role, None) for role in roles}
            kinds = {one["column"]: one["kind"] for one in self.known.get(stem, []) if one["column"] in present}
            seen = set(self.known.get("seen", {}).get(stem, present))
            if extra := [column for column in file.columns if column not in seen]:
                text = subject("column", extra, "is", "are")
                file.warning("extra-column", f"{text} not in the training data and ignored")
            absent = {role: None for role, columns in optional.items() if not present.issuperset(as_list(columns))}
            given = given.model_copy(update=absent | {"features": kinds})
        guess = self.known is None
        found = find_roles(file, file.columns, part, given, labels=labels, guess=guess, is_unique=file.is_unique)
        if stem == self._examples:
            named = {"id": found.by_role.get("id"), "label": found.labels, "split": found.by_role.get("split")}
            self.report.columns = {role: columns for role, columns in named.items() if columns is not None}
        self.report.raise_for_errors()
        self.seen[stem] = list(file.columns)
        return replace(file, roles=found)

    def _check_label_columns(self, file: TableFile) -> None:
        """Report columns of labels of new data that are features of the model, or that are missing but needed."""
        assert self.known is not None
        features = {one["column"] for one in self.known.get(self._examples, [])}
        if wrong := [column for column in self.options.target if column in features]:
            text = subject("column", wrong, "is a feature", "are features")
            trained = quoted((self.known["target"] or {}).get("columns", ()))
            file.fail("columns", f"{text} of the model, so it cannot be the label; the label in training was {trained}")
        labels = as_list(getattr(self.schema, self._examples).label)
        missing = [column for column in labels if column not in file.columns]
        if missing and self.options.require_labels and not self.options.target:
            file.fail("columns", missing_labels_text(missing, file.columns))

    def features(
        self, table: Table, what: str = "feature", may_be_sparse: bool = False
    ) -> tuple[Sequence[Encoding], Tensor | None]:
        """Encode and check the features of a table, with the encoding of the training data for new data."""
        if self.known is not None:
            known = self.known[table.name.lower().partition(".")[0]]
            features = apply(table, known, is_new=True)
            matrix = features.matrix(may_be_sparse and self.known["sparse"])
            if matrix is not None:
                check_finite_features(matrix, table, what)
            return features.encodings, matrix
        features = apply(table, infer_encodings(table, self.schema))
        if features.encodings:
            table.note("features", f"features: {features.describe()}")
        report_standardized(table, features.encodings, features.sizes(), self.schema.standardize)
        matrix = features.matrix(may_be_sparse and features.is_sparse())
        if matrix is not None:
            check_features(matrix, table, features.names(), what)
        return features.encodings, matrix

    def targets(self, table: Table) -> tuple[Tensor | None, Target | None, Split | None]:
        """Read the labels of nodes or graphs, their description, and the user's own split. New data has no split."""
        y = target = split = None
        if not table.roles.labels and self.known is None:
            warn_of_missing_label(table, list(table.roles.features))
        if table.roles.labels:
            known = None if self.known is None else self.known["target"]
            y, target = read_labels(table, table.roles.labels, self.schema, known)
        if "split" in table.roles.by_role and (self.known is None or self.options.use_stored_split):
            split = read_split(table, table.roles.by_role["split"], None if y is None else labeled_mask(y))
        return y, target, split

    def edge_details(self, table: Table, rows: np.ndarray) -> tuple[dict[str, Tensor], Sequence[Encoding]]:
        """Return ``edge_weight`` and ``edge_attr`` of the edges that come from these rows, and the encodings."""
        found: dict[str, Tensor] = {}
        if "weight" in table.roles.by_role:
            weight = self._weights(table)
            column = table.roles.by_role["weight"]
            as_feature = f"read the column as an edge feature (edges: {{features: {{{column}: numeric}}}})"
            rescale = f"set scale_weights: true in schema.yaml, or {as_feature}"
            remove = f"remove the edge, or {as_feature}"
            if self.known is not None:  # schema.yaml of new data is not read
                rescale, remove = "rescale the weights as in the training data", "remove the edge"
            check_edge_weights(weight, table, rescale, remove)
            found["edge_weight"] = torch.from_numpy(weight[rows])
        encodings, matrix = self.features(table, "edge feature")
        if matrix is not None:
            found["edge_attr"] = matrix[torch.from_numpy(rows)]
        return found, encodings

    def _weights(self, table: Table) -> np.ndarray:
        values = table.column("weight")
        numbers = as_numbers(values).cast(pl.Float32)
        wrong = numbers.is_null() & values.is_not_null()
        table.error("not-a-number", f"the edge weight must be a number, got {examples(values, wrong)}", wrong)
        table.error("missing-weight", "the edge weight is missing", values.is_null())
        weight: np.ndarray = numbers.fill_null(0).to_numpy()
        if not self.schema.scale_weights:
            return weight
        if self.known is None:
            self.largest = max(1.0, float(weight.max(initial=0)))
        table.note("scaled-weights", f"edge weights are divided by {self.largest:g}, the largest weight")
        return weight / np.float32(self.largest)

    def encoding(
        self,
        nodes: Sequence[Encoding],
        edges: Sequence[Encoding],
        target: Target | None,
        roles: Mapping[str, ColumnRoles],
        sparse: bool = False,
    ) -> dict[str, Any]:
        """Return ``data.encoding``: everything needed to encode new data the same way, as JSON values."""
        if self.known is not None:
            return dict(self.known)
        columns = {stem: part.to_schema() for stem, part in roles.items()}
        return {
            "version": VERSION,
            "kind": self.report.format,
            "schema": self.schema.model_dump(mode="json", exclude=set(_STEMS)) | columns,
            "nodes": list(nodes),
            "edges": list(edges),
            "largest_weight": self.largest,
            "sparse": sparse,
            "target": target,
            "seen": self.seen,
        }


def _statistics(data: Data, edge_rows: int) -> dict[str, Any]:
    found = {"nodes": data.num_nodes, "edge rows": edge_rows, "edges": data.num_edges}
    if data.x is not None:
        found |= {"features": data.x.size(1), "sparse": data.encoding["sparse"]}
    if data.get("edge_attr") is not None:
        found["edge features"] = data.edge_attr.size(1)
    found |= target_statistics(data.encoding["target"], data.y)
    if "train_mask" in data:
        found |= {part: int(data[f"{part}_mask"].sum()) for part in PARTS}
    return found
