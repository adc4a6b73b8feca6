"""Graphs for the benchmarks."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import add_self_loops

from tgnn.data import load
from tgnn.data.transforms import scale_rows


def uniform(nodes: int, edges: int, seed: int = 0) -> Tensor:
    return torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(seed))


def power_law(nodes: int, edges: int, largest: int, seed: int = 0) -> Tensor:
    """Random graph with power-law in-degrees and one node of in-degree ``largest``."""
    generator = torch.Generator().manual_seed(seed)
    ranks = torch.rand(edges, generator=generator, dtype=torch.float64)
    dst = (nodes * ranks**3).long()  # density proportional to node^(-2/3)
    dst[:largest] = nodes // 2
    src = torch.randint(nodes, (edges,), generator=generator)
    return torch.stack([src, dst[torch.randperm(edges, generator=generator)]])


@cache
def named(name: str, folder: Path) -> Data | None:
    """Load a data set from the folder or as ``tgnn train`` does; return ``None`` if it cannot be downloaded."""
    try:
        return load(name, root=folder if folder.is_dir() else None)
    except OSError as error:
        print(str(error).splitlines()[0], flush=True)
        return None


def cora_with_self_loops() -> tuple[Tensor, int]:
    """Return the edges of Cora with self-loops, and its number of nodes."""
    data = load("cora")
    return add_self_loops(data.edge_index)[0], data.num_nodes


def computers(folder: Path) -> Data | None:
    """Load Amazon Computers with row-normalized features."""
    data = named("amazon-computers", folder)
    if data is None:
        return None
    return Data(x=scale_rows(data.x, "row-sum"), edge_index=data.edge_index, y=data.y)
