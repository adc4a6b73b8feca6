"""Statistics of a user's data set of graphs for a validation report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tgnn.data.splits import PARTS
from tgnn.data.tables.labels import target_statistics


def graph_statistics(arrays: Mapping[str, Any], target: Mapping[str, Any] | None) -> dict[str, Any]:
    """Count graphs, nodes, edges, features and targets for a validation report.

    Args:
        arrays: Concatenated arrays, as :class:`~tgnn.data.graph_dataset.GraphDataset` takes them.
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
