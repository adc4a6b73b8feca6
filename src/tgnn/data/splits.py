"""Split the nodes of a graph, or many graphs, into training, validation and test sets.

A split has a name, a seed and a hash. Two results are comparable only if their splits have the same hash. No function
here uses features, and :class:`Split` ensures that the three sets are disjoint. The section "Splits" of docs/data.md
describes the split protocols. The default protocol of a data set is in its catalog entry (:mod:`tgnn.data.catalog`).
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold, train_test_split
from torch import Tensor
from torch_geometric.data import Data

if TYPE_CHECKING:
    from tgnn.data.dataset_info import LoadedData

PARTS = ("train", "val", "test")
"""Names of the three sets. The position of a name is its code in stored splits."""
STORED = ("public", "published", "official", "scaffold", "column")
"""Protocols whose split is stored with the data or determined by it. They do not depend on the seed."""
FOLDS = 10
"""Number of folds of the protocol ``fold``."""
_TRAIN, _VAL, _VAL_OF_FOLDS = 0.6, 0.2, 0.1
"""Fractions of the training and validation sets, and of the validation set in the folds that are not the test set."""


@dataclass(frozen=True)
class Split:
    """A split of examples (nodes or graphs) into training, validation and test sets.

    Args:
        name: Protocol of the split, e.g. ``"stratified"``.
        seed: Random seed of the split. ``None`` if it is not random.
        size: Total number of examples. Some may be in none of the three sets.
        train: Indices of the training set, int64.
        val: Indices of the validation set, by which epoch and hyperparameters are selected.
        test: Indices of the test set, which is evaluated once.

    Example:
        >>> Split("column", None, 4, torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3]))
        Split('column', train=2, val=1, test=1, hash=...)
    """

    name: str
    seed: int | None
    size: int
    train: Tensor
    val: Tensor
    test: Tensor

    def __post_init__(self) -> None:
        for part in PARTS:
            indices: Tensor = getattr(self, part)
            if indices.dtype != torch.int64 or indices.dim() != 1:
                raise TypeError(f"{part} must be a one-dimensional int64 tensor, got {indices.dtype} {indices.dim()}-d")
            if indices.numel() and (int(indices.min()) < 0 or int(indices.max()) >= self.size):
                raise ValueError(f"{part} contains an index outside of 0 to {self.size - 1}")
        seen = torch.bincount(torch.cat([self.train, self.val, self.test]), minlength=self.size)
        if bool((seen > 1).any()):
            raise ValueError(f"example {int((seen > 1).nonzero()[0])} occurs twice; the three sets must be disjoint")

    @cached_property
    def hash(self) -> str:
        """Hash of the indices of all three sets, 16 hexadecimal digits."""
        digest = hashlib.sha256(str(self.size).encode())
        for part in PARTS:
            indices = getattr(self, part).sort().values.numpy().astype("<i8")
            digest.update(f"{part}{len(indices)}".encode())
            digest.update(indices.tobytes())
        return digest.hexdigest()[:16]

    def masks(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the training, validation and test sets as boolean masks."""
        codes = torch.from_numpy(split_codes(self))
        return codes == 0, codes == 1, codes == 2

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part}={len(getattr(self, part))}" for part in PARTS)
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"Split({self.name!r}{seed}, {sizes}, hash={self.hash})"


# ---- split protocols by name -----------------------------------------------------------------------------------


def choose_split(data: LoadedData, name: str, seed: int = 0) -> Split:
    """Split a data set, as :func:`tgnn.data.load` returns it, with the given protocol.

    For ``fold`` and ``published-fold``, the seed is the number of the fold.
    ``"published:20000"`` keeps 20,000 random examples of the training set, stratified by class, and the whole
    validation and test sets.
    """
    available = protocols(data)
    protocol, colon, limit = name.partition(":")
    if not available:
        raise ValueError(f"{data.info.name} has no labels and cannot be split")
    if protocol not in available or (colon and not (limit.isdecimal() and int(limit))):
        raise ValueError(
            f"{data.info.name} has no split {name!r}; available are {', '.join(available)}, and each with the size of "
            f"a smaller training set, as in {next(iter(available))}:20000"
        )
    split = available[protocol](seed)
    if not colon or int(limit) >= len(split.train):
        return split
    assert data.y is not None
    train, _ = _stratified_draw(split.train.numpy(), int(limit), data.y, seed)
    return replace(split, name=f"{split.name}:{limit}", seed=seed, train=torch.from_numpy(np.sort(train)))


