"""Public data written as tables of a user: nodes and edges, graphs, or molecules, with no recipe of their own.

scikit-learn's tables become graphs of nearest neighbors, and the molecules of MoleculeNet are lists of SMILES strings.
The task, the features and the split are then found as for any table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import StandardScaler

from tgnn.data.catalog.molecules import CHEMPROP, CHEMPROP_DATA
from tgnn.data.download.archive import extract
from tgnn.data.download.package_index import fetch_package
from tgnn.data.load import load
from tgnn.utils.cache_dir import make_cache_dir

_NEIGHBORS = 8
Source = tuple[str | None, bool]
"""Folder with the files of catalog data sets, and whether downloads are not allowed."""


@dataclass(frozen=True)
class OwnTask:
    """A task on tables.

    Args:
        level: ``"node"`` or ``"graph"``.
        write: Writes the tables into a folder and returns the path that ``tgnn train --data`` takes.
        options: What a user has to say about the tables, as ``section.key``.
    """

    level: str
    write: Callable[[Path, Source], Path]
    options: Mapping[str, Any] = field(default_factory=dict)


def _write_graph(folder: Path, features: Any, labels: Any, edges: Any) -> Path:
    """Write ``nodes.csv`` and ``edges.csv``. The feature columns are ``x0``, ``x1``, ..."""
    columns = {f"x{i}": column for i, column in enumerate(np.asarray(features).T)}
    pl.DataFrame({"id": np.arange(len(labels)), **columns, "label": np.asarray(labels)}).write_csv(folder / "nodes.csv")
    source, target = np.asarray(edges)
    once = source < target  # the reader adds the reverse edges
    pl.DataFrame({"source": source[once], "target": target[once]}).write_csv(folder / "edges.csv")
    return folder


def _nearest_neighbors(load_table: Callable[..., Any]) -> OwnTask:
    """Connect each row of a table of scikit-learn with its nearest rows. Labels of classes become words."""

    def write(folder: Path, source: Source) -> Path:
        table = load_table()
        labels = table.target_names[table.target] if "target_names" in table else table.target
        adjacency = kneighbors_graph(StandardScaler().fit_transform(table.data), _NEIGHBORS)
        return _write_graph(folder, table.data, labels, (adjacency + adjacency.T).nonzero())

    return OwnTask("node", write)


def _catalog_graph(name: str) -> OwnTask:
    """Write a graph of the catalog without its published split."""

    def write(folder: Path, source: Source) -> Path:
        data: Any = load(name, root=source[0], offline=source[1])
        dense = data.x.to_dense() if data.x.is_sparse_csr else data.x
        labels = [f"class {label}" for label in data.y.tolist()]
        return _write_graph(folder, dense.numpy(), labels, data.edge_index.numpy())

    return OwnTask("node", write)


def _catalog_graphs(name: str) -> OwnTask:
    """Write many graphs of the catalog: ``graphs.csv``, ``nodes.csv`` with one category per node, and ``edges.csv``."""

    def write(folder: Path, source: Source) -> Path:
        data: Any = load(name, root=source[0], offline=source[1])
        graphs = list(data)
        labels = [f"class {int(graph.y)}" for graph in graphs]
        nodes = [
            (i, v, f"type {kind}") for i, graph in enumerate(graphs) for v, kind in enumerate(graph.x[:, 0].tolist())
        ]
        edges = [(i, u, v) for i, graph in enumerate(graphs) for u, v in graph.edge_index.t().tolist() if u < v]
        pl.DataFrame({"graph": range(len(graphs)), "label": labels}).write_csv(folder / "graphs.csv")
        pl.DataFrame(nodes, ["graph", "id", "kind"], orient="row").write_csv(folder / "nodes.csv")
        pl.DataFrame(edges, ["graph", "source", "target"], orient="row").write_csv(folder / "edges.csv")
        return folder

    return OwnTask("graph", write)


def _molecules(file: str) -> OwnTask:
    """Write a list of molecules of MoleculeNet as it is in the archive."""

    def write(folder: Path, source: Source) -> Path:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            archive = fetch_package(CHEMPROP, make_cache_dir() / "archives", Path(scratch))
            extract(archive, CHEMPROP_DATA, Path(scratch))
            extract(Path(scratch) / "data.tar.gz", {f"data/{file}": file}, folder)
        return folder / file

    return OwnTask("graph", write)


TASKS: Mapping[str, OwnTask] = {
    "iris": _nearest_neighbors(load_iris),
    "wine": _nearest_neighbors(load_wine),
    "breast cancer": _nearest_neighbors(load_breast_cancer),
    "diabetes": _nearest_neighbors(load_diabetes),
    "digits": _nearest_neighbors(load_digits),
    "karate": _catalog_graph("karate"),
    "cora": _catalog_graph("cora"),
    "amazon computers": _catalog_graph("amazon-computers"),
    "mutag": _catalog_graphs("mutag"),
    "esol": _molecules("delaney.csv"),
    "freesolv": _molecules("freesolv.csv"),
    "lipophilicity": _molecules("lipo.csv"),
    "bbbp": _molecules("bbbp.csv"),
    "bace": _molecules("bace.csv"),
    "tox21": _molecules("tox21.csv"),
}
"""The tasks by name."""
