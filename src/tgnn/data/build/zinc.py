"""ZINC-12k (Dwivedi et al. 2020): a reader of the official files, and a builder.

The builder uses the molecules of ZINC-250k (Gomez-Bombarelli et al. 2018).

Nodes are heavy atoms of one of 28 types. Edges are bonds of order 1 to 3; bonds in aromatic rings alternate. Both are
in the order of the molecule's canonical SMILES without aromaticity. The target is the penalized logP of Jin et al.
(2018):

    y = z(logP) + z(-SA) + z(-max(0, longest cycle - 6)),   z(v) = (v - mean) / deviation

SA is the synthetic accessibility of Ertl and Schuffenhauer (2009). The longest cycle is that of a cycle basis. Means
and deviations are those of the 220,011 official training molecules, computed with RDKit 2026.09.

``zinc_index.npz`` lists which of the 249,456 lines of ``zinc250k.smiles`` are the 12,000 molecules. The validation and
test sets are the official ones, i.e. the 1,000 molecules of each ``.index`` file, in that order. No package contains
the order of the official training list, so that its ``.index`` file cannot be applied. The 10,000 training molecules
are therefore a random sample of the official 220,011, stored as differences of line numbers. The median difference
between the targets here and the official targets of the validation and test sets is 0.001. Of these 2,000 targets, 15
differ by more than 0.02.
"""

from __future__ import annotations

import importlib.util
from array import array
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tgnn.data.build import import_optional
from tgnn.data.build.molecules import parse_smiles, silence_rdkit
from tgnn.data.graph_dataset import GraphDataset, pack
from tgnn.data.readers.unpickle import StoredTensor, read_tensors
from tgnn.data.splits import PARTS
from tgnn.utils.progress import track

LINES = 249_456
"""Number of lines of ``zinc250k.smiles``."""

ATOMS = (  # element, explicit hydrogens, charge; the index is the atom type
    *(("C", 0, 0), ("O", 0, 0), ("N", 0, 0), ("F", 0, 0), ("C", 1, 0), ("S", 0, 0), ("Cl", 0, 0), ("O", 0, -1)),
    *(("N", 1, 1), ("Br", 0, 0), ("N", 3, 1), ("N", 2, 1), ("N", 0, 1), ("N", 0, -1), ("S", 0, -1), ("I", 0, 0)),
    *(("P", 0, 0), ("O", 1, 1), ("N", 1, -1), ("O", 0, 1), ("S", 0, 1), ("P", 1, 0), ("P", 2, 0), ("C", 2, -1)),
    *(("P", 0, 1), ("S", 1, 1), ("C", 1, -1), ("P", 1, 1)),
)
_TYPE = {atom: index for index, atom in enumerate(ATOMS)}

_MEAN = np.array([2.4577998006009225, -3.0535715142931834, -0.04888391944039162])  # logP, -SA, cycles
_DEVIATION = np.array([1.4334180962410306, 0.8346995269254995, 0.28907638365958754])
_OFFICIAL_KEYS = ("atom_type", "bond_type", "logP_SA_cycle_normalized")


# ---- the official files ----------------------------------------------------------------------------------------


def read_zinc(folder: Path | str) -> GraphDataset:
    """Read the 12,000 molecules of the subset in their order, as PyG's ``ZINC`` does, with the split.

    The folder has ``train.pickle``, ``val.pickle``, ``test.pickle`` (lists of molecules) and three ``.index`` files
    (indices of the subset). Unlike PyG's, ``edge_attr`` is ``[edges, 1]``.
    """
    graphs, split = [], []
    for code, part in enumerate(PARTS):
        path = Path(folder) / f"{part}.pickle"
        molecules = read_tensors(path.read_bytes(), str(path))
        if not isinstance(molecules, list) or not molecules:
            raise ValueError(f"{path} must contain a list of molecules, got {type(molecules).__name__}")
        for index in _read_indices(path.with_suffix(".index"), len(molecules)):
            where = f"{path.name}: molecule {index}"
            atoms, bonds, target = (_load(molecules[index], key, where) for key in _OFFICIAL_KEYS)
            if bonds.shape != (len(atoms), len(atoms)):
                raise ValueError(f"{where} has {len(atoms)} atoms, but bond_type has shape {list(bonds.shape)}")
            edge_index = bonds.nonzero().t()
            features = {"x": atoms.long().unsqueeze(1), "edge_attr": bonds[tuple(edge_index)].long().unsqueeze(1)}
            graphs.append({**features, "edge_index": edge_index, "y": target.float()})
            split.append(code)
    return pack(graphs, split=torch.tensor(split))


def _read_indices(path: Path, count: int) -> list[int]:
    try:
        indices = [int(entry) for entry in path.read_text().strip().strip(",").split(",")]
    except ValueError as error:
        raise ValueError(f"{path} must contain integers separated by commas: {error}") from error
    outside = [index for index in indices if not 0 <= index < count]
    if outside:
        raise ValueError(f"{path} contains the index {outside[0]}, but there are {count} molecules (0 to {count - 1})")
    return indices


