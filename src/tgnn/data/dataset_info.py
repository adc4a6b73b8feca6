"""The description of a loaded data set: its task, metric and source."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import Field, NonNegativeInt
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk.disk_graph import DiskGraph
from tgnn.data.readers.graph_npz import graph_tensors
from tgnn.data.task_types import TaskType, TaskTypeName
from tgnn.data.validation.report import subject
from tgnn.utils.read import STRICT

LoadedData: TypeAlias = Data | GraphDataset | DiskGraph
"""What :func:`tgnn.data.load` returns: one graph in memory, a data set of graphs, or a graph on disk."""


def task_name(level: str, target: str, outputs: int) -> str:
    """Name a task in the words of the field. The arguments are fields of :class:`DatasetInfo`."""
    if target == "multi-label":
        return f"{'binary' if outputs == 1 else 'multi-label'} {level} classification"
    return f"{level} {'regression' if target == 'regression' else 'classification'}"


@dataclass(frozen=True)
class DatasetInfo:
    """The task, metric and source of a data set, available as ``data.info``.

    Args:
        name: Name in the catalog, or name of the user's file or folder.
        level: Whether the examples are nodes (``"node"``) or graphs (``"graph"``).
        target: Value of the :class:`TaskType`: ``"classification"``, ``"multi-label"`` or ``"regression"``.
        metric: Default metric, ``"accuracy"``, ``"roc-auc"`` or ``"mae"``. The option ``train.metric`` overrides it.
        outputs: Number of classes, labels or regression targets.
        source: Where the data was loaded from.
        differs: How the data differs from the official files. Empty if it does not.
        stored_split: Name of the split that is stored with the data.

    Example:
        >>> DatasetInfo("cora", "node", "classification", "accuracy", 7, "memory").task
        'node classification'
    """

    __pydantic_config__ = STRICT

    name: str
    level: Annotated[str, Field(pattern="^(node|graph)$")]
    target: TaskTypeName
    metric: str
    outputs: NonNegativeInt
    source: str
    differs: str = ""
    stored_split: str = "column"

    @property
    def task_type(self) -> TaskType:
        """Type of the prediction task."""
        return TaskType(self.target)

    @property
    def task(self) -> str:
        """Name of the task, e.g. ``"node classification"``."""
        return task_name(self.level, self.target, self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as built-in types for JSON."""
        return asdict(self)


def infer_dataset_info(data: LoadedData, name: str, source: str) -> DatasetInfo:
    """Infer the task of a user's data from its schema or, without one, from its targets.

    Without a schema, integers are classes, floats are numbers to predict, and several columns of 0 and 1 are labels. A
    graph on disk stores its own information.
    """
    if isinstance(data, DiskGraph):
        return replace(data.info, source=source)
    y, schema = data.y, (getattr(data, "encoding", None) or {}).get("target") or {}
    if y is None:
        task_type, outputs = TaskType.CLASSIFICATION, 0
    elif schema.get("task"):
        task_type = TaskType(schema["task"])
        outputs = y.size(1) if y.dim() == 2 else 1
        if task_type is TaskType.CLASSIFICATION:
            outputs = len(schema["classes"])
    elif not y.is_floating_point() and y.dim() == 1:
        task_type, outputs = TaskType.CLASSIFICATION, int(y.max()) + 1 if y.numel() else 0
    else:
        known = y[~y.isnan()] if y.is_floating_point() else y
        binary = bool(((known == 0) | (known == 1)).all())
        task_type = TaskType.MULTI_LABEL if binary and y.dim() == 2 else TaskType.REGRESSION
        outputs = y.size(1) if y.dim() == 2 else 1
    level = "graph" if isinstance(data, GraphDataset) else "node"
    origin = getattr(data, "origin", "")
    return DatasetInfo(name, level, task_type.value, task_type.default_metric, outputs, source, origin)


def statistics(data: LoadedData) -> dict[str, int]:
    """Count graphs, nodes, edges (columns of ``edge_index``), features and outputs."""
    if isinstance(data, GraphDataset):
        edges = int(data.num_edges.sum()) * (1 if data.directed else 2)
        counts = {"graphs": len(data), "nodes": int(data.num_nodes.sum()), "edges": edges}
    else:
        counts = {"nodes": int(data.num_nodes), "edges": int(data.num_edges)}
    x = data.x
    counts["features"] = 0 if x is None else x.size(1) if x.dim() == 2 else 1
    return counts | {"outputs": infer_dataset_info(data, "", "").outputs}


def explain_missing_labels(data: LoadedData) -> str:
    """Say why data has no labels and what to do: the column to predict is empty, or none was recognized."""
    encoding = (data.encoding if isinstance(data, GraphDataset) else data.get("encoding")) or {}
    if columns := (encoding.get("target") or {}).get("columns"):
        return f"The {subject('column', columns, 'has', 'have')} no values. Add some, or name another with --target."
    features = [] if isinstance(data, GraphDataset) else [one["column"] for one in encoding.get("nodes") or []]
    example = features[-1] if features else "label"
    return f"Name the column to predict, e.g. --target {example}, or add a column `label`."


def content_hash(data: LoadedData) -> str:
    """Hash edges, features and targets to 16 hexadecimal digits, independently of the file format.

    The hash of a graph on disk is computed from its files when it is written. It is therefore not the hash of the same
    graph in memory.
    """
    if isinstance(data, DiskGraph):
        return data.hash
    digest = hashlib.sha256()
    tensors = data.tensors() if isinstance(data, GraphDataset) else graph_tensors(data)
    for name in sorted(tensors):
        tensor = tensors[name].cpu()
        array = np.ascontiguousarray((tensor.float() if tensor.is_floating_point() else tensor.long()).numpy())
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]
