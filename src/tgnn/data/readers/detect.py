"""Detect the format of user data and read it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from tgnn.data.dataset_info import statistics
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk.disk_graph import DiskGraph
from tgnn.data.on_disk.manifest import FILE
from tgnn.data.readers.graph_npz import open_npz, read_graph, read_graphs
from tgnn.data.readers.shchur_npz import read_gnn_benchmark
from tgnn.data.readers.tu import read_tu
from tgnn.data.tables.frames import name_frames, write_frames
from tgnn.data.tables.read_folder import read_graph_tables, read_table
from tgnn.data.tables.schema import ReadOptions
from tgnn.data.tables.table_file import SUFFIXES, find
from tgnn.data.transforms import add_degree_feature
from tgnn.data.validation.checks import check_data
from tgnn.data.validation.report import DataError, Finding, ValidationReport
from tgnn.utils.read import check_regular

ACCEPTED = """\
- a folder with edges.csv and optionally nodes.csv, and with graphs.csv if there are many graphs (also .tsv, .csv.gz, \
.parquet)
- a .csv, .tsv, .csv.gz or .parquet file with a column of SMILES
- a folder of TU text files (NAME_A.txt, NAME_graph_indicator.txt, NAME_graph_labels.txt)
- a .npz file of the gnn-benchmark collection, or one written by tgnn data convert
- a graph on disk: a folder with graph.json, written by tgnn data convert or tgnn data generate"""
_PICKLES = (".gpickle", ".pkl", ".pickle", ".gpickle.gz", ".pkl.gz", ".pickle.gz")
CONVERT = """\
import networkx, polars as pl  # G is your NetworkX graph
pl.DataFrame([{"id": n, **d} for n, d in G.nodes(data=True)]).write_csv("nodes.csv")
pl.DataFrame([{"source": u, "target": v, **d} for u, v, d in G.edges(data=True)]).write_csv("edges.csv")"""
"""How to convert a NetworkX graph to tables."""

_DEFAULTS = ReadOptions()
_READERS: Mapping[str, Callable[[Path], Data | GraphDataset | DiskGraph]] = {
    "graph on disk": DiskGraph,
    "gnn-benchmark": read_gnn_benchmark,
    "graph": read_graph,
    "packed": read_graphs,
}


def detect_format(path: Path | str) -> str:
    """Detect the format of a file or folder. Nothing is unpickled.

    The formats are ``"table"`` (one graph), ``"graph tables"`` (many graphs) and ``"smiles"`` for the user's own
    tables, ``"graph"``, ``"packed"`` (many graphs) and ``"graph on disk"`` for files of ``tgnn data convert``, and
    ``"gnn-benchmark"`` and ``"tu"`` for files of these collections. Any other file is an error that lists the
    supported formats.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "edges.csv").write_text("source,target")
        >>> detect_format(folder)
        'table'
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_dir():
        return _detect_folder(path)
    check_regular(path)
    name = path.name.lower()
    if name.endswith(_PICKLES):
        raise ValueError(
            f"{path} is a pickle and is not opened, because a pickle can run arbitrary code. If you trust it, write "
            f"tables and pass their folder instead:\n{CONVERT}"
        )
    if name.endswith(".npz"):
        return _detect_arrays(path)
    if name.endswith(SUFFIXES):
        if name.split(".")[0] in ("nodes", "edges", "graphs"):
            return _detect_folder(path.parent)
        return "smiles"
    raise _unsupported(path)


def is_on_disk(path: Path | str) -> bool:
    """Whether a path, or any other name of a data set, is a graph on disk."""
    folder = Path(path).expanduser()
    return bool(path) and (folder / FILE).is_file() and _detect_folder(folder) == "graph on disk"


def read_path(
    path: Path | str, *, encoding: Mapping[str, Any] | None = None, options: ReadOptions = _DEFAULTS
) -> tuple[Data | GraphDataset | DiskGraph, ValidationReport]:
    """Read data of any supported format and validate it.

    Args:
        path: Path of a file or folder, in a format of :func:`detect_format`.
        encoding: Encoding of tables, SMILES or TU files that were read before. Features and classes then get the same
            indices.
        options: Columns to predict, column of ids and task of tables and molecules.

    Returns:
        The data, and the report on its contents and problems. If the data cannot be read, a
        :class:`~tgnn.data.validation.report.DataError` is raised.
    """
    data, report = _read(Path(path), detect_format(path), encoding, options)
    if not isinstance(data, DiskGraph) and add_degree_feature(data, encoding):
        report.add(Finding("note", "degree-feature", "the logarithm of the degree is used as a feature of the nodes"))
    return data, report


