"""Splits by name, for the data at hand.

=================== ===============================================================================================
``public``          Planetoid's, as published with the citation networks
``published``       the one that others have published with the data (ZINC, MNIST, CIFAR10)
``official``        OGB's
``scaffold``        by Bemis-Murcko scaffold, 80/10/10: molecules of one kind are in one part
``column``          the user's own, from the ``split`` column
``per-class-quota`` 60/20/20 as GPRGNN and the paper: the same *number* of examples of each class
``stratified``      60/20/20: the same *share* of each class in every part
``fold``            ten stratified folds as Errica et al.; the seed is the number of the fold (10: fold 0, drawn anew)
``published-fold``  the ten folds of DGCNN, GIN, GMT and SOPool, where their file lies with the data
=================== ===============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data import splits
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk.disk_graph import DiskGraph
from tgnn.data.splits import Split

LoadedData: TypeAlias = Data | GraphDataset | DiskGraph

STORED = ("public", "published", "official", "scaffold", "column")
"""Names for a split that comes with the data."""
FOLDS = 10


def choose_split(data: LoadedData, name: str, seed: int = 0) -> Split:
    """The split of that name, for this data.

    Args:
        data: As :func:`tgnn.data.load` gives it.
        name: A protocol, as above.
        seed: To draw with; the number of the fold for folds.
    """
    ways = protocols(data)
    if name not in ways:
        there = ", ".join(ways) or "none: it has no labels"
        raise ValueError(f"there is no split {name!r} of {data.info.name}; it has {there}")
    return ways[name](seed)


def protocols(data: LoadedData) -> dict[str, Callable[[int], Split]]:
    """The protocols that this data allows, by name; each takes a seed."""
    if data.y is None:
        return {}
    y, ways = data.y, dict[str, Callable[[int], Split]]()
    if (stored := _stored(data)) is not None:
        ways[stored.name] = lambda _: _without_unlabelled(stored, y)
    if "scaffold" not in ways and (smiles := getattr(data, "smiles", None)) is not None:
        ways["scaffold"] = lambda _: _without_unlabelled(_scaffold(smiles), y)
    if data.info.target == "classes":
        ways["per-class-quota"] = lambda seed: _among_labelled(y, splits.per_class_quota, seed)
    ways["stratified"] = lambda seed: _among_labelled(y, splits.stratified, seed)
    if data.info.target == "classes":
        ways["fold"] = lambda seed: _among_labelled(y, _fold, seed)
    if (tests := getattr(data, "test_folds", None)) is not None:
        ways["published-fold"] = lambda seed: _without_unlabelled(_published_fold(y, tests, seed), y)
    return ways


def _published_fold(y: Tensor, tests: Sequence[Sequence[int]], seed: int) -> Split:
    return splits.published_fold(y, tests, seed % len(tests), seed // len(tests))


def _fold(y: Tensor, seed: int) -> Split:
    return splits.fold(y, seed % FOLDS, seed // FOLDS, FOLDS)


def _stored(data: LoadedData) -> Split | None:
    if isinstance(data, GraphDataset):
        split = data.published_split()
    elif isinstance(data, DiskGraph):
        split = data.stored_split()
    elif data.get("train_mask") is not None and data.get("test_mask") is not None:
        split = splits.from_masks("public", data.train_mask, data.val_mask, data.test_mask)
    else:
        split = None
    return None if split is None else replace(split, name=data.info.stored_split)


def _scaffold(smiles: Sequence[str]) -> Split:
    from tgnn.data.build.scaffold import scaffold_split  # RDKit is an extra

    split = scaffold_split(smiles)
    if not (len(split.train) and len(split.val) and len(split.test)):
        sizes = f"{len(split.train)}, {len(split.val)} and {len(split.test)}"
        raise ValueError(f"the molecules are too much alike for a scaffold split: its parts have {sizes} of them")
    return split


def labelled(y: Tensor) -> Tensor:
    """Which examples have a target: not -1 among classes, not NaN among numbers, any label known among several."""
    if not y.is_floating_point():
        return y >= 0 if y.dim() == 1 else torch.ones(len(y), dtype=torch.bool)
    known = ~y.isnan()
    return known if y.dim() == 1 else known.any(1)


def _among_labelled(y: Tensor, draw: Callable[[Tensor, int], Split], seed: int) -> Split:
    """A split of those that have a target; the others are in no part."""
    places = labelled(y).nonzero().squeeze(1)
    if len(places) == len(y):
        return draw(y, seed)
    if not len(places):
        raise ValueError("no example has a label: there is nothing to learn from")
    split = draw(y[places], seed)
    return Split(split.name, split.seed, len(y), places[split.train], places[split.val], places[split.test])


def _without_unlabelled(split: Split, y: Tensor) -> Split:
    """The same split without examples that have no target."""
    known = labelled(y)
    if bool(known.all()):
        return split
    parts = (part[known[part]] for part in (split.train, split.val, split.test))
    return Split(split.name, split.seed, split.size, *parts)