def protocols(data: LoadedData) -> dict[str, Callable[[int], Split]]:
    """Return the available split protocols of a data set, as functions of the seed. Unlabeled data has none."""
    if data.y is None:
        return {}
    y, smiles, test_folds = data.y, getattr(data, "smiles", None), getattr(data, "test_folds", None)
    has_classes = data.info.target == "classification"
    available: dict[str, Callable[[int], Split]] = {}
    if (stored := _stored_split(data)) is not None:
        available[data.info.stored_split] = lambda _: stored
    if "scaffold" not in available and smiles is not None:
        available["scaffold"] = lambda _: _scaffold(smiles)
    if has_classes:
        available["per-class-quota"] = partial(_split_labeled, per_class_quota, y)
    available["stratified"] = partial(_split_labeled, stratified, y)
    if has_classes:
        available["fold"] = partial(_split_labeled, fold, y)
    if test_folds is not None:
        available["published-fold"] = partial(published_fold, y, test_folds)
    return {name: partial(_draw_and_drop_unlabeled, draw, y) for name, draw in available.items()}


def _stored_split(data: LoadedData) -> Split | None:
    split: Split | None = None
    if not isinstance(data, Data):
        split = data.stored_split()
    elif data.get("train_mask") is not None and data.get("test_mask") is not None:
        split = from_masks("public", data.train_mask, data.val_mask, data.test_mask)
    name = getattr(data, "split_name", "") or data.info.stored_split
    return None if split is None else replace(split, name=name)


def _scaffold(smiles: Sequence[str]) -> Split:
    from tgnn.data.build.molecules import scaffold_split  # RDKit is an extra

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


def _split_labeled(draw: Callable[[Tensor, int], Split], y: Tensor, seed: int) -> Split:
    """Split the labeled examples. Unlabeled examples are in none of the three sets."""
    labeled = labeled_mask(y).nonzero().squeeze(1)
    if not len(labeled):
        raise ValueError("no example has a label, so that there is no training set")
    if len(labeled) == len(y):
        return draw(y, seed)
    split = draw(y[labeled], seed)
    return Split(split.name, split.seed, len(y), *(labeled[getattr(split, part)] for part in PARTS))


def _draw_and_drop_unlabeled(draw: Callable[[int], Split], y: Tensor, seed: int) -> Split:
    split, known = draw(seed), labeled_mask(y)
    if bool(known.all()):
        return split
    parts = (indices[known[indices]] for indices in (split.train, split.val, split.test))
    return Split(split.name, split.seed, split.size, *parts)


# ---- random splits ---------------------------------------------------------------------------------------------


def per_class_quota(y: Tensor, seed: int) -> Split:
    """Split 60/20/20 with the same number of training examples from each class, as GPRGNN and the paper do.

    The training set has ``0.6 * N / C`` random examples of each of the C classes. The validation set has ``0.2 * N``
    random examples of the rest. Small classes can be entirely in the training set and missing from the test set.
    Accuracies are therefore not comparable with those of a stratified split; on Citeseer they are about six points
    higher.

    Example:
        >>> per_class_quota(torch.tensor([0] * 50 + [1] * 50), seed=0)
        Split('per-class-quota', seed=0, train=60, val=20, test=20, hash=...)
    """
    if _as_classes(y) is None:
        raise ValueError(
            f"per-class-quota needs one class per example, got {y.dtype} targets {list(y.shape)}; use stratified"
        )
    generator = torch.Generator().manual_seed(seed)
    classes = torch.unique(y)
    quota = round(_TRAIN * len(y) / len(classes))
    chosen = []
    for value in classes:
        members = (y == value).nonzero().squeeze(1)
        chosen.append(members[torch.randperm(len(members), generator=generator)][:quota])
    train = torch.cat(chosen)
    rest = torch.ones(len(y), dtype=torch.bool).index_fill_(0, train, False).nonzero().squeeze(1)
    rest = rest[torch.randperm(len(rest), generator=generator)]
    count = round(_VAL * len(y))
    return Split("per-class-quota", seed, len(y), train, rest[:count], rest[count:])


def stratified(y: Tensor, seed: int) -> Split:
    """Split 60/20/20 with the same class distribution in all sets. Multi-label and regression data is split at random.

    Example:
        >>> stratified(torch.tensor([0] * 50 + [1] * 50), seed=0)
        Split('stratified', seed=0, train=60, val=20, test=20, hash=...)
    """
    train, rest = _stratified_draw(np.arange(len(y)), round(_TRAIN * len(y)), y, seed)
    val, test = _stratified_draw(rest, round(_VAL * len(y)), y, seed)
    return _from_arrays("stratified", seed, len(y), train, val, test)


