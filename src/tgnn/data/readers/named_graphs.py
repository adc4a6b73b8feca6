"""A user's own set of graphs: packed graphs that know their ids and how they were encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.word_ids import WordIds
from tgnn.data.splits import PARTS
from tgnn.data.tables.labels import target_statistics


class NamedGraphs(GraphDataset):
    """Packed graphs with ids.

    Args:
        arrays: As :class:`~tgnn.data.graph_dataset.GraphDataset` takes them.
        graph_id: Id of each graph, as the user has it.
        encoding: How features and labels were encoded, in plain values.
        smiles: Of each molecule, if they are molecules.

    Example:
        >>> arrays = {"num_nodes": [2], "num_edges": [1], "edge_index": [[0], [1]], "y": [0], "edge_weight": [0.5]}
        >>> graphs = NamedGraphs(arrays, torch.tensor([7]), {})
        >>> graphs.graph_id.tolist(), graphs[0].edge_weight.tolist()
        ([7], [0.5])
    """

    def __init__(
        self,
        arrays: Mapping[str, object],
        graph_id: Tensor | WordIds,
        encoding: dict[str, Any],
        smiles: Sequence[str] | None = None,
    ) -> None:
        super().__init__(arrays)
        self.graph_id, self.encoding = graph_id, encoding
        self.smiles = None if smiles is None else list(smiles)
        self._check("graph_id", len(graph_id), len(self))


def statistics_of(arrays: Mapping[str, Any], target: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a report says of packed arrays.

    Args:
        arrays: As above.
        target: What is predicted.
    """
    found = {"graphs": len(arrays["num_nodes"])}
    found |= {name: int(arrays[f"num_{name}"].sum()) for name in ("nodes", "edges")}
    for name, array in (("features", "x"), ("edge features", "edge_attr")):
        if array in arrays:
            found[name] = arrays[array].shape[1]
    found |= target_statistics(target, torch.from_numpy(arrays["y"]) if "y" in arrays else None)
    if "split" in arrays:
        found |= {part: int((arrays["split"] == number).sum()) for number, part in enumerate(PARTS)}
    return found
