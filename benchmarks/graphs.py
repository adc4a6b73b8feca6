"""The graphs that are measured on."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.utils import add_self_loops

from tgnn.data.formats.planetoid import read_planetoid


def uniform(nodes: int, edges: int, seed: int = 0) -> Tensor:
    return torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(seed))


def power_law(nodes: int, edges: int, largest: int, seed: int = 0) -> Tensor:
    """Destinations drawn by a power law, and one of them with in-degree ``largest``."""
    generator = torch.Generator().manual_seed(seed)
    ranks = torch.rand(edges, generator=generator, dtype=torch.float64)
    dst = (nodes * ranks**3).long()  # density proportional to node^(-2/3)
    dst[:largest] = nodes // 2
    src = torch.randint(nodes, (edges,), generator=generator)
    return torch.stack([src, dst[torch.randperm(edges, generator=generator)]])


def cora(folder: Path) -> tuple[Tensor, int, str]:
    """Cora's citations with self-loops where its files are, else a random graph of its size; and which it was."""
    raw = folder / "planetoid" / "Cora" / "raw"
    if not raw.exists():
        return uniform(2708, 13_264), 2708, "random graph of Cora's size"
    return add_self_loops(read_planetoid(raw, "cora").edge_index)[0], 2708, "Cora"
