"""Graph data sets of a user, with graph ids and the encoding of features and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.string_ids import StringIds
from tgnn.data.splits import PARTS
from tgnn.data.tables.labels import target_statistics


class NamedGraphs(GraphDataset):
    """A :class:`~tgnn.data.graph_dataset.GraphDataset` with graph ids.

    Args:
        arrays: Packed arrays, as :class:`~tgnn.data.graph_dataset.GraphDataset` takes them.
        graph_id: The user's id of each graph.
        encoding: Encoding of features and labels, as built-in types.
        smiles: SMILES of each graph, if the graphs are molecules.

    Example:
        >>> arrays = {"num_nodes": [2], "num_edges": [1], "edge_index": [[0], [1]], "y": [0], "edge_weight": [0.5]}
        >>> graphs = NamedGraphs(arrays, torch.tensor([7]), {})
        >>> graphs.graph_id.tolist(), graphs[0].edge_weight.tolist()
        ([7], [0.5])
    """

    def __init__(
        self,
        arrays: Mapping[str, object],
        graph_id: Tensor | StringIds,
        encoding: dict[str, Any],
        smiles: Sequence[str] | None = None,
    ) -> None:
        super().__init__(arrays)
        self.graph_id, self.encoding = graph_id, encoding
        self.smiles = None if smiles is None else list(smiles)
        self._check("graph_id", len(graph_id), len(self))


def packed_statistics(arrays: Mapping[str, Any], target: Mapping[str, Any] | None) -> dict[str, Any]:
    """Count graphs, nodes, edges, features and targets for a validation report.

    Args:
        arrays: Packed arrays, as :class:`NamedGraphs` takes them.
        target: Encoding of the target. ``None`` without a target.
    """
    counts = {"graphs": len(arrays["num_nodes"])}
    counts |= {name: int(arrays[f"num_{name}"].sum()) for name in ("nodes", "edges")}
    for name, array in (("features", "x"), ("edge features", "edge_attr")):
        if array in arrays:
            counts[name] = arrays[array].shape[1]
    counts |= target_statistics(target, torch.from_numpy(arrays["y"]) if "y" in arrays else None)
    if "split" in arrays:
        counts |= {part: int((arrays["split"] == code).sum()) for code, part in enumerate(PARTS)}
    return counts
