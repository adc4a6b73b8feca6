"""The raw files of the Open Graph Benchmark: ``raw/*.csv.gz`` and ``split/<way>/*.csv.gz``."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import polars
import torch
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.splits import Split

FILES = ("raw/edge.csv.gz", "raw/num-node-list.csv.gz", "raw/num-edge-list.csv.gz")


def read_ogb_node(folder: Path | str, way: str, inverse: bool) -> Data:
    """One graph with labelled nodes, as OGB's ``PygNodePropPredDataset`` gives it, and its official split as masks.

    Where the nodes have no features, they get the mean of the features of the edges into them, as in OGB's examples.

    Args:
        folder: With ``raw`` and ``split``.
        way: In which the official split was made, such as ``"time"``.
        inverse: Whether each stored edge stands for both directions.

    Shapes:
        - ``x`` ``[N, F]``; ``edge_index`` ``[2, E]``; ``y`` ``[N]``, or ``[N, tasks]`` with several
    """
    folder = Path(folder)
    n = int(_array(folder / "raw/num-node-list.csv.gz").sum())
    edge_index = torch.from_numpy(_array(folder / "raw/edge.csv.gz").T.astype(np.int64))
    data = Data(num_nodes=n)
    data.edge_index = _both_ways(edge_index) if inverse else edge_index.contiguous()
    if (path := folder / "raw/edge-feat.csv.gz").exists():
        values = torch.from_numpy(_array(path))
        data.edge_attr = values.repeat_interleave(2, dim=0) if inverse else values
    if (path := folder / "raw/node-feat.csv.gz").exists():
        data.x = torch.from_numpy(_array(path))
    elif data.edge_attr is not None:
        data.x = scatter(data.edge_attr, data.edge_index[1], dim=0, dim_size=n, reduce="mean")
    labels = _array(folder / "raw/node-label.csv.gz")
    data.y = torch.from_numpy(labels[:, 0].astype(np.int64) if labels.shape[1] == 1 else labels.astype(np.float32))
    split = _split(folder, way, n)
    data.train_mask, data.val_mask, data.test_mask = split.masks()
    return data


def read_ogb_graphs(folder: Path | str, way: str) -> GraphDataset:
    """Many graphs with a label each, as OGB's ``PygGraphPropPredDataset`` gives them, and their official split.

    Args:
        folder: With ``raw`` and ``split``.
        way: In which the official split was made, such as ``"scaffold"``.
    """
    folder = Path(folder)
    num_nodes, num_edges = (_array(folder / f"raw/num-{what}-list.csv.gz")[:, 0] for what in ("node", "edge"))
    edges = torch.from_numpy(_array(folder / "raw/edge.csv.gz").T.astype(np.int64))
    split = _split(folder, way, len(num_nodes))
    part = np.full(len(num_nodes), -1, dtype=np.int8)
    for number, indices in enumerate((split.train, split.val, split.test)):
        part[indices.numpy()] = number
    arrays: dict[str, object] = {
        "num_nodes": num_nodes,
        "num_edges": 2 * num_edges,
        "edge_index": _both_ways(edges).numpy(),
        "directed": True,
        "x": _array(folder / "raw/node-feat.csv.gz"),
        "y": _array(folder / "raw/graph-label.csv.gz"),
        "split": part,
    }
    if (path := folder / "raw/edge-feat.csv.gz").exists():
        arrays["edge_attr"] = _array(path).repeat(2, axis=0)
    return GraphDataset(arrays)


def _both_ways(edges: torch.Tensor) -> torch.Tensor:
    """Each edge followed by its reverse, the order of OGB."""
    return torch.stack([edges, edges.flip(0)], dim=2).reshape(2, -1)


def _split(folder: Path, way: str, size: int) -> Split:
    parts = (_array(folder / "split" / way / f"{part}.csv.gz")[:, 0] for part in ("train", "valid", "test"))
    return Split(f"ogb-{way}", None, size, *(torch.from_numpy(part.astype(np.int64)) for part in parts))


def _array(path: Path) -> np.ndarray:
    """A compressed table of numbers without a header: integers as int64, others as float32."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing")
    try:
        table = polars.read_csv(path, has_header=False, infer_schema_length=10_000)
    except (polars.exceptions.PolarsError, zlib.error, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    for name, kind in table.schema.items():
        if not kind.is_numeric():
            raise ValueError(f"{path} has something other than numbers in {name.replace('_', ' ')}")
    whole = all(kind.is_integer() for kind in table.schema.values())
    return table.cast(polars.Int64 if whole else polars.Float32).to_numpy(writable=True)
