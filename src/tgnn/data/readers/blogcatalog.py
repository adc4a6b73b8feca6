"""Readers of BlogCatalog (Tang and Liu 2009): friendships of 10,312 bloggers, 39 groups as labels, and no features.

Both return ``edge_index`` ``[2, 2 * edges]`` in both directions, ``y`` ``[N, groups]``, 0 or 1, and the sparse identity
matrix as features.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from tgnn.data.readers.graph_npz import open_npz
from tgnn.data.transforms import identity


def read_blogcatalog_csv(folder: Path | str) -> Data:
    """Read ``nodes.csv``, ``groups.csv``, ``edges.csv`` and ``group-edges.csv``, which count from 1."""
    tables = []
    for name in ("nodes", "groups", "edges", "group-edges"):
        path = Path(folder) / f"{name}.csv"
        try:
            tables.append(np.loadtxt(path, delimiter=",", dtype=np.int64, ndmin=2))
        except ValueError as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
    nodes, groups, edge, member = tables
    return _assemble(edge - 1, member - 1, len(nodes), len(groups), str(folder))


def read_blogcatalog(path: Path | str) -> Data:
    """Read a ``.npz`` file with ``edge``, ``member`` (blogger, group), ``num_nodes`` and ``num_labels``."""
    with open_npz(path, "a file of BlogCatalog") as file:
        edge, member, n, labels = (file[name] for name in ("edge", "member", "num_nodes", "num_labels"))
    return _assemble(edge.astype(np.int64), member.astype(np.int64), int(n), int(labels), str(path))


def _assemble(edge: np.ndarray, member: np.ndarray, n: int, labels: int, where: str) -> Data:
    for pairs, limits in ((edge, (n, n)), (member, (n, labels))):
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"{where}: edges and memberships must have shape [*, 2], got {list(pairs.shape)}")
        if (pairs < 0).any() or (pairs >= limits).any():
            raise ValueError(f"{where}: an index is outside of the {n} bloggers and {labels} groups")
    forward = torch.from_numpy(edge).t()
    y = torch.zeros(n, labels)
    y[tuple(torch.from_numpy(member).t())] = 1
    return Data(x=identity(n), edge_index=torch.cat([forward, forward.flip(0)], dim=1), y=y, num_nodes=n)
