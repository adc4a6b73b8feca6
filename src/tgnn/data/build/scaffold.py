"""The scaffold split of MoleculeNet (Wu et al. 2018) and OGB: test molecules have frames that training has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from tgnn.data.build.molecules import quiet, read
from tgnn.data.build.optional import load
from tgnn.data.splits import Split

_EVERY = 256  # molecules between two ticks


def scaffold_split(
    smiles: Sequence[str], train: float = 0.8, val: float = 0.1, tick: Callable[[int], None] | None = None
) -> Split:
    """Groups of equal Bemis-Murcko scaffolds, the largest first: to training while they fit, then to validation.

    Of two groups of the same size, the one whose first molecule stands later in the list goes first. Molecules
    without a ring share one scaffold, the empty one. Those that RDKit cannot read have none: they are test molecules.

    Args:
        smiles: One molecule each.
        train: Share that training may not exceed.
        val: Share of validation, counted on top of that of training.
        tick: _Messages every now and then how many more molecules are done.

    Example:
        >>> split = scaffold_split(["C1CC1", "c1ccccc1", "C1CC1C", "c1ccccc1C", "CCO"], train=0.5, val=0.2)
        >>> split.train.tolist(), split.val.tolist(), split.test.tolist()
        ([1, 3], [4], [0, 2])
    """
    groups: dict[str, list[int]] = {}
    for place, scaffold in enumerate(scaffolds(smiles, tick)):
        if scaffold is not None:
            groups.setdefault(scaffold, []).append(place)
    first: list[int] = []
    second: list[int] = []
    for group in sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True):
        if len(first) + len(group) <= train * len(smiles):
            first += group
        elif len(first) + len(second) + len(group) <= (train + val) * len(smiles):
            second += group
    chosen = {*first, *second}
    third = [place for place in range(len(smiles)) if place not in chosen]
    parts = (torch.tensor(sorted(part), dtype=torch.int64) for part in (first, second, third))
    return Split("scaffold", None, len(smiles), *parts)


def scaffolds(smiles: Sequence[str], tick: Callable[[int], None] | None = None) -> list[str | None]:
    """Ring systems and what links them, as SMILES without chirality; ``None`` for a molecule RDKit cannot read.

    Args:
        smiles: One molecule each.
        tick: _Messages every now and then how many more molecules are done.

    Example:
        >>> scaffolds(["CCc1ccccc1", "CCO", "no molecule"])
        ['c1ccccc1', '', None]
    """
    murcko = load("rdkit.Chem.Scaffolds.MurckoScaffold", "molecules")
    found: list[str | None] = []
    with quiet():
        for place, text in enumerate(smiles):
            molecule = read(text)
            found.append(None if molecule is None else murcko.MurckoScaffoldSmiles(mol=molecule))
            if tick is not None and (place % _EVERY == _EVERY - 1 or place == len(smiles) - 1):
                tick(place % _EVERY + 1)
    return found
