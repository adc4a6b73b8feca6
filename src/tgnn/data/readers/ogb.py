"""Reader of the Open Graph Benchmark's raw files: ``raw/*.csv.gz`` and ``split/<split>/*.csv.gz``."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars
import torch
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.splits import Split, split_codes

FILES = ("raw/edge.csv.gz", "raw/num-node-list.csv.gz", "raw/num-edge-list.csv.gz")
"""Files that every data set has."""

OGB_PARTS = ("train", "valid", "test")
"""OGB's names of the training, validation and test set."""


def split_files(split: str) -> tuple[str, ...]:
    """Return the files of the training, validation and test set of an official split."""
    return tuple(f"split/{split}/{part}.csv.gz" for part in OGB_PARTS)


def read_ogb_node(folder: Path | str, split: str, add_reverse_edges: bool) -> Data:
    """Read a node property prediction data set, as OGB's ``PygNodePropPredDataset`` does, with the split as masks.

    Nodes without features get the mean of their incoming edges' features, as in OGB's examples.
    """
    folder = Path(folder)
    n = int(read_numbers(folder / "raw/num-node-list.csv.gz").sum())
    edge_index = torch.from_numpy(read_numbers(folder / "raw/edge.csv.gz").T.astype(np.int64))
    data = Data(num_nodes=n)
    data.edge_index = _add_reverse_edges(edge_index) if add_reverse_edges else edge_index.contiguous()
    if (path := folder / "raw/edge-feat.csv.gz").exists():
        values = torch.from_numpy(read_numbers(path))
        data.edge_attr = values.repeat_interleave(2, dim=0) if add_reverse_edges else values
    if (path := folder / "raw/node-feat.csv.gz").exists():
        data.x = torch.from_numpy(read_numbers(path))
    elif data.edge_attr is not None:
        data.x = scatter(data.edge_attr, data.edge_index[1], dim=0, dim_size=n, reduce="mean")
    labels = read_numbers(folder / "raw/node-label.csv.gz")
    data.y = torch.from_numpy(labels[:, 0].astype(np.int64) if labels.shape[1] == 1 else labels.astype(np.float32))
    data.train_mask, data.val_mask, data.test_mask = _read_split(folder, split_files(split), split, n).masks()
    return data


def read_ogb_graphs(folder: Path | str, split: str) -> GraphDataset:
    """Read a graph property prediction data set, as OGB's ``PygGraphPropPredDataset`` does, with its official split."""
    folder = Path(folder)
    num_nodes, num_edges = (read_numbers(folder / f"raw/num-{what}-list.csv.gz")[:, 0] for what in ("node", "edge"))
    edges = torch.from_numpy(read_numbers(folder / "raw/edge.csv.gz").T.astype(np.int64))
    arrays = {
        "num_nodes": num_nodes,
        "num_edges": 2 * num_edges,
        "edge_index": _add_reverse_edges(edges),
        "directed": True,
        "x": read_numbers(folder / "raw/node-feat.csv.gz"),
        "edge_attr": read_numbers(folder / "raw/edge-feat.csv.gz").repeat(2, axis=0),
        "y": read_numbers(folder / "raw/graph-label.csv.gz"),
    }
    graphs = GraphDataset(arrays)
    set_official_split(graphs, folder, split_files(split), split)
    return graphs


def set_official_split(graphs: GraphDataset, folder: Path, files: Sequence[str], split: str) -> None:
    """Replace the split that is stored with graphs by OGB's, which is read from three files of indices from 0.

    The name of the :class:`Split` starts with ``ogb-``.
    """
    official = _read_split(folder, files, split, len(graphs))
    graphs.split_codes, graphs.split_name = torch.from_numpy(split_codes(official)), official.name


def _add_reverse_edges(edges: torch.Tensor) -> torch.Tensor:
    """Insert the reverse after each edge, which is OGB's order."""
    return torch.stack([edges, edges.flip(0)], dim=2).reshape(2, -1)


def _read_split(folder: Path, files: Sequence[str], name: str, size: int) -> Split:
    parts = (read_numbers(folder / file)[:, 0] for file in files)
    try:
        return Split(f"ogb-{name}", None, size, *(torch.from_numpy(part.astype(np.int64)) for part in parts))
    except ValueError as error:
        raise ValueError(f"the split in {folder} does not belong to {size:,} examples: {error}") from error


def read_numbers(path: Path) -> np.ndarray:
    """Read a CSV file of numbers without a header, integers as int64 and others as float32. It may be compressed."""
    try:
        table = polars.read_csv(path, has_header=False, infer_schema_length=10_000)
    except (polars.exceptions.PolarsError, zlib.error, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    for name, dtype in table.schema.items():
        if not dtype.is_numeric():
            raise ValueError(f"{path} must contain numbers only, but {name.replace('_', ' ')} contains text")
    integers = all(dtype.is_integer() for dtype in table.schema.values())
    return table.cast(polars.Int64 if integers else polars.Float32).to_numpy(writable=True)
