"""Split the nodes of a graph, or many graphs, into training, validation and test sets.

A split has a name, a seed and a hash. Two results are comparable only if their splits have the same hash. No function
here uses features, and :class:`Split` ensures that the three sets are disjoint.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold, train_test_split
from torch import Tensor

PARTS = ("train", "val", "test")
"""Names of the three sets. The position of a name is its code in stored splits."""


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
        seen = torch.zeros(self.size, dtype=torch.int64)
        for part in PARTS:
            seen.index_add_(0, getattr(self, part), torch.ones(len(getattr(self, part)), dtype=torch.int64))
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
        train, val, test = (
            torch.zeros(self.size, dtype=torch.bool).index_fill_(0, getattr(self, part), True) for part in PARTS
        )
        return train, val, test

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part}={len(getattr(self, part))}" for part in PARTS)
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"Split({self.name!r}{seed}, {sizes}, hash={self.hash})"


# ---- random ----------------------------------------------------------------------------------------------------


def per_class_quota(y: Tensor, seed: int, train: float = 0.6, val: float = 0.2) -> Split:
    """Split with the same number of training examples from each class, as GPRGNN and the paper do.

    The training set has ``train * N / C`` random examples of each of the C classes. The validation set has ``val * N``
    random examples of the rest. Small classes can be entirely in the training set and missing from the test set.
    Accuracies are therefore not comparable with those of a stratified split; on Citeseer they are about six points
    higher.

    Args:
        y: Class of each example, ``[N]``.
        seed: Random seed.
        train: Fraction of examples in the training set.
        val: Fraction of examples in the validation set.

    Example:
        >>> y = torch.tensor([0] * 50 + [1] * 50)
        >>> per_class_quota(y, seed=0)
        Split('per-class-quota', seed=0, train=60, val=20, test=20, hash=...)
    """
    _check_classes(y, "per-class-quota")
    _check_fractions(train, val)
    generator = torch.Generator().manual_seed(seed)
    classes = torch.unique(y)
    quota = round(train * len(y) / len(classes))
    chosen = []
    for value in classes:
        members = (y == value).nonzero().squeeze(1)
        chosen.append(members[torch.randperm(len(members), generator=generator)][:quota])
    train_indices = torch.cat(chosen)
    rest = torch.ones(len(y), dtype=torch.bool).index_fill_(0, train_indices, False).nonzero().squeeze(1)
    rest = rest[torch.randperm(len(rest), generator=generator)]
    count = round(val * len(y))
    return Split("per-class-quota", seed, len(y), train_indices, rest[:count], rest[count:])


def stratified(y: Tensor, seed: int, train: float = 0.6, val: float = 0.2) -> Split:
    """Split with the same class distribution in all three sets. Multi-label and regression data is split at random.

    Args:
        y: Class of each example, ``[N]``, or multi-label or regression targets.
        seed: Random seed.
        train: Fraction of examples in the training set.
        val: Fraction of examples in the validation set.

    Example:
        >>> stratified(torch.tensor([0] * 50 + [1] * 50), seed=0)
        Split('stratified', seed=0, train=60, val=20, test=20, hash=...)
    """
    _check_fractions(train, val)
    classes = _as_classes(y)
    train_indices, rest = _stratified_draw(np.arange(len(y)), round(train * len(y)), classes, seed)
    val_indices, test_indices = _stratified_draw(rest, round(val * len(y)), classes, seed)
    parts = (train_indices, val_indices, test_indices)
    return Split("stratified", seed, len(y), *(torch.from_numpy(np.sort(part)) for part in parts))


def fold(y: Tensor, number: int, seed: int = 0, folds: int = 10, val: float = 0.1) -> Split:
    """Return one fold of a stratified k-fold cross-validation with an inner hold-out, as in Errica et al. (2020).

    The fold is the test set. A stratified fraction of the other folds is the validation set.

    Args:
        y: Class of each example, ``[N]``.
        number: Index of the fold, starting at 0.
        seed: Random seed of all folds.
        folds: Number of folds.
        val: Fraction of the other folds in the validation set.

    Example:
        >>> fold(torch.tensor([0] * 50 + [1] * 50), number=3)
        Split('fold-3-of-10', seed=0, train=81, val=9, test=10, hash=...)
    """
    if not 0 <= number < folds:
        raise ValueError(f"fold {number} is not one of 0 to {folds - 1}")
    classes = _as_classes(y)
    if classes is None:
        raise ValueError("stratified folds need one class per example; use the protocol stratified")
    if np.unique(classes, return_counts=True)[1].max() < folds:
        raise ValueError(f"{folds} folds need a class with at least {folds} examples, but no class has that many")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")  # it is then in some folds only
        parts = list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), classes))
    rest, test = parts[number]
    return _with_inner_holdout(f"fold-{number}-of-{folds}", rest, test, y, seed, val)


# ---- stored ----------------------------------------------------------------------------------------------------


def published_fold(y: Tensor, tests: Sequence[Sequence[int]], number: int, seed: int = 0, val: float = 0.1) -> Split:
    """Return one of several published folds with an inner hold-out.

    Args:
        y: Class of each example, ``[N]``.
        tests: Test indices of each fold.
        number: Index of the fold, starting at 0.
        seed: Random seed of the inner hold-out.
        val: Fraction of the other folds in the validation set.
    """
    if not 0 <= number < len(tests):
        raise ValueError(f"fold {number} is not one of 0 to {len(tests) - 1}")
    test = np.asarray(tests[number], dtype=np.int64)
    rest = np.setdiff1d(np.arange(len(y)), test)
    return _with_inner_holdout(f"published-fold-{number}-of-{len(tests)}", rest, test, y, seed, val)


def from_masks(name: str, train: Tensor, val: Tensor, test: Tensor) -> Split:
    """Create a split from boolean masks.

    Example:
        >>> mask = torch.tensor([True, False, False])
        >>> from_masks("public", mask, mask.roll(1), mask.roll(2))
        Split('public', train=1, val=1, test=1, hash=...)
    """
    return Split(name, None, len(train), *(mask.nonzero().squeeze(1) for mask in (train, val, test)))


_CODES = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "testing": 2}


def from_column(values: Sequence[object], name: str = "column") -> Split:
    """Create a split from a column with ``train``, ``val`` or ``test`` (or 0, 1, 2) for each example.

    Examples with an empty value are in none of the three sets.

    Example:
        >>> from_column(["train", "train", "valid", "test", ""])
        Split('column', train=2, val=1, test=1, hash=...)
    """
    parts: list[list[int]] = [[], [], []]
    for row, value in enumerate(values):
        if value is None or value == "" or value != value:
            continue
        word = str(value).strip().lower()
        code = _CODES.get(word, int(word) if word in ("0", "1", "2") else None)
        if code is None:
            raise ValueError(f"row {row} of the split column is {value!r}, but must be train, val, test or empty")
        parts[code].append(row)
    return Split(name, None, len(values), *(torch.tensor(part, dtype=torch.int64) for part in parts))


def split_codes(split: Split) -> np.ndarray:
    """Encode a split as an array with 0 for training, 1 for validation, 2 for test and -1 for unused examples.

    Example:
        >>> split_codes(from_column(["train", "", "test"])).tolist()
        [0, -1, 2]
    """
    codes = np.full(split.size, -1)
    for code, part in enumerate(PARTS):
        codes[getattr(split, part).numpy()] = code
    return codes


# ---- helpers ---------------------------------------------------------------------------------------------------


def _with_inner_holdout(name: str, rest: np.ndarray, test: np.ndarray, y: Tensor, seed: int, val: float) -> Split:
    train_indices, val_indices = _stratified_draw(rest, len(rest) - round(val * len(rest)), _as_classes(y), seed)
    return Split(name, seed, len(y), *(torch.from_numpy(np.sort(part)) for part in (train_indices, val_indices, test)))


def _stratified_draw(
    indices: np.ndarray, first: int, classes: np.ndarray | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Divide indices at random into ``first`` and the rest, stratified by class.

    Classes with a single member are merged into one stratum. If there is only one such class, it is merged with the
    largest class. If one of the two parts is smaller than the number of strata, the draw is not stratified.
    """
    if first in (0, len(indices)):
        shuffled = np.random.RandomState(seed).permutation(indices)
        return shuffled[:first], shuffled[first:]
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


def _check_classes(y: Tensor, name: str) -> None:
    if y.dim() != 1 or y.is_floating_point():
        raise ValueError(f"{name} needs one class per example, got {y.dtype} targets {list(y.shape)}; use stratified")


def _check_fractions(train: float, val: float) -> None:
    if not (0 < train < 1 and 0 <= val < 1 and train + val <= 1):
        raise ValueError(f"train and val are {train} and {val}, but must be fractions with a sum of at most 1")
