"""Many graphs in a folder of tables: ``graphs``, ``nodes`` and ``edges``, the last two with a column ``graph``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from tgnn.data.readers.named_graphs import NamedGraphs, statistics_of
from tgnn.data.readers.word_ids import keep_ids
from tgnn.data.split_protocols import labelled
from tgnn.data.splits import parts_of
from tgnn.data.tables.edge_endpoints import find_graphs, number_nodes_of_graphs, tell_missing, tell_repeated
from tgnn.data.tables.edges import make_edges
from tgnn.data.tables.folder_reader import FolderReader, TableWithRoles
from tgnn.data.tables.ids import as_ids
from tgnn.data.tables.labels import read_labels
from tgnn.data.tables.split_column import read_split
from tgnn.data.validation.checks import isolated
from tgnn.data.validation.report import Places, Report, named
from tgnn.data.validation.value_checks import check_labels


def read_graph_tables(
    folder: Path | str, encoding: Mapping[str, Any] | None = None, schema: Mapping[str, Any] | None = None
) -> tuple[NamedGraphs, Report]:
    r"""A set of graphs; nothing loops over them.

    Ids of nodes need to be different only within a graph. Without a column ``graph``, edges are found by their ends,
    whose ids must then be different in all graphs. Everything in ``nodes`` beside the ids is a feature.

    Args:
        folder: Where the tables are, and ``schema.yaml`` if the names of columns do not tell what they are.
        encoding: ``graphs.encoding`` of what was read before: features and classes are then numbered as there.
        schema: In place of ``schema.yaml``.

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
        text = f"not used: {named(unused)}; features are of nodes and edges"
        report.add(graphs.places.finding("warning", "ignored-column", text))
    ids = as_ids(graphs.column("id"))
    tell_missing(graphs, [ids], "a graph without an id", report)
    tell_repeated(graphs, ids, "an id that was there before", report)
    report.raise_for_errors()
    owner = find_graphs(nodes, ids, report)
    ends = number_nodes_of_graphs(ids, owner, nodes, edges, reading.schema, report)
    report.raise_for_errors()

    order = np.argsort(owner, kind="stable")  # graph by graph
    number = np.empty(len(order) + 1, dtype=np.int64)
    number[order], number[-1] = np.arange(len(order)), -1
    edge_index, rows = make_edges(number[ends], len(order), reading.schema, edges.table, edges.details(), report)
    in_order = Places(nodes.places.file, nodes.places.unit, lambda places: nodes.places.numbers(order[places]))
    report.add(*isolated(edge_index, len(order), in_order))
    details, edge_features = reading.edge_details(edges, rows)
    features = reading.features(nodes, "nodes")
    y, target, split = _read_target(graphs, reading)

    arrays: dict[str, object] = {"directed": True} | {name: values.numpy() for name, values in details.items()}
    if y is not None:
        arrays["y"] = y.numpy()
    count = np.bincount(owner, minlength=len(ids))
    if (count == 0).any():
        report.add(graphs.places.finding("warning", "empty-graph", "a graph without nodes", count == 0))
    of_edge = owner[order][edge_index[1]]
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
        arrays["split"] = split
    report.statistics = statistics_of(arrays, target)
    report.raise_for_errors()
    made = reading.encoding(features, edge_features, target, parts) | {"sparse": False}
    return NamedGraphs(arrays, keep_ids(ids), made), report


def _read_target(
    graphs: TableWithRoles, reading: FolderReader
) -> tuple[Tensor | None, dict[str, Any] | None, np.ndarray | None]:
    """``y`` if there are labels; what it means; and the part that each graph is in, -1: none."""
    y = target = has_label = split = None
    known = None if reading.known is None else reading.known["target"]
    if graphs.roles.labels:
        y, target = read_labels(graphs.table, graphs.roles.labels, reading.schema, reading.report, known)
        reading.report.add(*check_labels(y, graphs.places, target.get("classes")))
        has_label = labelled(y)
    if "split" in graphs.roles.of and reading.known is None:
        found = read_split(graphs.table, graphs.roles.of["split"], has_label, reading.report)
        if found is not None:
            split = parts_of(found)
    return y, target, split
