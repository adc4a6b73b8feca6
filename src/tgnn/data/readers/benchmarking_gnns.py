"""Superpixels as "Benchmarking GNNs" publishes them, in the ``.pt`` of PyG's ``GNNBenchmarkDataset``."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch

from tgnn.data.graph_dataset import GraphDataset, pack


def read_benchmarking_gnns(path: Path | str) -> GraphDataset:
    """Three lists of graphs, one after the other, with the published split. Only tensors are unpickled.

    Args:
        path: Such as ``MNIST_v2.pt``.

    Shapes:
        - ``x`` ``[nodes, colours + 2]`` (colour, then position); ``edge_attr`` ``[edges, 1]``; ``y`` ``[1]``
    """
    try:
        parts = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise ValueError(f"{path} is not a file of PyG's GNNBenchmarkDataset: {error}") from error
    if not isinstance(parts, list | tuple) or len(parts) != 3:
        raise ValueError(f"{path} is not a file of PyG's GNNBenchmarkDataset: it does not hold three parts")
    graphs = [dict(graph) for part in parts for graph in part]
    for graph in graphs:
        graph["x"] = torch.cat([graph["x"], graph.pop("pos")], dim=1) if "pos" in graph else graph["x"]
        if graph["edge_attr"].dim() == 1:
            graph["edge_attr"] = graph["edge_attr"].unsqueeze(1)
    numbers = torch.arange(3).repeat_interleave(torch.tensor([len(part) for part in parts]))
    return pack(graphs, split=numbers)
