"""Build ogbg-molhiv from MoleculeNet's table HIV.csv (Wu et al. 2018).

Features and split follow OGB and are recomputed. Current versions of RDKit reject seven of the 41,127 molecules,
because their metals have too many bonds. These are parsed without the valence check and belong to the test set, which
gives OGB's sizes 32901/4113/4113.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from tgnn.data.build.molecules import featurize
from tgnn.data.build.scaffold import scaffold_split
from tgnn.data.readers.graph_npz import shrink_dtype
from tgnn.data.splits import split_codes


def build_molhiv(path: Path | str, tick: Callable[[int], None] | None = None) -> dict[str, np.ndarray]:
    """Build packed graphs with ``y`` (1 for active molecules) and the scaffold split.

    Args:
        path: CSV file with the columns ``smiles`` and ``HIV_active``.
        tick: Callback that receives the number of molecules processed since its last call. Each molecule is counted
            twice, for its graph and for its scaffold.

    Shapes:
        - As :mod:`tgnn.data.readers.graph_npz`: ``x`` ``[atoms, 9]``, ``edge_attr`` ``[bonds, 3]``, ``y`` ``[G, 1]``
    """
    smiles, y = read_hiv(path)
    arrays, unreadable = featurize(smiles, tick, valence=False)
    if unreadable:
        raise ValueError(f"{path}: RDKit cannot parse {smiles[unreadable[0]]!r} in row {unreadable[0] + 1}")
    split = split_codes(scaffold_split(smiles, tick=tick)).astype(np.int8)
    stored = drop_reverse_edges(arrays)
    small = {name: shrink_dtype(stored[name]) for name in ("edge_index", "x", "edge_attr")}
    counts = {name: stored[name].astype(np.int32) for name in ("num_nodes", "num_edges")}
    return {**stored, **small, **counts, "y": y, "split": split}


def read_hiv(path: Path | str) -> tuple[list[str], np.ndarray]:
    """Read the SMILES and labels.

    Args:
        path: CSV file with the columns ``smiles`` and ``HIV_active``.

    Shapes:
        - Labels ``[G, 1]``, 0 or 1
    """
    with Path(path).open(newline="") as file:
        table = csv.DictReader(file)
        missing = {"smiles", "HIV_active"} - set(table.fieldnames or ())
        if missing:
            raise ValueError(f"{path} is not MoleculeNet's HIV: it has no column {sorted(missing)[0]!r}")
        rows = [(record["smiles"], record["HIV_active"]) for record in table]
    for row, (_, label) in enumerate(rows, start=1):
        if label not in ("0", "1"):
            raise ValueError(f"{path}: HIV_active is {label!r} in row {row}, but must be 0 or 1")
    return [smiles for smiles, _ in rows], np.array([[int(label)] for _, label in rows], np.int8).reshape(-1, 1)


def drop_reverse_edges(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Store each edge once, for packed graphs that list all edges and then their reverses.

    Args:
        arrays: Packed graphs with ``directed`` set to ``True``.

    Example:
        >>> both = {"num_edges": np.array([2, 0]), "edge_index": np.array([[0, 1], [1, 0]])}
        >>> once = drop_reverse_edges(both)
        >>> once["num_edges"].tolist(), once["edge_index"].tolist(), bool(once["directed"])
        ([1, 0], [[0], [1]], False)
    """
    count = np.asarray(arrays["num_edges"])
    within = np.arange(count.sum()) - np.repeat(count.cumsum() - count, count)
    forward = within < np.repeat(count // 2, count)
    edges = np.asarray(arrays["edge_index"])
    if not np.array_equal(edges[:, forward], edges[::-1, ~forward]):
        raise ValueError("edge_index must list all edges of a graph and then their reverses in the same order")
    stored = {name: array[forward] for name, array in arrays.items() if name == "edge_attr"}
    return {
        **arrays,
        **stored,
        "num_edges": count // 2,
        "edge_index": edges[:, forward],
        "directed": np.array(False),
    }
