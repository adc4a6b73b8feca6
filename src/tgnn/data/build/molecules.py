"""Convert SMILES to graphs with the atom and bond features of the Open Graph Benchmark (Hu et al. 2020).

A feature is an index into a list of values. The last index stands for all values that are not in the list.

=========  ======================  ====================================================================
atom 0     element                 1 to 118
atom 1     chirality               none, clockwise, counter-clockwise, other
atom 2     degree                  0 to 10, including hydrogens
atom 3     charge                  -5 to 5
atom 4     hydrogens               0 to 8
atom 5     radical electrons       0 to 4
atom 6     hybridization           sp, sp2, sp3, sp3d, sp3d2
atom 7, 8  aromatic, in a ring     no, yes
bond 0     type                    single, double, triple, aromatic
bond 1     stereo                  none, Z, E, cis, trans, any; all other values are mapped to none
bond 2     conjugated              no, yes
=========  ======================  ====================================================================
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tgnn.data.build import import_optional
from tgnn.data.splits import Split, split_codes
from tgnn.utils.progress import track

ATOM_CATEGORIES, BOND_CATEGORIES = (119, 5, 12, 12, 10, 6, 6, 2, 2), (5, 6, 2)
"""Number of values of each feature, including that for all values that are not in its list."""
_CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
_HYBRIDIZATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
_BOND = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
_STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")


# ---- graphs ----------------------------------------------------------------------------------------------------


def featurize(smiles: Sequence[str]) -> tuple[dict[str, np.ndarray], list[int]]:
    """Convert molecules to packed graphs. A molecule that RDKit cannot parse becomes a graph without nodes.

    ``torch_geometric.utils.from_smiles`` is not used, because its features are not those of the Open Graph Benchmark:
    it numbers elements, hybridizations and bonds differently and sorts the edges. It also fails on values outside of
    its lists, such as the charge +7, does not report molecules that cannot be parsed, and takes twice as long (2.2 s
    instead of 1.1 s for 2,000 molecules).

    Returns:
        The packed arrays, and the positions of the molecules that RDKit cannot parse. The edges of a graph are its
        bonds in RDKit's order, then the reverse of all of them.

    Example:
        >>> arrays, unreadable = featurize(["CO", "no molecule"])
        >>> arrays["num_nodes"].tolist(), arrays["edge_index"].tolist(), unreadable
        ([2, 0], [[0, 1], [1, 0]], [1])
    """
    arrays, unreadable = _featurize_bonds(smiles)
    count, forward, features = arrays["num_edges"], arrays["edge_index"], arrays["edge_attr"]
    order = np.argsort(np.tile(np.repeat(np.arange(len(count)), count), 2), kind="stable")
    both = {
        "num_edges": 2 * count,
        "edge_index": np.concatenate([forward, forward[::-1]], axis=1)[:, order],
        "edge_attr": np.concatenate([features, features])[order],
        "directed": np.array(True),
    }
    return arrays | both, unreadable


def _featurize_bonds(smiles: Sequence[str], valence: bool = True) -> tuple[dict[str, np.ndarray], list[int]]:
    """Convert molecules to packed graphs in which each bond is stored once."""
    tables = _FeatureTables()
    atoms, bonds = array("q"), array("q")
    num_nodes, num_bonds = np.zeros(len(smiles), np.int64), np.zeros(len(smiles), np.int64)
    unreadable = []
    with silence_rdkit():
        for index, text in enumerate(track(smiles, "converting molecules to graphs")):
            molecule = parse_smiles(text, valence)
            if molecule is None:
                unreadable.append(index)
                continue
            num_nodes[index], num_bonds[index] = molecule.GetNumAtoms(), molecule.GetNumBonds()
            for atom in molecule.GetAtoms():
                atoms.extend(tables.atom(atom))
            for bond in molecule.GetBonds():
                bonds.extend(tables.bond(bond))
    edges = np.array(bonds, dtype=np.int64).reshape(-1, 5)
    arrays = {
        "num_nodes": num_nodes,
        "num_edges": num_bonds,
        "edge_index": edges[:, :2].T,
        "directed": np.array(False),
        "x": np.array(atoms, dtype=np.int64).reshape(-1, 9),
        "edge_attr": edges[:, 2:],
    }
    return arrays, unreadable


def parse_smiles(text: str, valence: bool = True) -> Any:
    """Parse SMILES with RDKit, also with too many bonds for an atom if not ``valence``. ``None`` if that fails."""
    chem = import_optional("rdkit.Chem", "molecules")
    if not isinstance(text, str):
        raise TypeError(f"a molecule must be a SMILES string, got {text!r}")
    molecule = chem.MolFromSmiles(text)
    if molecule is None and not valence:
        molecule = chem.MolFromSmiles(text, sanitize=False)
        if molecule is not None:
            molecule.UpdatePropertyCache(strict=False)
            steps = chem.SanitizeFlags.SANITIZE_ALL ^ chem.SanitizeFlags.SANITIZE_PROPERTIES
            failed = chem.SanitizeMol(molecule, steps, catchErrors=True)
            molecule = None if failed else molecule
    return molecule if molecule is not None and molecule.GetNumAtoms() else None  # RDKit parses "" as a molecule


def silence_rdkit() -> Any:
    """Return a context manager that disables RDKit's log."""
    return import_optional("rdkit.rdBase", "molecules").BlockLogs()


