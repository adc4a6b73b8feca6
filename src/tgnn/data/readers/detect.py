"""A path to data: tells what it is, and reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from tgnn.data.dataset_info import statistics
from tgnn.data.graph_dataset import GraphDataset, read_packed
from tgnn.data.on_disk.disk_graph import DiskGraph
from tgnn.data.on_disk.layout import FILE
from tgnn.data.readers.gnn_benchmark import read_gnn_benchmark
from tgnn.data.readers.npz import open_npz
from tgnn.data.readers.single import read_graph
from tgnn.data.readers.tu import read_tu
from tgnn.data.tables.multiple_graphs import read_graph_tables
from tgnn.data.tables.single_graph import read_table
from tgnn.data.tables.table_file import SUFFIXES, find
from tgnn.data.validation.checks import check_graph, check_graphs
from tgnn.data.validation.report import DataError, Finding, Report

ACCEPTED = """\
- a folder with edges.csv, and nodes.csv, for one graph; with graphs.csv as well for many (also .tsv, .csv.gz, .parquet)
- a .csv, .tsv, .csv.gz or .parquet file with a column of SMILES
- a folder of TU text files (NAME_A.txt, NAME_graph_indicator.txt, NAME_graph_labels.txt)
- a .npz of the gnn-benchmark collection, or one that tgnn data convert has written
- a folder with graph.json, which tgnn data convert or generate has written: a graph that stays on disk"""
_PICKLES = (".gpickle", ".pkl", ".pickle", ".gpickle.gz", ".pkl.gz", ".pickle.gz")
CONVERT = """\
import networkx, polars as pl  # with the graph of networkx in G
pl.DataFrame([{"id": n, **d} for n, d in G.nodes(data=True)]).write_csv("nodes.csv")
pl.DataFrame([{"source": u, "target": v, **d} for u, v, d in G.edges(data=True)]).write_csv("edges.csv")"""
"""The way out for a graph of NetworkX."""


def detect(path: Path | str) -> str:
    """Says what there is; what cannot be read is an error that says what can. Nothing is unpickled.

    ``"table"``, ``"graph tables"`` and ``"smiles"`` are the user's own, ``"graph"``, ``"packed"`` (many graphs) and
    ``"graph on disk"`` what ``tgnn data convert`` writes, ``"gnn-benchmark"`` and ``"tu"`` two collections.

    Args:
        path: Of a file or a folder.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "edges.csv").write_text("source,target")
        >>> detect(folder)
        'table'
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}")
    if path.is_dir():
        return _detect_folder(path)
    if path.name.endswith(_PICKLES):
        raise ValueError(
            f"{path} is a pickle: opening one runs whatever program is in it, so it is not opened. Write tables "
            f"instead, where you trust it, and give the folder that they are in:\n{CONVERT}"
        )
    if path.name.endswith(".npz"):
        return _detect_arrays(path)
    if path.name.endswith(SUFFIXES):
        if path.name.split(".")[0] in ("nodes", "edges", "graphs"):
            return _detect_folder(path.parent)
        return "smiles"
    raise _not_accepted(path)


def is_on_disk(path: Path | str) -> bool:
    """Whether :func:`detect` finds a graph on disk there; what cannot be read is none, and is told by who reads it.

    Args:
        path: Of a folder, or any other name of data.
    """
    folder = Path(path).expanduser()
    if not path or not (folder / FILE).is_file():
        return False
    try:
        return detect(folder) == "graph on disk"
    except ValueError:
        return False


