"""BlogCatalog (Tang and Liu 2009): a friendship graph of 10,312 bloggers with 39 groups as labels and no features."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data


def read_blogcatalog_csv(folder: Path | str) -> Data:
    """Read the graph from its text files, in which bloggers and groups are numbered from 1.

    Args:
        folder: Folder of ``nodes.csv``, ``groups.csv``, ``edges.csv`` and ``group-edges.csv``.

    Shapes:
        - ``edge_index`` ``[2, 2 * edges]``, both directions; ``y`` ``[N, groups]``, 0 or 1
    """
    tables = {}
    for name in ("nodes", "groups", "edges", "group-edges"):
        path = Path(folder) / f"{name}.csv"
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist; BlogCatalog needs it")
        try:
            tables[name] = np.loadtxt(path, delimiter=",", dtype=np.int64, ndmin=2)
        except ValueError as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
    return _assemble(
        tables["edges"] - 1, tables["group-edges"] - 1, len(tables["nodes"]), len(tables["groups"]), str(folder)
    )


def read_blogcatalog(path: Path | str) -> Data:
    """Read the graph from a single ``.npz`` file. Nothing in it is unpickled.

    Args:
        path: Path of a file with ``edge`` ``[edges, 2]``, ``member`` (blogger, group) ``[memberships, 2]``,
            ``num_nodes`` and ``num_labels``.

    Shapes:
        - ``edge_index`` ``[2, 2 * edges]``, both directions; ``y`` ``[N, groups]``, 0 or 1
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            edge, member, n, labels = (file[name] for name in ("edge", "member", "num_nodes", "num_labels"))
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError) as error:
        raise ValueError(f"{path} is not a file of BlogCatalog: {error}") from error
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
    return Data(edge_index=torch.cat([forward, forward.flip(0)], dim=1), y=y, num_nodes=n)
