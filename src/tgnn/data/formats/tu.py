"""The text files of the TU collection: ``NAME_A.txt``, ``NAME_graph_indicator.txt`` and what else there is."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from tgnn.data.formats.npz import whole
from tgnn.data.formats.packed import PackedGraphs


def read_tu(folder: Path | str, name: str, attributes: bool = False) -> PackedGraphs:
    """Graphs of one data set, as PyG's ``TUDataset`` reads them: labels one-hot, no self-loops, no edge twice.

    Args:
        folder: Where the files are.
        name: Of the data set, as in the names of the files.
        attributes: Whether continuous node attributes come before the labels.

    Shapes:
        - ``x`` ``[nodes, attributes + labels]`` where there are any; ``edge_attr`` ``[edges, labels]``; ``y`` ``[1]``
    """
    folder = Path(folder)
    for part in ("A", "graph_indicator", "graph_labels"):
        if not (folder / f"{name}_{part}.txt").exists():
            raise FileNotFoundError(f"{folder / f'{name}_{part}.txt'} is missing: {name} needs it")
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
        "y": _classes(labels) if (labels == np.floor(labels)).all() else labels,
    }
    parts = []
    if attributes and (folder / f"{name}_node_attributes.txt").exists():
        parts.append(_read(folder, name, "node_attributes", rows=len(graph)))
    if (folder / f"{name}_node_labels.txt").exists():
        labels = _read(folder, name, "node_labels", rows=len(graph))
        parts.append(_one_hot(_numbers(labels, name, "node_labels")))
    if parts:
        arrays["x"] = np.concatenate(parts, axis=1)
    if (folder / f"{name}_edge_labels.txt").exists():
        labels = _read(folder, name, "edge_labels", rows=len(listed))
        arrays["edge_attr"] = _one_hot(_numbers(labels, name, "edge_labels"))[kept]
    return PackedGraphs(arrays)


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


def _classes(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int64)


def _one_hot(labels: np.ndarray) -> np.ndarray:
    """One-hot columns for each column of labels."""
    if not len(labels):
        return np.empty(labels.shape, dtype=np.float32)
    numbers = [column - column.min() for column in labels.T]
    return np.concatenate([np.eye(n.max() + 1, dtype=np.float32)[n] for n in numbers], axis=1)
