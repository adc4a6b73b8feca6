"""Split protocols by name: how a data set is divided into training, validation and test sets.

=================== ===============================================================================================
``public``          Planetoid's split, published with the citation networks
``published``       the split that is published with the data (ZINC, MNIST, CIFAR10)
``official``        OGB's official split
``scaffold``        80/10/10 by Bemis-Murcko scaffold: molecules with the same scaffold are in the same set
``column``          the user's own split, from the column ``split``
``per-class-quota`` 60/20/20 as in GPRGNN and the paper: the same *number* of training examples per class
``stratified``      60/20/20 with the same class distribution in all three sets
``fold``            stratified 10-fold cross-validation as in Errica et al. (2020); seeds 0 to 9 are the folds, seeds
                    10 to 19 the folds of another random draw
``published-fold``  the ten folds of DGCNN, GIN, GMT and SOPool, if their file is stored with the data
=================== ===============================================================================================

The default protocol of a data set is in its catalog entry (:mod:`tgnn.data.catalog`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from tgnn.data import splits
from tgnn.data.dataset_info import LoadedData
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk.disk_graph import DiskGraph
from tgnn.data.splits import Split

STORED = ("public", "published", "official", "scaffold", "column")
"""Protocols whose split is stored with the data or determined by it. They do not depend on the seed."""
FOLDS = 10
"""Number of folds of the protocol ``fold``."""


def choose_split(data: LoadedData, name: str, seed: int = 0) -> Split:
    """Split a data set with the given protocol.

    Args:
        data: The data, as :func:`tgnn.data.load` returns it.
        name: Name of the protocol.
        seed: Random seed. For ``fold`` and ``published-fold`` it is the number of the fold.
    """
    available = protocols(data)
    if not available:
        raise ValueError(f"{data.info.name} has no labels and cannot be split")
    if name not in available:
        raise ValueError(f"{data.info.name} has no split {name!r}; available are {', '.join(available)}")
    return available[name](seed)


def protocols(data: LoadedData) -> dict[str, Callable[[int], Split]]:
    """Return the available split protocols of a data set, as functions of the seed. Unlabeled data has none."""
    if data.y is None:
        return {}
    y, available = data.y, dict[str, Callable[[int], Split]]()
    if (stored := _stored_split(data)) is not None:
        available[stored.name] = lambda _: _drop_unlabeled(stored, y)
    if "scaffold" not in available and (smiles := getattr(data, "smiles", None)) is not None:
        available["scaffold"] = lambda _: _drop_unlabeled(_scaffold(smiles), y)
    if data.info.target == "classes":
        available["per-class-quota"] = lambda seed: _split_labeled(y, splits.per_class_quota, seed)
    available["stratified"] = lambda seed: _split_labeled(y, splits.stratified, seed)
    if data.info.target == "classes":
        available["fold"] = lambda seed: _split_labeled(y, _fold, seed)
    if (test_folds := getattr(data, "test_folds", None)) is not None:
        available["published-fold"] = lambda seed: _drop_unlabeled(_published_fold(y, test_folds, seed), y)
    return available


def _published_fold(y: Tensor, test_folds: Sequence[Sequence[int]], seed: int) -> Split:
    return splits.published_fold(y, test_folds, seed % len(test_folds), seed // len(test_folds))


def _fold(y: Tensor, seed: int) -> Split:
    return splits.fold(y, seed % FOLDS, seed // FOLDS, FOLDS)


def _stored_split(data: LoadedData) -> Split | None:
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
        raise ValueError(f"the scaffold split would have {sizes} molecules, but no set may be empty; use stratified")
    return split


def labeled_mask(y: Tensor) -> Tensor:
    """Return a mask of the labeled examples. Class -1 and NaN mean unlabeled. Of several labels, one must be known."""
    if not y.is_floating_point():
        return y >= 0 if y.dim() == 1 else torch.ones(len(y), dtype=torch.bool)
    known = ~y.isnan()
    return known if y.dim() == 1 else known.any(1)


def _split_labeled(y: Tensor, draw: Callable[[Tensor, int], Split], seed: int) -> Split:
    """Split the labeled examples. Unlabeled examples are in none of the three sets."""
    labeled = labeled_mask(y).nonzero().squeeze(1)
    if len(labeled) == len(y):
        return draw(y, seed)
    if not len(labeled):
        raise ValueError("no example has a label, so that there is no training set")
    split = draw(y[labeled], seed)
    return Split(split.name, split.seed, len(y), labeled[split.train], labeled[split.val], labeled[split.test])


def _drop_unlabeled(split: Split, y: Tensor) -> Split:
    """Remove the unlabeled examples from a split."""
    known = labeled_mask(y)
    if bool(known.all()):
        return split
    parts = (part[known[part]] for part in (split.train, split.val, split.test))
    return Split(split.name, split.seed, split.size, *parts)
