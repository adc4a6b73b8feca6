"""Reader of the official ZINC files (Dwivedi et al. 2020): pickled lists of molecules and indices of the subset."""

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
    """Read the training, validation and test molecules, as PyG's ``ZINC`` does, with the split.

    Args:
        folder: Folder of ``train.pickle``, ``val.pickle``, ``test.pickle`` and the three ``.index`` files.
        subset: Whether to read only the 12,000 molecules of the ``.index`` files, in their order.

    Shapes:
        - ``x`` ``[atoms, 1]``, 0 to 27; ``edge_attr`` ``[edges, 1]`` (``[edges]`` in PyG), 1 to 3; ``y`` ``[1]``
    """
    folder = Path(folder)
    atoms, edges, bonds, targets, split = [], [], [], [], []
    for code, part in enumerate(PARTS):
        molecules = _read_molecules(folder / f"{part}.pickle")
        indices = _read_indices(folder / f"{part}.index", len(molecules)) if subset else range(len(molecules))
        for index in indices:
            atom, bond, target = (_tensor(molecules, index, name, f"{part}.pickle") for name in _NEEDED)
            if bond.shape != (len(atom), len(atom)):
                raise ValueError(
                    f"{part}.pickle: molecule {index} has {len(atom)} atoms, but bond_type has shape {list(bond.shape)}"
                )
            ends = bond.nonzero().t()
            atoms.append(atom)
            edges.append(ends)
            bonds.append(bond[ends[0], ends[1]])
            targets.append(target.float().flatten())
            split.append(code)
    arrays: dict[str, object] = {
        "num_nodes": [len(atom) for atom in atoms],
        "num_edges": [len(bond) for bond in bonds],
        "edge_index": torch.cat(edges, dim=1),
        "directed": True,
        "x": torch.cat(atoms).long().unsqueeze(1),
        "edge_attr": torch.cat(bonds).long().unsqueeze(1),
        "y": torch.cat(targets),
        "split": split,
    }
    return GraphDataset(arrays)


def _read_molecules(path: Path) -> list[object]:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; ZINC needs {{{','.join(PARTS)}}}.pickle and .index")
    molecules = read_tensors(path.read_bytes(), str(path))
    if not isinstance(molecules, list) or not molecules:
        raise ValueError(f"{path} must contain a list of molecules, got {type(molecules).__name__}")
    return molecules


def _read_indices(path: Path, count: int) -> list[int]:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; it lists the molecules of the subset")
    try:
        indices = [int(entry) for entry in path.read_text().strip().strip(",").split(",")]
    except ValueError as error:
        raise ValueError(f"{path} must contain integers separated by commas: {error}") from error
    outside = [index for index in indices if not 0 <= index < count]
    if outside:
        raise ValueError(f"{path} contains the index {outside[0]}, but there are {count} molecules (0 to {count - 1})")
    return indices


def _tensor(molecules: Sequence[object], index: int, name: str, file: str) -> Tensor:
    molecule = molecules[index]
    stored = molecule.get(name) if isinstance(molecule, dict) else None
    if not isinstance(stored, StoredTensor):
        raise ValueError(f"{file}: molecule {index} has no tensor {name!r}")
    return stored.load()
