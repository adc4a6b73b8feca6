"""The scaffold split of MoleculeNet (Wu et al. 2018) and OGB: no scaffold is in both the training and the test set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from tgnn.data.build.molecules import quiet, read
from tgnn.data.build.optional_imports import import_optional
from tgnn.data.splits import Split

_EVERY = 256  # molecules per call of tick


def scaffold_split(
    smiles: Sequence[str], train: float = 0.8, val: float = 0.1, tick: Callable[[int], None] | None = None
) -> Split:
    """Split molecules by their Bemis-Murcko scaffolds.

    Groups of molecules with the same scaffold are assigned to the training set, then to the validation set, as long as
    they fit, the largest group first. All other molecules are the test set. Of two groups of the same size, the one
    whose first molecule comes later is assigned first. Molecules without a ring share the empty scaffold. Molecules
    that RDKit cannot parse belong to the test set.

    Args:
        smiles: SMILES of each molecule.
        train: Maximum fraction of molecules in the training set.
        val: Maximum fraction of molecules in the validation set, in addition to the unused part of ``train``.
        tick: Callback that receives the number of molecules processed since its last call.

    Example:
        >>> split = scaffold_split(["C1CC1", "c1ccccc1", "C1CC1C", "c1ccccc1C", "CCO"], train=0.5, val=0.2)
        >>> split.train.tolist(), split.val.tolist(), split.test.tolist()
        ([1, 3], [4], [0, 2])
    """
    groups: dict[str, list[int]] = {}
    for index, scaffold in enumerate(scaffolds(smiles, tick)):
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


def scaffolds(smiles: Sequence[str], tick: Callable[[int], None] | None = None) -> list[str | None]:
    """Compute the Bemis-Murcko scaffolds as SMILES without chirality. ``None`` if RDKit cannot parse the molecule.

    Args:
        smiles: SMILES of each molecule.
        tick: Callback that receives the number of molecules processed since its last call.

    Example:
        >>> scaffolds(["CCc1ccccc1", "CCO", "no molecule"])
        ['c1ccccc1', '', None]
    """
    murcko = import_optional("rdkit.Chem.Scaffolds.MurckoScaffold", "molecules")
    result: list[str | None] = []
    with quiet():
        for index, text in enumerate(smiles):
            molecule = read(text)
            result.append(None if molecule is None else murcko.MurckoScaffoldSmiles(mol=molecule))
            if tick is not None and (index % _EVERY == _EVERY - 1 or index == len(smiles) - 1):
                tick(index % _EVERY + 1)
    return result