class _FeatureTables:
    """Index of each feature value, keyed by RDKit's constants. Looking up their names takes three times as long."""

    def __init__(self) -> None:
        chem = import_optional("rdkit.Chem", "molecules")
        self.chirality = {chem.ChiralType.names[name]: i for i, name in enumerate(_CHIRALITY)}
        self.hybridization = {chem.HybridizationType.names[name]: i for i, name in enumerate(_HYBRIDIZATION)}
        self.bonds = {chem.BondType.names[name]: i for i, name in enumerate(_BOND)}
        self.stereo = {chem.BondStereo.names[name]: i for i, name in enumerate(_STEREO)}

    def atom(self, atom: Any) -> tuple[int, ...]:
        return (
            _index_or_last(atom.GetAtomicNum() - 1, 118),
            self.chirality.get(atom.GetChiralTag(), 4),
            _index_or_last(atom.GetTotalDegree(), 11),
            _index_or_last(atom.GetFormalCharge() + 5, 11),
            _index_or_last(atom.GetTotalNumHs(), 9),
            _index_or_last(atom.GetNumRadicalElectrons(), 5),
            self.hybridization.get(atom.GetHybridization(), 5),
            int(atom.GetIsAromatic()),
            int(atom.IsInRing()),
        )

    def bond(self, bond: Any) -> tuple[int, ...]:
        return (
            bond.GetBeginAtomIdx(),
            bond.GetEndAtomIdx(),
            self.bonds.get(bond.GetBondType(), 4),
            self.stereo.get(bond.GetStereo(), 0),
            int(bond.GetIsConjugated()),
        )


def _index_or_last(position: int, length: int) -> int:
    return position if 0 <= position < length else length


# ---- the scaffold split ----------------------------------------------------------------------------------------


def scaffold_split(smiles: Sequence[str], train: float = 0.8, val: float = 0.1) -> Split:
    """Split molecules by their Bemis-Murcko scaffolds, as MoleculeNet (Wu et al. 2018) and OGB do.

    Groups of molecules with the same scaffold are assigned to the training set, then to the validation set, as long as
    they fit, the largest group first. All other molecules are the test set. Of two groups of the same size, the one
    whose first molecule comes later is assigned first. Molecules without a ring share the empty scaffold. Molecules
    that RDKit cannot parse belong to the test set.

    Args:
        smiles: SMILES of each molecule.
        train: Maximum fraction of molecules in the training set.
        val: Maximum fraction of molecules in the validation set, in addition to the unused part of ``train``.

    Example:
        >>> split = scaffold_split(["C1CC1", "c1ccccc1", "C1CC1C", "c1ccccc1C", "CCO"], train=0.5, val=0.2)
        >>> split.train.tolist(), split.val.tolist(), split.test.tolist()
        ([1, 3], [4], [0, 2])
    """
    groups: dict[str, list[int]] = {}
    for index, scaffold in enumerate(scaffolds(smiles)):
        if scaffold is not None:
            groups.setdefault(scaffold, []).append(index)
    train_indices: list[int] = []
    val_indices: list[int] = []
    for group in sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True):
        if len(train_indices) + len(group) <= train * len(smiles):
            train_indices += group
        elif len(train_indices) + len(val_indices) + len(group) <= (train + val) * len(smiles):
            val_indices += group
    assigned = {*train_indices, *val_indices}
    test_indices = [index for index in range(len(smiles)) if index not in assigned]
    parts = (torch.tensor(sorted(part), dtype=torch.int64) for part in (train_indices, val_indices, test_indices))
    return Split("scaffold", None, len(smiles), *parts)


def scaffolds(smiles: Sequence[str]) -> list[str | None]:
    """Compute the Bemis-Murcko scaffolds as SMILES without chirality. ``None`` if RDKit cannot parse the molecule."""
    murcko = import_optional("rdkit.Chem.Scaffolds.MurckoScaffold", "molecules")
    with silence_rdkit():
        molecules = (parse_smiles(text) for text in track(smiles, "computing scaffolds of molecules"))
        return [None if molecule is None else murcko.MurckoScaffoldSmiles(mol=molecule) for molecule in molecules]


# ---- MolHIV ----------------------------------------------------------------------------------------------------


def build_molhiv(path: Path | str) -> dict[str, np.ndarray]:
    """Build packed graphs of MoleculeNet's table HIV.csv with ``y`` (1 for active molecules) and the scaffold split.

    Features and split follow OGB and are recomputed. Current versions of RDKit reject seven of the 41,127 molecules,
    because their metals have too many bonds. These are parsed without the valence check and belong to the test set,
    which gives OGB's sizes 32901/4113/4113.
    """
    smiles, y = read_hiv(path)
    arrays, unreadable = _featurize_bonds(smiles, valence=False)
    if unreadable:
        raise ValueError(f"{path}: RDKit cannot parse {smiles[unreadable[0]]!r} in row {unreadable[0] + 1}")
    return arrays | {"y": y, "split": split_codes(scaffold_split(smiles))}


def read_hiv(path: Path | str) -> tuple[list[str], np.ndarray]:
    """Read the SMILES and the labels ``[G, 1]``, 0 or 1."""
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
