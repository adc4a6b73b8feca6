"""Reader of the TU collection's text files: ``NAME_A.txt``, ``NAME_graph_indicator.txt`` and so on."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.tensors import as_int64


def read_tu(
    folder: Path | str, name: str, attributes: bool = False, encoding: Mapping[str, Any] | None = None
) -> GraphDataset:
    """Read the graphs of a data set, as PyG's ``TUDataset`` does.

    Node and edge labels are one-hot encoded. Self-loops and duplicate edges are removed. Continuous node attributes are
    read with ``attributes``, and come before the labels in ``x``. With the ``encoding`` of data that was read before,
    labels and classes get the same indices.

    The tensors are equal to those of ``torch_geometric.io.read_tu_data`` on the files of MUTAG, PROTEINS, IMDB-BINARY
    and IMDB-MULTI. PyG's reader is not used for these reasons:

    - It takes 0.5 to 1.4 s where this one takes 0.02 to 0.05 s (PROTEINS and IMDB), because it parses lines in Python.
    - It accepts files whose nodes are not listed graph by graph and returns negative node indices. Its other errors
      do not name the file.
    - It cannot read graphs without edges and real-valued graph labels, and it adds up the labels of duplicate edges.
    - It cannot encode the labels of new files as those of the training data.
    """
    folder = Path(folder)
    for part in ("A", "graph_indicator", "graph_labels"):
        if not (folder / f"{name}_{part}.txt").exists():
            raise FileNotFoundError(f"{folder / f'{name}_{part}.txt'} does not exist; {name} needs it")
    if encoding is not None and encoding.get("kind") != "tu":
        raise ValueError(f"the encoding is for {encoding.get('kind')!r} data, but these are files of the TU collection")
    graph = _integers(_read(folder, name, "graph_indicator"), name, "graph_indicator")[:, 0] - 1
    labels = _read(folder, name, "graph_labels")[:, 0]
    if len(graph) and graph[0] < 0:
        raise ValueError(f"{name}_graph_indicator.txt must number graphs from 1, got {graph[0] + 1}")
    if (np.diff(graph) < 0).any():
        raise ValueError(f"{name}_graph_indicator.txt must list the nodes graph by graph")
    count = np.bincount(graph, minlength=len(labels))
    if len(count) != len(labels):
        raise ValueError(f"{name} has nodes of {len(count)} graphs but {len(labels)} graph labels")
    listed = _integers(_read(folder, name, "A", columns=2), name, "A")
    edges, kept = _clean_edges(listed.T - 1, len(graph), name)
    owner = graph[edges[0]]
    if (owner != graph[edges[1]]).any():
        raise ValueError(f"{name}_A.txt has an edge between nodes of two graphs")
    first = np.cumsum(count) - count
    arrays: dict[str, object] = {
        "num_nodes": count,
        "num_edges": np.bincount(owner, minlength=len(labels)),
        "edge_index": edges - first[owner],
        "directed": True,
    }
    new_encoding: dict[str, Any] = {"version": 1, "kind": "tu"}
    arrays["y"], new_encoding["target"] = _targets(labels, None if encoding is None else encoding["target"])
    parts = []
    if attributes and (folder / f"{name}_node_attributes.txt").exists():
        parts.append(_read(folder, name, "node_attributes", rows=len(graph)))
    for part, key, rows in (("node_labels", "nodes", len(graph)), ("edge_labels", "edges", len(listed))):
        if not (folder / f"{name}_{part}.txt").exists():
            continue
        numbers = _integers(_read(folder, name, part, rows=rows), name, part)
        new_encoding[key] = _label_encoding(numbers, part) if encoding is None else encoding.get(key, [])
        one_hot = _one_hot(numbers, new_encoding[key], f"{name}_{part}.txt")
        if key == "nodes":
            parts.append(one_hot)
        else:
            arrays["edge_attr"] = one_hot[kept]
    if parts:
        arrays["x"] = np.concatenate(parts, axis=1)
    return GraphDataset(arrays, encoding=new_encoding)


def _read(folder: Path, name: str, part: str, rows: int | None = None, columns: int | None = None) -> np.ndarray:
    """Read the numbers of a file, ``[rows, columns]``. An empty file has no rows."""
    path = folder / f"{name}_{part}.txt"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="loadtxt: input contained no data")
            values = np.loadtxt(path, delimiter=",", ndmin=2, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    values = values if values.size else values.reshape(0, columns or 1)
    if rows is not None and len(values) != rows:
        raise ValueError(f"{path} must have {rows} rows, got {len(values)}")
    if columns is not None and values.shape[1] != columns:
        raise ValueError(f"{path} must have {columns} columns, got {values.shape[1]}")
    return values


def _integers(values: np.ndarray, name: str, part: str) -> np.ndarray:
    numbers: np.ndarray = as_int64(values, f"{name}_{part}.txt").numpy()
    return numbers


def _clean_edges(edges: np.ndarray, nodes: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Remove self-loops and duplicates and sort. Also return the indices of the remaining edges."""
    if edges.size and (edges.min() < 0 or edges.max() >= nodes):
        node = edges.min() if edges.min() < 0 else edges.max()
        raise ValueError(f"{name}_A.txt contains node {node + 1}, but there are {nodes} nodes (1 to {nodes})")
    no_loops = np.flatnonzero(edges[0] != edges[1])
    _, first = np.unique(edges[0, no_loops] * nodes + edges[1, no_loops], return_index=True)
    kept = no_loops[first]
    return edges[:, kept], kept


def _targets(labels: np.ndarray, known: Mapping[str, Any] | None) -> tuple[np.ndarray, dict[str, Any]]:
    """Encode graph labels: integers as class indices (-1 for an unknown class), other numbers as regression targets."""
    if known is None and (labels != np.floor(labels)).any():
        return labels, {"task": "regression", "columns": ["graph_labels"]}
    if known is not None and known["task"] == "regression":
        return labels, dict(known)
    classes = np.unique(labels) if known is None else np.array(known["classes"], dtype=np.float64)
    y = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    y = np.where(classes[y] == labels, y, -1).astype(np.int64)
    return y, {"task": "classification", "columns": ["graph_labels"], "classes": classes.astype(np.int64).tolist()}


def _label_encoding(labels: np.ndarray, part: str) -> list[dict[str, Any]]:
    """Describe the one-hot encoding of each label column. All integers from the minimum to the maximum get a column."""
    names = [part] if labels.shape[1] == 1 else [f"{part}[{column}]" for column in range(labels.shape[1])]
    ranges = [range(column.min(), column.max() + 1) if len(column) else range(1) for column in labels.T]
    vocabularies = [[str(number) for number in numbers] for numbers in ranges]
    return [{"column": name, "kind": "categorical", "vocabulary": words} for name, words in zip(names, vocabularies)]


def _one_hot(labels: np.ndarray, columns: list[dict[str, Any]], file: str) -> np.ndarray:
    if len(columns) != labels.shape[1]:
        raise ValueError(f"{file} has {labels.shape[1]} columns, but the training data had {len(columns)}")
    blocks = []
    for column, encoding in zip(labels.T, columns):
        first, width = int(encoding["vocabulary"][0]), len(encoding["vocabulary"])
        numbers = column - first
        if ((numbers < 0) | (numbers >= width)).any():
            wrong, last = column[(numbers < 0) | (numbers >= width)][0], first + width - 1
            raise ValueError(f"{file} has the label {wrong}, but the training data had {first} to {last}")
        blocks.append(np.eye(width, dtype=np.float32)[numbers])
    return np.concatenate(blocks, axis=1)