def read_path(
    path: Path | str, *, encoding: Mapping[str, Any] | None = None
) -> tuple[Data | GraphDataset | DiskGraph, Report]:
    """Reads what is there, whatever it is, and says what is odd in it.

    Args:
        path: Of a file or a folder: anything that :func:`detect` knows.
        encoding: Of tables or SMILES that were read before, to number features and classes as there.
    """
    path, kind = Path(path), detect(path)
    if kind in ("table", "graph tables"):
        folder = path if path.is_dir() else path.parent
        return read_table(folder, encoding) if kind == "table" else read_graph_tables(folder, encoding)
    if kind == "smiles":
        from tgnn.data.readers.smiles import read_smiles_csv  # RDKit is an extra

        return read_smiles_csv(path, encoding=encoding)
    report = Report(str(path), kind)
    if kind == "graph on disk":  # what is in it is not looked at: that takes as long as reading all of it
        graph = DiskGraph(path)
        report.statistics = statistics(graph)
        return graph, report
    if kind in ("gnn-benchmark", "graph"):
        data = read_gnn_benchmark(path) if kind == "gnn-benchmark" else read_graph(path)
        report.statistics = statistics(data)
        report.add(*check_graph(data))
        return data, report
    graphs = read_packed(path) if kind == "packed" else _read_tu(path, encoding, report)
    report.statistics = statistics(graphs)
    report.add(*check_graphs(graphs))
    return graphs, report


def check_path(path: Path | str, *, encoding: Mapping[str, Any] | None = None) -> Report:
    """The report on what is there; errors in the data are in it, and not raised.

    Args:
        path: As :func:`read_path` takes it.
        encoding: As :func:`read_path` takes it.
    """
    try:
        if detect(path) == "graph on disk":
            from tgnn.data.on_disk.integrity import check_disk  # which reads all of it

            return check_disk(path)
        return read_path(path, encoding=encoding)[1]
    except DataError as error:
        return error.report


def _detect_folder(path: Path) -> str:
    if find(path, "graphs") is not None:
        return "graph tables"
    if find(path, "edges") is not None:
        return "table"
    if (path / FILE).is_file():
        return "graph on disk"
    if find(path, "nodes") is not None:
        raise ValueError(f"{path} has nodes, but no edges.csv, which says which of them are linked")
    for folder in (path, path / "raw"):
        if list(folder.glob("*_A.txt")):
            return "tu"
        if names := sorted(file.name.split(".")[1] for file in folder.glob("ind.*.graph")):
            raise ValueError(
                f"{folder} has the files of Planetoid, which are pickles and are opened only if they are the published "
                f"ones: tgnn data fetch {names[0]}, or load({names[0]!r}, root=...)"
            )
    raise _not_accepted(path)


def _detect_arrays(path: Path) -> str:
    with open_npz(path, "a .npz file") as file:
        names = list(file.files)
        many = "num_nodes" in names and file["num_nodes"].ndim == 1
    if "adj_indptr" in names:
        return "gnn-benchmark"
    if "num_nodes" in names:
        return "packed" if many else "graph"
    raise ValueError(
        f"{path} has the arrays {', '.join(names[:10])}, which is neither the gnn-benchmark collection (adj_data, "
        "adj_indptr, ...) nor packed graphs (num_nodes, edge_index, ...)"
    )


def _read_tu(path: Path, encoding: Mapping[str, Any] | None, report: Report) -> GraphDataset:
    """Attributes are read where there are no labels of nodes, else they would have no features at all."""
    folder = path if list(path.glob("*_A.txt")) else path / "raw"
    names = sorted(file.name.removesuffix("_A.txt") for file in folder.glob("*_A.txt"))
    if len(names) > 1:
        raise ValueError(f"{folder} has several data sets, {', '.join(names)}: give a folder with one of them")
    attributes = not (folder / f"{names[0]}_node_labels.txt").exists()
    for part in ("edge_attributes", *(() if attributes else ("node_attributes",))):
        if (folder / f"{names[0]}_{part}.txt").exists():
            text = "not used: only labels are read" if part == "node_attributes" else "not used"
            report.add(Finding("warning", "ignored-file", text, f"{names[0]}_{part}.txt"))
    return read_tu(folder, names[0], attributes, encoding)


def _not_accepted(path: Path) -> ValueError:
    return ValueError(f"{path} is nothing that can be read. What can:\n{ACCEPTED}")
