"""Reader of the superpixel graphs of "Benchmarking GNNs" (the ``.pt`` files of PyG's ``GNNBenchmarkDataset``)."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch

from tgnn.data.graph_dataset import GraphDataset, pack


def read_benchmarking_gnns(path: Path | str) -> GraphDataset:
    """Read the training, validation and test graphs with the published split. Only tensors are unpickled.

    Args:
        path: Path of the file, e.g. ``MNIST_v2.pt``.

    Shapes:
        - ``x`` ``[nodes, colors + 2]`` (color, then position); ``edge_attr`` ``[edges, 1]``; ``y`` ``[1]``
    """
    try:
        parts = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise ValueError(f"{path} is not a file of PyG's GNNBenchmarkDataset: {error}") from error
    if not isinstance(parts, list | tuple) or len(parts) != 3:
        raise ValueError(f"{path} is not a file of PyG's GNNBenchmarkDataset: it must contain three lists of graphs")
    graphs = [dict(graph) for part in parts for graph in part]
    for graph in graphs:
        graph["x"] = torch.cat([graph["x"], graph.pop("pos")], dim=1) if "pos" in graph else graph["x"]
        if graph["edge_attr"].dim() == 1:
            graph["edge_attr"] = graph["edge_attr"].unsqueeze(1)
    codes = torch.arange(3).repeat_interleave(torch.tensor([len(part) for part in parts]))
    return pack(graphs, split=codes)