def _load(molecule: object, key: str, where: str) -> Tensor:
    stored = molecule.get(key) if isinstance(molecule, dict) else None
    if not isinstance(stored, StoredTensor):
        raise ValueError(f"{where} has no tensor {key!r}")
    return stored.load()


# ---- the builder -----------------------------------------------------------------------------------------------


def build_zinc(path: Path | str) -> dict[str, np.ndarray]:
    """Build packed graphs of the 12,000 molecules of ``zinc250k.smiles`` (one per line) with the split."""
    lines = Path(path).read_text().split()
    if len(lines) != LINES:
        raise ValueError(f"{path} has {len(lines):,} molecules, but ZINC-250k has {LINES:,}")
    index = zinc_index()
    arrays = featurize_zinc([lines[line] for part in index for line in part])
    return {**arrays, "split": np.repeat(np.arange(3, dtype=np.int8), [len(part) for part in index])}


def zinc_index() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the lines of the training, validation and test molecules, counted from 0."""
    with (files("tgnn.data.build") / "zinc_index.npz").open("rb") as file, np.load(file) as stored:
        parts = (stored["train_steps"].cumsum(), stored["val"], stored["test"])
        train, val, test = (part.astype(np.int64) for part in parts)
    return train, val, test


def featurize_zinc(smiles: Sequence[str]) -> dict[str, np.ndarray]:
    """Convert molecules to packed graphs with targets, each bond stored once. All atoms must be of the 28 types.

    Example:
        >>> arrays = featurize_zinc(["C[NH3+]", "C=O"])
        >>> arrays["x"].flatten().tolist(), arrays["edge_attr"].flatten().tolist()
        ([0, 10, 0, 1], [1, 2])
    """
    atoms, bonds = array("q"), array("q")
    num_nodes, num_edges = np.zeros((2, len(smiles)), np.int32)
    scores = np.zeros((len(smiles), 3))
    with silence_rdkit():
        for index, text in enumerate(track(smiles, "ZINC: converting molecules to graphs")):
            molecule = parse_smiles(text)
            if molecule is None:
                raise ValueError(f"RDKit cannot parse molecule {index}, {text!r}")
            scores[index] = _scores(molecule)
            kekulized = _without_aromaticity(molecule)
            num_nodes[index], num_edges[index] = kekulized.GetNumAtoms(), kekulized.GetNumBonds()
            atoms.extend(_atom_type(atom, text) for atom in kekulized.GetAtoms())
            for bond in kekulized.GetBonds():
                bonds.extend((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), int(bond.GetBondTypeAsDouble())))
    edges = np.array(bonds, dtype=np.int64).reshape(-1, 3)
    return {
        "num_nodes": num_nodes,
        "num_edges": num_edges,
        "edge_index": edges[:, :2].T,
        "directed": np.array(False),
        "x": np.array(atoms, dtype=np.int64).reshape(-1, 1),
        "edge_attr": edges[:, 2:],
        "y": ((scores - _MEAN) / _DEVIATION).sum(1).astype(np.float32),
    }


def _without_aromaticity(molecule: Any) -> Any:
    """Kekulize the molecule and parse its canonical SMILES again, which defines the order of the atoms."""
    chem = import_optional("rdkit.Chem", "molecules")
    molecule = chem.Mol(molecule)
    chem.Kekulize(molecule, clearAromaticFlags=True)
    return chem.MolFromSmiles(chem.MolToSmiles(molecule), sanitize=False)


def _atom_type(atom: Any, text: str) -> int:
    key = (atom.GetSymbol(), atom.GetNumExplicitHs(), atom.GetFormalCharge())
    if key not in _TYPE:
        raise ValueError(f"{text!r} has the atom {key[0]} with charge {key[2]}, which is none of ZINC's 28 atom types")
    return _TYPE[key]


def _scores(molecule: Any) -> tuple[float, float, float]:
    """Compute the three terms of the target before normalization."""
    logp = import_optional("rdkit.Chem.Crippen", "molecules").MolLogP(molecule)
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    networkx = import_optional("networkx", "molecules")
    graph = networkx.Graph()  # the cycle basis depends on the order of nodes and neighbors
    graph.add_nodes_from(range(molecule.GetNumAtoms()))
    graph.add_edges_from(sorted((min(bond), max(bond)) for bond in bonds))
    longest = max((len(cycle) for cycle in networkx.cycle_basis(graph)), default=0)
    return logp, -_accessibility().calculateScore(molecule), -max(0, longest - 6)


@cache
def _accessibility() -> Any:
    """Import the synthetic accessibility score of Ertl and Schuffenhauer from RDKit's contributed scripts."""
    folder = Path(import_optional("rdkit.RDConfig", "molecules").RDContribDir) / "SA_Score"
    spec = importlib.util.spec_from_file_location("sascorer", folder / "sascorer.py")
    if spec is None or spec.loader is None or not (folder / "sascorer.py").exists():
        raise ModuleNotFoundError(f"the installed RDKit has no {folder}; run pip install '.[molecules]'")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
