"""What is known of data that was loaded: what to predict, how to score it, where it came from."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk.disk_graph import DiskGraph
from tgnn.data.readers.single import PLAIN

METRIC_OF = {"classes": "accuracy", "labels": "roc-auc", "number": "mae"}
"""What a target is scored by, where nothing else is said."""
_TARGET_OF = {"classes": "classes", "multi-label": "labels", "regression": "number"}
"""What the task of a user's tables means."""


@dataclass(frozen=True)
class DatasetInfo:
    """Stays with the data as ``data.info``.

    Args:
        name: Of the catalog, or of the user's folder.
        level: ``"node"`` or ``"graph"``.
        target: ``"classes"``, ``"labels"`` or ``"number"``.
        metric: ``"accuracy"``, ``"roc-auc"`` or ``"mae"``.
        outputs: Number of classes, of labels, or of numbers to predict.
        source: Which source served.
        differs: How it differs from the official files; empty: it does not.
        stored_split: What the split is called that comes with the data.
    """

    name: str
    level: str
    target: str
    metric: str
    outputs: int
    source: str
    differs: str = ""
    stored_split: str = "column"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)


def describe(data: Data | GraphDataset | DiskGraph, name: str, source: str) -> DatasetInfo:
    """Says what can be told from the data: what the user's tables say, if it comes from such.

    Else integers are classes, one float is a number, several 0/1 are labels. A graph on disk says all of it itself.
    """
    if isinstance(data, DiskGraph):
        return replace(data.info, source=source)
    y, said = data.y, (getattr(data, "encoding", None) or {}).get("target") or {}
    if y is None:
        target, outputs = "classes", 0
    elif said.get("task") in _TARGET_OF:
        target = _TARGET_OF[said["task"]]
        outputs = len(said["classes"]) if target == "classes" else y.size(1) if y.dim() == 2 else 1
    elif not y.is_floating_point() and y.dim() == 1:
        target, outputs = "classes", int(y.max()) + 1 if y.numel() else 0
    else:
        known = y[~y.isnan()] if y.is_floating_point() else y
        binary = bool(((known == 0) | (known == 1)).all())
        target, outputs = "labels" if binary and y.dim() == 2 else "number", y.size(1) if y.dim() == 2 else 1
    level = "graph" if isinstance(data, GraphDataset) else "node"
    return DatasetInfo(name, level, target, METRIC_OF[target], outputs, source, getattr(data, "origin", ""))


def statistics(data: Data | GraphDataset | DiskGraph) -> dict[str, int]:
    """The numbers that tell a data set: graphs, nodes, edges (as in ``edge_index``), features, outputs."""
    if isinstance(data, GraphDataset):
        found = {"graphs": len(data), "nodes": int(data.num_nodes.sum()), "edges": data.total_edges}
    else:
        found = {"nodes": int(data.num_nodes), "edges": int(data.num_edges)}
    x = data.x
    found["features"] = 0 if x is None else x.size(1) if x.dim() == 2 else 1
    return found | {"outputs": describe(data, "", "").outputs}


def content_hash(data: Data | GraphDataset | DiskGraph) -> str:
    """16 hexadecimal digits that tell the content: edges, features and targets, whatever file they come from.

    That of a graph on disk was made when it was written, of its files: it is not that of the same graph in memory.
    """
    if isinstance(data, DiskGraph):
        return data.hash
    digest = hashlib.sha256()
    tensors = data.tensors() if isinstance(data, GraphDataset) else _tensors(data)
    for name in sorted(tensors):
        tensor = tensors[name].cpu()
        array = np.ascontiguousarray((tensor.float() if tensor.is_floating_point() else tensor.long()).numpy())
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def _tensors(data: Data) -> dict[str, Tensor]:
    found = {"num_nodes": torch.tensor(data.num_nodes)}
    for name in PLAIN:
        value = data.get(name)
        if isinstance(value, Tensor) and value.layout == torch.sparse_csr:
            parts = {"ptr": value.crow_indices(), "columns": value.col_indices(), "values": value.values()}
            found |= {f"{name}.{part}": tensor for part, tensor in parts.items()}
        elif isinstance(value, Tensor):
            found[name] = value
    return found
