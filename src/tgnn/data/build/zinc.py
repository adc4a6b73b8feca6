"""ZINC-12k from ZINC-250k (Gomez-Bombarelli et al. 2018): molecules to the graphs and targets of Dwivedi et al. (2020).

Nodes are heavy atoms of one of 28 kinds, edges are bonds of order 1 to 3 (aromatic rings alternate), in the order of
the molecule's canonical SMILES without aromaticity. The target is the penalised logP of Jin et al. (2018):

    y = z(logP) + z(-SA) + z(-max(0, longest cycle - 6)),   z(v) = (v - mean) / deviation

with SA the synthetic accessibility of Ertl & Schuffenhauer (2009) and the longest cycle that of a cycle basis. Means
and deviations are those of the 220,011 official training molecules, computed with RDKit 2026.09.

``zinc_index.npz`` says which of the 249,456 lines of ``zinc250k.smiles`` are the 12,000. The official validation and
test lists were found line by line; the official ``.index`` files choose 1,000 of each, in this order. The order of the
official training list is in no package, so its ``.index`` cannot be applied: the 10,000 training molecules are drawn
from the official 220,011, and stored as steps from one line to the next. The three official targets that are printed in
the benchmark's notebook differ from those here by 0.001.
"""

from __future__ import annotations

import importlib.util
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tgnn.data.build.compact import smallest
from tgnn.data.build.molecules import quiet, read
from tgnn.data.build.optional import load

LINES = 249_456
"""Of ``zinc250k.smiles``."""

ATOMS = (  # element, hydrogens that are written out, charge; the place of each is its number
    *(("C", 0, 0), ("O", 0, 0), ("N", 0, 0), ("F", 0, 0), ("C", 1, 0), ("S", 0, 0), ("Cl", 0, 0), ("O", 0, -1)),
    *(("N", 1, 1), ("Br", 0, 0), ("N", 3, 1), ("N", 2, 1), ("N", 0, 1), ("N", 0, -1), ("S", 0, -1), ("I", 0, 0)),
    *(("P", 0, 0), ("O", 1, 1), ("N", 1, -1), ("O", 0, 1), ("S", 0, 1), ("P", 1, 0), ("P", 2, 0), ("C", 2, -1)),
    *(("P", 0, 1), ("S", 1, 1), ("C", 1, -1), ("P", 1, 1)),
)
_NUMBER = {atom: number for number, atom in enumerate(ATOMS)}

_MEAN = np.array([2.4577998006009225, -3.0535715142931834, -0.04888391944039162])  # logP, -SA, cycles
_DEVIATION = np.array([1.4334180962410306, 0.8346995269254995, 0.28907638365958754])
_EVERY = 64  # molecules between two ticks


def build_zinc(path: Path | str, tick: Callable[[int], None] | None = None) -> dict[str, np.ndarray]:
    """Packed graphs of the 12,000 molecules, training, validation and test one after the other, with the split.

    Args:
        path: ``zinc250k.smiles``, one molecule a line.
        tick: _Messages every now and then how many more molecules are done.
    """
    lines = Path(path).read_text().split()
    if len(lines) != LINES:
        raise ValueError(f"{path} has {len(lines):,} molecules, but ZINC-250k has {LINES:,}")
    index = zinc_index()
    arrays = featurize_zinc([lines[place] for part in index for place in part], tick)
    return {**arrays, "split": np.repeat(np.arange(3, dtype=np.int8), [len(part) for part in index])}


