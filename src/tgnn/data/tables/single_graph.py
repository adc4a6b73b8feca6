"""Reader of one graph from tables of nodes and edges (docs/own_data.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from tgnn.data.splits import PARTS
from tgnn.data.tables.edge_endpoints import resolve_endpoints
from tgnn.data.tables.edges import make_edges
from tgnn.data.tables.folder_reader import FolderReader, TableWithRoles
from tgnn.data.tables.labels import target_statistics
from tgnn.data.tables.table_file import find
from tgnn.data.tensors import keep_ids
from tgnn.data.validation.checks import check_isolated_nodes
from tgnn.data.validation.report import Locations, ValidationReport


def read_table(
    folder: Path | str, encoding: Mapping[str, Any] | None = None, schema: Mapping[str, Any] | None = None
) -> tuple[Data, ValidationReport]:
    r"""Read one graph from ``nodes.csv`` and ``edges.csv`` (or TSV or Parquet).

    Without a node table, the nodes are the ids in the edge table and have no features. Invalid tables raise a
    :class:`~tgnn.data.validation.report.DataError` that lists all errors.

    Args:
        folder: Folder of the tables and of the optional ``schema.yaml``.
        encoding: ``data.encoding`` of the training data, to encode features and classes of new data the same way.
        schema: Schema as a dictionary, used instead of ``schema.yaml``.

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
        >>> data, report = read_table(folder)
        >>> data.x.tolist(), data.edge_index.tolist(), data.y.tolist()
        ([[31.0], [27.0], [45.0]], [[1, 0, 2, 1], [0, 1, 1, 2]], [1, 0, 1])
        >>> data.node_id.tolist(), data.encoding["target"]["classes"]
        (['ann', 'bob', 'carol'], ['blue', 'red'])
    """
    reading = FolderReader(folder, "table", encoding, schema)
    if find(reading.folder, "graphs") is not None:
        raise ValueError(f"{folder} has a graph table. Read it with read_graph_tables.")
    nodes = reading.open("nodes", "nodes", labels=True) if find(reading.folder, "nodes") is not None else None
    edges = reading.open("edges", "edges")
    report = reading.report
    ids, ends = resolve_endpoints(nodes, edges, reading.schema, report)
    edge_index, rows = make_edges(ends, len(ids), reading.schema, edges.table, edges.details(), report)
    of_nodes = Locations(unit="node") if nodes is None else nodes.places
    report.add(*check_isolated_nodes(edge_index, len(ids), of_nodes))
    details, edge_features = reading.edge_details(edges, rows)
    data = Data(edge_index=torch.from_numpy(edge_index), num_nodes=len(ids), node_id=keep_ids(ids), **details)
    features = target = None
    if nodes is not None:
        features = reading.features(nodes, "nodes")
        data.y, target, split = reading.targets(nodes)
        if split is not None:
            data.train_mask, data.val_mask, data.test_mask = split.masks()
    parts = {"edges": edges} | ({} if nodes is None else {"nodes": nodes})
    data.encoding = reading.encoding(features, edge_features, target, parts)
    data.x = None if features is None else features.matrix(data.encoding["sparse"])
    if nodes is None or features is None:
        report.add(of_nodes.finding("warning", "no-features", "the nodes have no features"))
    else:
        reading.check(data.x, features, nodes)
    report.statistics = _statistics(data, edges)
    report.raise_for_errors()
    return data, report


def _statistics(data: Data, edges: TableWithRoles) -> dict[str, Any]:
    found = {"nodes": data.num_nodes, "edge rows": edges.frame.height, "edges": data.num_edges}
    if data.x is not None:
        found |= {"features": data.x.size(1), "sparse": data.encoding["sparse"]}
    if data.get("edge_attr") is not None:
        found["edge features"] = data.edge_attr.size(1)
    found |= target_statistics(data.encoding["target"], data.y)
    if "train_mask" in data:
        found |= {part: int(data[f"{part}_mask"].sum()) for part in PARTS}
    return found
