"""The text files of the TU collection: ``NAME_A.txt``, ``NAME_graph_indicator.txt`` and what else there is."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.npz import whole


def read_tu(
    folder: Path | str, name: str, attributes: bool = False, encoding: Mapping[str, Any] | None = None
) -> GraphDataset:
    """Graphs of one data set, as PyG's ``TUDataset`` reads them: labels one-hot, no self-loops, no edge twice.

    Args:
        folder: Where the files are.
        name: Of the data set, as in the names of the files.
        attributes: Whether continuous node attributes come before the labels.
        encoding: ``graphs.encoding`` of what was read before: labels and classes are then numbered as there.

    Shapes:
        - ``x`` ``[nodes, attributes + labels]`` where there are any; ``edge_attr`` ``[edges, labels]``; ``y`` ``[1]``
    """
    folder = Path(folder)
    for part in ("A", "graph_indicator", "graph_labels"):
        if not (folder / f"{name}_{part}.txt").exists():
            raise FileNotFoundError(f"{folder / f'{name}_{part}.txt'} is missing: {name} needs it")
    if encoding is not None and encoding.get("kind") != "tu":
        raise ValueError(f"the encoding is one for {encoding.get('kind')}, and not of files of the TU collection")
    graph = _numbers(_read(folder, name, "graph_indicator"), name, "graph_indicator")[:, 0] - 1
    labels = _read(folder, name, "graph_labels")[:, 0]
    if len(graph) and graph[0] < 0:
        raise ValueError(f"{name}_graph_indicator.txt must count graphs from 1, got {graph[0] + 1}")
    if (np.diff(graph) < 0).any():
        raise ValueError(f"{name}_graph_indicator.txt does not list the nodes graph by graph")
    count = np.bincount(graph, minlength=len(labels))
    if len(count) != len(labels):
        raise ValueError(f"{name} has nodes of {len(count)} graphs, but labels of {len(labels)}")
    listed = _numbers(_read(folder, name, "A", columns=2), name, "A")
    edges, kept = _edges(listed.T - 1, len(graph), name)
    owner = graph[edges[0]]
    if (owner != graph[edges[1]]).any():
        raise ValueError(f"{name}_A.txt has an edge between two graphs")
    first = np.cumsum(count) - count
    arrays: dict[str, object] = {
        "num_nodes": count,
        "num_edges": np.bincount(owner, minlength=len(labels)),
        "edge_index": edges - first[owner],
        "directed": True,
    }
    made: dict[str, Any] = {"version": 1, "kind": "tu"}
    arrays["y"], made["target"] = _targets(labels, None if encoding is None else encoding["target"])
    parts = []
    if attributes and (folder / f"{name}_node_attributes.txt").exists():
        parts.append(_read(folder, name, "node_attributes", rows=len(graph)))
    if (folder / f"{name}_node_labels.txt").exists():
        labels = _read(folder, name, "node_labels", rows=len(graph))
        numbers = _numbers(labels, name, "node_labels")
        made["nodes"] = _columns(numbers, "node_labels") if encoding is None else encoding.get("nodes", [])
        parts.append(_one_hot(numbers, made["nodes"], f"{name}_node_labels.txt"))
    if parts:
        arrays["x"] = np.concatenate(parts, axis=1)
    if (folder / f"{name}_edge_labels.txt").exists():
        labels = _read(folder, name, "edge_labels", rows=len(listed))
        numbers = _numbers(labels, name, "edge_labels")
        made["edges"] = _columns(numbers, "edge_labels") if encoding is None else encoding.get("edges", [])
        arrays["edge_attr"] = _one_hot(numbers, made["edges"], f"{name}_edge_labels.txt")[kept]
    graphs = GraphDataset(arrays)
    graphs.encoding = made
    return graphs


def _read(folder: Path, name: str, part: str, rows: int | None = None, columns: int | None = None) -> np.ndarray:
    """The numbers of one file, ``[rows, columns]``; an empty file has no rows."""
    path = folder / f"{name}_{part}.txt"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="loadtxt: input contained no data")
            values = np.loadtxt(path, delimiter=",", ndmin=2, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    values = values if values.size else values.reshape(0, columns or 1)
    if rows is not None and len(values) != rows:
        raise ValueError(f"{path} has {len(values)} rows, but {rows} are needed")
    if columns is not None and values.shape[1] != columns:
        raise ValueError(f"{path} has {values.shape[1]} columns, but {columns} are needed")
    return values


def _numbers(values: np.ndarray, name: str, part: str) -> np.ndarray:
    numbers: np.ndarray = whole(values, f"{name}_{part}.txt").numpy()
    return numbers


def _edges(edges: np.ndarray, nodes: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Without self-loops and doubles, in order; and which of the given edges these are."""
    if edges.size and (edges.min() < 0 or edges.max() >= nodes):
        wrong = edges.min() if edges.min() < 0 else edges.max()
        raise ValueError(f"{name}_A.txt names node {wrong + 1}, but there are nodes 1 to {nodes}")
    places = np.flatnonzero(edges[0] != edges[1])
    _, first = np.unique(edges[0, places] * nodes + edges[1, places], return_index=True)
    kept = places[first]
    return edges[:, kept], kept


def _targets(labels: np.ndarray, known: Mapping[str, Any] | None) -> tuple[np.ndarray, dict[str, Any]]:
    """Numbers of classes (-1: a class that was not there before) where labels are whole numbers; and what they mean."""
    if known is None and (labels != np.floor(labels)).any():
        return labels, {"task": "regression", "columns": ["graph_labels"]}
    if known is not None and known["task"] == "regression":
        return labels, dict(known)
    classes = np.unique(labels) if known is None else np.array(known["classes"], dtype=np.float64)
    y = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    y = np.where(classes[y] == labels, y, -1).astype(np.int64)
    return y, {"task": "classes", "columns": ["graph_labels"], "classes": classes.astype(np.int64).tolist()}


def _columns(labels: np.ndarray, part: str) -> list[dict[str, Any]]:
    """How each column of labels is made one-hot: from the least to the largest, also those that are not there."""
    names = [part] if labels.shape[1] == 1 else [f"{part}[{place}]" for place in range(labels.shape[1])]
    ranges = [range(column.min(), column.max() + 1) if len(column) else range(1) for column in labels.T]
    words = [[str(number) for number in numbers] for numbers in ranges]
    return [{"column": name, "kind": "categorical", "vocabulary": own} for name, own in zip(names, words)]


def _one_hot(labels: np.ndarray, columns: list[dict[str, Any]], file: str) -> np.ndarray:
    if len(columns) != labels.shape[1]:
        raise ValueError(f"{file} has {labels.shape[1]} columns, but {len(columns)} were learned from")
    found = []
    for column, encoding in zip(labels.T, columns):
        first, width = int(encoding["vocabulary"][0]), len(encoding["vocabulary"])
        numbers = column - first
        if ((numbers < 0) | (numbers >= width)).any():
            wrong, last = column[(numbers < 0) | (numbers >= width)][0], first + width - 1
            raise ValueError(f"{file} has the label {wrong}, which was not learned from: {first} to {last}")
        found.append(np.eye(width, dtype=np.float32)[numbers])
    return np.concatenate(found, axis=1)