def zinc_index() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lines of the training, validation and test molecules, from 0.

    Example:
        >>> [len(part) for part in zinc_index()]
        [10000, 1000, 1000]
    """
    with (files("tgnn.data.build") / "zinc_index.npz").open("rb") as file, np.load(file) as stored:
        parts = (stored["train_steps"].cumsum(), stored["val"], stored["test"])
        train, val, test = (part.astype(np.int64) for part in parts)
    return train, val, test


def featurize_zinc(smiles: Sequence[str], tick: Callable[[int], None] | None = None) -> dict[str, np.ndarray]:
    """Packed graphs and targets of molecules.

    Args:
        smiles: One molecule each, of the 28 kinds of atoms only.
        tick: _Messages every now and then how many more molecules are done.

    Shapes:
        - As :mod:`tgnn.data.graph_dataset`, each bond stored once: ``x`` ``[atoms, 1]``, 0 to 27; ``edge_attr``
          ``[bonds, 1]``, 1 to 3; ``y`` ``[G]``

    Example:
        >>> arrays = featurize_zinc(["C[NH3+]", "C=O"])
        >>> arrays["x"].flatten().tolist(), arrays["edge_attr"].flatten().tolist()
        ([0, 10, 0, 1], [1, 2])
    """
    atoms, bonds = array("q"), array("q")
    num_nodes, num_edges = np.zeros((2, len(smiles)), np.int32)
    scores = np.zeros((len(smiles), 3))
    with quiet():
        for place, text in enumerate(smiles):
            molecule = read(text)
            if molecule is None:
                raise ValueError(f"RDKit cannot read molecule {place}, {text!r}")
            scores[place] = _scores(molecule)
            plain = _without_aromaticity(molecule)
            num_nodes[place], num_edges[place] = plain.GetNumAtoms(), plain.GetNumBonds()
            atoms.extend(_atom_number(atom, text) for atom in plain.GetAtoms())
            for bond in plain.GetBonds():
                bonds.extend((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), int(bond.GetBondTypeAsDouble())))
            if tick is not None and (place % _EVERY == _EVERY - 1 or place == len(smiles) - 1):
                tick(place % _EVERY + 1)
    edges = np.array(bonds, dtype=np.int64).reshape(-1, 3)
    return {
        "num_nodes": num_nodes,
        "num_edges": num_edges,
        "edge_index": smallest(edges[:, :2].T),
        "directed": np.array(False),
        "x": smallest(np.array(atoms, dtype=np.int64).reshape(-1, 1)),
        "edge_attr": smallest(edges[:, 2:]),
        "y": ((scores - _MEAN) / _DEVIATION).sum(1).astype(np.float32),
    }


def _without_aromaticity(molecule: Any) -> Any:
    """The molecule read again from its canonical SMILES with alternating bonds: that sets the order of the atoms."""
    chem = load("rdkit.Chem", "molecules")
    molecule = chem.Mol(molecule)
    chem.Kekulize(molecule, clearAromaticFlags=True)
    return chem.MolFromSmiles(chem.MolToSmiles(molecule), sanitize=False)


def _atom_number(atom: Any, text: str) -> int:
    kind = (atom.GetSymbol(), atom.GetNumExplicitHs(), atom.GetFormalCharge())
    if kind not in _NUMBER:
        raise ValueError(f"{text!r} has an atom that is none of ZINC's 28 kinds: {kind[0]}, charge {kind[2]}")
    return _NUMBER[kind]


def _scores(molecule: Any) -> tuple[float, float, float]:
    """The three terms of the target as they are before they are normalised."""
    logp = load("rdkit.Chem.Crippen", "molecules").MolLogP(molecule)
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    networkx = load("networkx", "molecules")
    graph = networkx.Graph()  # nodes and neighbours in the order of the atoms, on which the basis depends
    graph.add_nodes_from(range(molecule.GetNumAtoms()))
    graph.add_edges_from(sorted((min(bond), max(bond)) for bond in bonds))
    longest = max((len(cycle) for cycle in networkx.cycle_basis(graph)), default=0)
    return logp, -_accessibility().calculateScore(molecule), -max(0, longest - 6)


@cache
def _accessibility() -> Any:
    """The score of Ertl & Schuffenhauer, which RDKit ships beside its modules."""
    folder = Path(load("rdkit.RDConfig", "molecules").RDContribDir) / "SA_Score"
    spec = importlib.util.spec_from_file_location("sascorer", folder / "sascorer.py")
    if spec is None or spec.loader is None or not (folder / "sascorer.py").exists():
        raise ModuleNotFoundError(f"this RDKit has no {folder}: pip install tgnn[molecules] brings one that has")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
