"""Reader of a data set of many graphs from tables of graphs, nodes and edges (docs/own_data.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.graph_statistics import graph_statistics
from tgnn.data.splits import split_codes
from tgnn.data.tables.edge_endpoints import (
    check_duplicate_ids,
    check_missing_ids,
    graph_of_rows,
    resolve_endpoints_of_graphs,
)
from tgnn.data.tables.edges import make_edges
from tgnn.data.tables.folder_reader import FolderReader
from tgnn.data.tables.ids import as_ids
from tgnn.data.tensors import keep_ids
from tgnn.data.validation.checks import check_isolated_nodes
from tgnn.data.validation.report import Locations, ValidationReport, quoted


def read_graph_tables(
    folder: Path | str, encoding: Mapping[str, Any] | None = None, schema: Mapping[str, Any] | None = None
) -> tuple[GraphDataset, ValidationReport]:
    r"""Read a data set of many graphs from ``graphs.csv``, ``nodes.csv`` and ``edges.csv`` (or TSV or Parquet).

    Node ids must be unique within a graph. If the edge table has no column ``graph``, node ids must be unique in the
    whole data set. All columns of the node table except the ids are features.

    Args:
        folder: Folder of the tables and of the optional ``schema.yaml``.
        encoding: ``graphs.encoding`` of the training data, to encode features and classes of new data the same way.
        schema: Schema as a dictionary, used instead of ``schema.yaml``.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "graphs.csv").write_text("id,label\nfirst,0.5\nsecond,1.5\n")
        >>> _ = (folder / "nodes.csv").write_text("graph,id,size\nfirst,a,1\nfirst,b,2\nsecond,a,3\n")
        >>> _ = (folder / "edges.csv").write_text("graph,source,target\nfirst,a,b\n")
        >>> graphs, report = read_graph_tables(folder)
        >>> graphs[0].x.tolist(), graphs[0].edge_index.tolist(), graphs[0].y.tolist()
        ([[1.0], [2.0]], [[1, 0], [0, 1]], [0.5])
    """
    reading = FolderReader(folder, "graph tables", encoding, schema)
    report = reading.report
    parts = {
        "graphs": reading.open("graphs", "graphs", labels=True),
        "nodes": reading.open("nodes", "nodes of graphs"),
        "edges": reading.open("edges", "edges of graphs"),
    }
    graphs, nodes, edges = parts.values()
    if unused := [name for name, kind in graphs.roles.features.items() if kind != "ignore"]:
        text = f"column{'s' * (len(unused) > 1)} {quoted(unused)} ignored; only nodes and edges have features"
        report.add(graphs.places.finding("warning", "ignored-column", text))
    ids = as_ids(graphs.column("id"))
    check_missing_ids(graphs, [ids], "the graph id is missing", report)
    check_duplicate_ids(graphs, ids, "duplicate graph id", report)
    report.raise_for_errors()
    graph_of_node = graph_of_rows(nodes, ids, report)
    ends = resolve_endpoints_of_graphs(ids, graph_of_node, nodes, edges, reading.schema, report)
    report.raise_for_errors()

    order = np.argsort(graph_of_node, kind="stable")  # graph by graph
    number = np.empty(len(order) + 1, dtype=np.int64)
    number[order], number[-1] = np.arange(len(order)), -1
    edge_index, rows = make_edges(number[ends], len(order), reading.schema, edges.table, edges.details(), report)
    in_order = Locations(nodes.places.file, nodes.places.unit, lambda places: nodes.places.numbers(order[places]))
    report.add(*check_isolated_nodes(edge_index, len(order), in_order))
    details, edge_features = reading.edge_details(edges, rows)
    features = reading.features(nodes, "nodes")
    y, target, split = reading.targets(graphs)

    arrays: dict[str, object] = {"directed": True} | {name: values.numpy() for name, values in details.items()}
    if y is not None:
        arrays["y"] = y.numpy()
    count = np.bincount(graph_of_node, minlength=len(ids))
    if (count == 0).any():
        report.add(graphs.places.finding("warning", "empty-graph", "the graph has no nodes", count == 0))
    of_edge = graph_of_node[order][edge_index[1]]
    arrays |= {
        "num_nodes": count,
        "num_edges": np.bincount(of_edge, minlength=len(ids)),
        "edge_index": edge_index - (np.cumsum(count) - count)[of_edge],
    }
    x = features.matrix()
    reading.check(x, features, nodes)
    if x is not None:
        arrays["x"] = x.numpy()[order]
    if split is not None:
        arrays["split"] = split_codes(split)
    report.statistics = graph_statistics(arrays, target)
    report.raise_for_errors()
    made = reading.encoding(features, edge_features, target, parts) | {"sparse": False}
    return GraphDataset(arrays, graph_id=keep_ids(ids), encoding=made), report
