"""ZINC as the benchmark of Dwivedi et al. (2020) published it: pickled lists of molecules and lists of chosen ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.unpickle import StoredTensor, read_tensors
from tgnn.data.splits import PARTS

_NEEDED = ("atom_type", "bond_type", "logP_SA_cycle_normalized")


def read_zinc(folder: Path | str, subset: bool = True) -> GraphDataset:
    """The molecules as PyG's ``ZINC`` has them, training, validation and test one after the other, with the split.

    Args:
        folder: Where ``train.pickle``, ``val.pickle``, ``test.pickle`` and the three ``.index`` files are.
        subset: The 12,000 molecules that the ``.index`` files choose, in their order; else all.

    Shapes:
        - ``x`` ``[atoms, 1]``, 0 to 27; ``edge_attr`` ``[edges, 1]`` (PyG leaves out the 1), 1 to 3; ``y`` ``[1]``
    """
    folder = Path(folder)
    atoms, edges, bonds, targets, parts = [], [], [], [], []
    for number, part in enumerate(PARTS):
        molecules = _molecules(folder / f"{part}.pickle")
        places = _places(folder / f"{part}.index", len(molecules)) if subset else range(len(molecules))
        for place in places:
            atom, bond, target = (_tensor(molecules, place, name, f"{part}.pickle") for name in _NEEDED)
            if bond.shape != (len(atom), len(atom)):
                raise ValueError(f"{part}.pickle: molecule {place} has {len(atom)} atoms, bonds {list(bond.shape)}")
            ends = bond.nonzero().t()
            atoms.append(atom)
            edges.append(ends)
            bonds.append(bond[ends[0], ends[1]])
            targets.append(target.float().flatten())
            parts.append(number)
    arrays: dict[str, object] = {
        "num_nodes": [len(atom) for atom in atoms],
        "num_edges": [len(bond) for bond in bonds],
        "edge_index": torch.cat(edges, dim=1),
        "directed": True,
        "x": torch.cat(atoms).long().unsqueeze(1),
        "edge_attr": torch.cat(bonds).long().unsqueeze(1),
        "y": torch.cat(targets),
        "split": parts,
    }
    return GraphDataset(arrays)


def _molecules(path: Path) -> list[object]:
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: ZINC needs {{{','.join(PARTS)}}}.pickle and .index")
    molecules = read_tensors(path.read_bytes(), str(path))
    if not isinstance(molecules, list) or not molecules:
        raise ValueError(f"{path} must hold a list of molecules, got {type(molecules).__name__}")
    return molecules


def _places(path: Path, count: int) -> list[int]:
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: it says which molecules are in the subset")
    try:
        places = [int(word) for word in path.read_text().strip().strip(",").split(",")]
    except ValueError as error:
        raise ValueError(f"{path} must hold numbers with commas between them: {error}") from error
    wrong = [place for place in places if not 0 <= place < count]
    if wrong:
        raise ValueError(f"{path} names molecule {wrong[0]}, but there are 0 to {count - 1}")
    return places


def _tensor(molecules: Sequence[object], place: int, name: str, file: str) -> Tensor:
    molecule = molecules[place]
    stored = molecule.get(name) if isinstance(molecule, dict) else None
    if not isinstance(stored, StoredTensor):
        raise ValueError(f"{file}: molecule {place} has no tensor {name!r}")
    return stored.load()