def read_frames(
    frames: Any, *, encoding: Mapping[str, Any] | None = None, options: ReadOptions = _DEFAULTS
) -> tuple[Data | GraphDataset | DiskGraph, ValidationReport]:
    """Read data frames as :func:`read_path` reads files. The report and the errors name the data frames.

    Args:
        frames: Data frames, as :func:`~tgnn.data.tables.frames.to_tables` takes them.
        encoding: As for :func:`read_path`.
        options: As for :func:`read_path`.
    """
    with tempfile.TemporaryDirectory(prefix="tgnn-") as folder:
        try:
            data, report = read_path(write_frames(frames, Path(folder)), encoding=encoding, options=options)
        except DataError as error:
            raise DataError(name_frames(error.report)) from None
    return data, name_frames(report)


def _read(
    path: Path, data_format: str, encoding: Mapping[str, Any] | None, options: ReadOptions
) -> tuple[Data | GraphDataset | DiskGraph, ValidationReport]:
    if data_format in ("table", "graph tables"):
        folder = path if path.is_dir() else path.parent
        read = read_table if data_format == "table" else read_graph_tables
        return read(folder, encoding, options=options)
    if data_format == "smiles":
        from tgnn.data.readers.smiles import read_smiles_csv  # RDKit is an extra

        return read_smiles_csv(
            path,
            targets=options.target,
            ids=options.id,
            task=options.task,
            strict=options.strict,
            use_stored_split=options.use_stored_split,
            require_labels=options.require_labels,
            encoding=encoding,
        )
    if options.target or options.id or options.task:
        raise ValueError(
            f"--target, --id and --task are for tables and molecules, but {path} has another format; pass them to "
            "`tgnn data convert` when you convert the tables"
        )
    report = ValidationReport(str(path), data_format)
    if data_format == "tu":
        data: Data | GraphDataset | DiskGraph = _read_tu(path, encoding, report)
    else:
        data = _READERS[data_format](path)
    report.statistics = statistics(data)
    if not isinstance(data, DiskGraph):  # which is not checked here, because that would read all of it
        check_data(data, report)
    return data, report


def _detect_folder(path: Path) -> str:
    if find(path, "graphs") is not None:
        return "graph tables"
    if find(path, "edges") is not None:
        return "table"
    if (path / FILE).is_file():
        return "graph on disk"
    if find(path, "nodes") is not None:
        raise ValueError(f"{path} has a table of nodes but no edges.csv; add a table of edges")
    for folder in (path, path / "raw"):
        if list(folder.glob("*_A.txt")):
            return "tu"
        if names := sorted(file.name.split(".")[1] for file in folder.glob("ind.*.graph")):
            raise ValueError(
                f"{folder} has Planetoid's files, which are pickles and are opened only if their checksums are known; "
                f"use tgnn data fetch {names[0]} or load({names[0]!r}, root=...)"
            )
    raise _unsupported(path)


def _detect_arrays(path: Path) -> str:
    with open_npz(path, "a .npz file") as file:
        names = list(file.files)
        many = "num_nodes" in names and file["num_nodes"].ndim == 1
    if "adj_indptr" in names:
        return "gnn-benchmark"
    if "num_nodes" in names:
        return "packed" if many else "graph"
    raise ValueError(
        f"{path} has the arrays {', '.join(names[:10])}, but must be a file of the gnn-benchmark collection (adj_data, "
        "adj_indptr, ...) or of tgnn data convert (num_nodes, edge_index, ...)"
    )


def _read_tu(path: Path, encoding: Mapping[str, Any] | None, report: ValidationReport) -> GraphDataset:
    """Read TU files. Node attributes are read only if there are no node labels."""
    folder = path if list(path.glob("*_A.txt")) else path / "raw"
    names = sorted(file.name.removesuffix("_A.txt") for file in folder.glob("*_A.txt"))
    if len(names) > 1:
        raise ValueError(f"{folder} has several data sets ({', '.join(names)}); pass a folder that has only one")
    attributes = not (folder / f"{names[0]}_node_labels.txt").exists()
    for part in ("edge_attributes", *(() if attributes else ("node_attributes",))):
        if (folder / f"{names[0]}_{part}.txt").exists():
            message = "not used, because node labels are present" if part == "node_attributes" else "not used"
            report.add(Finding("warning", "ignored-file", message, f"{names[0]}_{part}.txt"))
    return read_tu(folder, names[0], attributes, encoding)


def _unsupported(path: Path) -> ValueError:
    return ValueError(f"the format of {path} is not supported. Supported are:\n{ACCEPTED}")