def fold(y: Tensor, seed: int) -> Split:
    """Return one fold of a stratified 10-fold cross-validation with an inner hold-out, as in Errica et al. (2020).

    The fold is the test set. A stratified tenth of the other folds is the validation set. The last digit of the seed is
    the number of the fold, and the other digits are the random seed of all folds.

    Example:
        >>> fold(torch.tensor([0] * 50 + [1] * 50), seed=3)
        Split('fold-3-of-10', seed=0, train=81, val=9, test=10, hash=...)
    """
    seed, number = divmod(seed, FOLDS)
    classes = _as_classes(y)
    if classes is None:
        raise ValueError("stratified folds need one class per example; use the protocol stratified")
    if np.unique(classes, return_counts=True)[1].max() < FOLDS:
        raise ValueError(f"{FOLDS} folds need a class with at least {FOLDS} examples, but no class has that many")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")  # it is then in some folds only
        parts = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(np.zeros(len(y)), classes))
    rest, test = parts[number]
    return _with_inner_holdout(f"fold-{number}-of-{FOLDS}", rest, test, y, seed)


def published_fold(y: Tensor, tests: Sequence[Sequence[int]], seed: int) -> Split:
    """Return one of several published folds, given as test indices, with an inner hold-out.

    The seed is the number of the fold, plus the number of folds times the random seed of the inner hold-out.
    """
    seed, number = divmod(seed, len(tests))
    test = np.asarray(tests[number], dtype=np.int64)
    rest = np.setdiff1d(np.arange(len(y)), test)
    return _with_inner_holdout(f"published-fold-{number}-of-{len(tests)}", rest, test, y, seed)


def _with_inner_holdout(name: str, rest: np.ndarray, test: np.ndarray, y: Tensor, seed: int) -> Split:
    train, val = _stratified_draw(rest, len(rest) - round(_VAL_OF_FOLDS * len(rest)), y, seed)
    return _from_arrays(name, seed, len(y), train, val, test)


def _from_arrays(name: str, seed: int, size: int, *parts: np.ndarray) -> Split:
    train, val, test = (torch.from_numpy(np.sort(part)) for part in parts)
    return Split(name, seed, size, train, val, test)


def _stratified_draw(indices: np.ndarray, first: int, y: Tensor, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Divide indices at random into ``first`` and the rest, stratified by class.

    A class with a single member is merged with others. The draw is not stratified if a part has too few examples.
    """
    if first in (0, len(indices)):
        shuffled = np.random.RandomState(seed).permutation(indices)
        return shuffled[:first], shuffled[first:]
    classes = _as_classes(y)
    strata = None if classes is None else classes[indices]
    if strata is not None:
        names, counts = np.unique(strata, return_counts=True)
        single = names[counts == 1]
        merged = names[counts.argmax()] if len(single) == 1 else names.max() + 1
        strata = np.where(np.isin(strata, single), merged, strata)
        if min(first, len(indices) - first) < len(np.unique(strata)):
            strata = None
    drawn, rest = train_test_split(indices, train_size=first, random_state=seed, stratify=strata)
    return drawn, rest


def _as_classes(y: Tensor) -> np.ndarray | None:
    return None if y.dim() != 1 or y.is_floating_point() else y.numpy()


# ---- stored splits ---------------------------------------------------------------------------------------------


def from_masks(name: str, train: Tensor, val: Tensor, test: Tensor) -> Split:
    """Create a split from boolean masks."""
    return Split(name, None, len(train), *(mask.nonzero().squeeze(1) for mask in (train, val, test)))


def from_codes(name: str, codes: Tensor) -> Split:
    """Create a split from the code of each example, as :func:`split_codes` returns them."""
    return from_masks(name, codes == 0, codes == 1, codes == 2)


def split_codes(split: Split) -> np.ndarray:
    """Encode a split as an array with 0 for training, 1 for validation, 2 for test and -1 for unused examples."""
    codes = np.full(split.size, -1)
    for code, part in enumerate(PARTS):
        codes[getattr(split, part).numpy()] = code
    return codes


_WORDS = (("train", "training", "0"), ("val", "valid", "validation", "1"), ("test", "testing", "2"))
_CODES = {word: code for code, words in enumerate(_WORDS) for word in words}


def from_column(values: Sequence[object], name: str = "column") -> Split:
    """Create a split from a column with ``train``, ``val`` or ``test`` (or 0, 1, 2) for each example.

    Examples with an empty value are in none of the three sets.
    """
    codes = [-1] * len(values)
    for row, value in enumerate(values):
        if value is None or value == "" or value != value:
            continue
        word = str(value).strip().lower()
        if word not in _CODES:
            raise ValueError(f"row {row} of the split column is {value!r}, but must be train, val, test or empty")
        codes[row] = _CODES[word]
    return from_codes(name, torch.tensor(codes, dtype=torch.int64))
