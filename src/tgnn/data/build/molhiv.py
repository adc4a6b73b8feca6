"""ogbg-molhiv from the table of MoleculeNet's HIV (Wu et al. 2018): which molecules stop the virus in a test tube.

Features and split are those of OGB, computed here. RDKit refuses seven of the 41,127 molecules today (their metals have
too many bonds); they are read without that check and stand in the test set, which gives OGB's sizes 32901/4113/4113.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tgnn.data.build.compact import one_way, smallest
from tgnn.data.build.molecules import featurize
from tgnn.data.build.scaffold import scaffold_split


def build_molhiv(path: Path | str, tick: Callable[[int], None] | None = None) -> dict[str, np.ndarray]:
    """Packed graphs with ``y`` (1: active) and the scaffold split.

    Args:
        path: The table, with columns ``smiles`` and ``HIV_active``.
        tick: _Messages every now and then how many more molecules are done. Each counts twice: its graph, its scaffold.

    Shapes:
        - As :mod:`tgnn.data.graph_dataset`: ``x`` ``[atoms, 9]``, ``edge_attr`` ``[bonds, 3]``, ``y`` ``[G, 1]``
    """
    smiles, y = read_hiv(path)
    arrays, unreadable = featurize(smiles, tick, valence=False)
    if unreadable:
        raise ValueError(f"{path}: RDKit cannot read {smiles[unreadable[0]]!r} in row {unreadable[0] + 1}")
    split = np.zeros(len(smiles), np.int8)
    for number, part in enumerate(scaffold_split(smiles, tick=tick).masks()):
        split[part.numpy()] = number
    stored = one_way(arrays)
    small = {name: smallest(stored[name]) for name in ("edge_index", "x", "edge_attr")}
    counts = {name: stored[name].astype(np.int32) for name in ("num_nodes", "num_edges")}
    return {**stored, **small, **counts, "y": y, "split": split}


def read_hiv(path: Path | str) -> tuple[list[str], np.ndarray]:
    """Molecules and labels of the table.

    Args:
        path: The table, with columns ``smiles`` and ``HIV_active``.

    Shapes:
        - Labels ``[G, 1]``, 0 or 1
    """
    with Path(path).open(newline="") as file:
        table = csv.DictReader(file)
        missing = {"smiles", "HIV_active"} - set(table.fieldnames or ())
        if missing:
            raise ValueError(f"{path} is not MoleculeNet's HIV: it has no column {sorted(missing)[0]!r}")
        rows = [(row["smiles"], row["HIV_active"]) for row in table]
    for number, (_, label) in enumerate(rows, start=1):
        if label not in ("0", "1"):
            raise ValueError(f"{path}: HIV_active is {label!r} in row {number}, but must be 0 or 1")
    return [smiles for smiles, _ in rows], np.array([[int(label)] for _, label in rows], np.int8).reshape(-1, 1)
