"""Which examples are learned from, which choose the model, which are read once at the end.

A split is named, seeded and hashed: two results compare only if their hashes are the same. No function here looks at
features, and none can put an example into two parts (:class:`Split` checks).
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


@dataclass(frozen=True)
class Split:
    """Indices of the examples of each part.

    Args:
        name: How it was made, such as ``"stratified"``.
        seed: What it was drawn with; ``None``: nothing was drawn.
        size: Number of all examples; some may be in no part.
        train: To learn from.
        val: To choose the epoch and the settings by.
        test: To read once.

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
                raise ValueError(f"{part} has an index outside of 0 to {self.size - 1}")
        seen = torch.zeros(self.size, dtype=torch.int64)
        for part in PARTS:
            seen.index_add_(0, getattr(self, part), torch.ones(len(getattr(self, part)), dtype=torch.int64))
        if bool((seen > 1).any()):
            raise ValueError(
                f"example {int((seen > 1).nonzero()[0])} is in the split twice: the parts must not overlap"
            )

    @cached_property
    def hash(self) -> str:
        """16 hexadecimal digits that tell the indices of all parts."""
        digest = hashlib.sha256(str(self.size).encode())
        for part in PARTS:
            indices = getattr(self, part).sort().values.numpy().astype("<i8")
            digest.update(f"{part}{len(indices)}".encode())
            digest.update(indices.tobytes())
        return digest.hexdigest()[:16]

    def masks(self) -> tuple[Tensor, Tensor, Tensor]:
        """The parts as boolean masks."""
        train, val, test = (
            torch.zeros(self.size, dtype=torch.bool).index_fill_(0, getattr(self, part), True) for part in PARTS
        )
        return train, val, test

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part}={len(getattr(self, part))}" for part in PARTS)
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"Split({self.name!r}{seed}, {sizes}, hash={self.hash})"


# ---- drawn -----------------------------------------------------------------------------------------------------


def per_class_quota(y: Tensor, seed: int, train: float = 0.6, val: float = 0.2) -> Split:
    """As GPRGNN and the paper: ``train * N / C`` examples of *each* of the C classes, then ``val * N`` of the rest.

    Small classes go to training whole, and are then missing in the test set: accuracies are not comparable with those
    of a stratified split (on Citeseer they are some six points higher).

    Args:
        y: Class of each example, ``[N]``.
        seed: Of the draw.
        train: Share to learn from.
        val: Share to choose by.

    Example:
        >>> y = torch.tensor([0] * 50 + [1] * 50)
        >>> per_class_quota(y, seed=0)
        Split('per-class-quota', seed=0, train=60, val=20, test=20, hash=...)
    """
    _check_classes(y, "per-class-quota")
    _check_shares(train, val)
    generator = torch.Generator().manual_seed(seed)
    classes = torch.unique(y)
    quota = round(train * len(y) / len(classes))
    chosen = []
    for value in classes:
        members = (y == value).nonzero().squeeze(1)
        chosen.append(members[torch.randperm(len(members), generator=generator)][:quota])
    learn = torch.cat(chosen)
    rest = torch.ones(len(y), dtype=torch.bool).index_fill_(0, learn, False).nonzero().squeeze(1)
    rest = rest[torch.randperm(len(rest), generator=generator)]
    count = round(val * len(y))
    return Split("per-class-quota", seed, len(y), learn, rest[:count], rest[count:])


def stratified(y: Tensor, seed: int, train: float = 0.6, val: float = 0.2) -> Split:
    """Every class in the same shares in all parts. With several labels per example, or numbers, a plain draw.

    Args:
        y: Class of each example, ``[N]``; or ``[N, labels]``, or floats.
        seed: Of the draw.
        train: Share to learn from.
        val: Share to choose by.

    Example:
        >>> stratified(torch.tensor([0] * 50 + [1] * 50), seed=0)
        Split('stratified', seed=0, train=60, val=20, test=20, hash=...)
    """
    _check_shares(train, val)
    classes = _as_classes(y)
    everyone = np.arange(len(y))
    learn, rest = _halves(everyone, round(train * len(y)), classes, seed)
    choose, test = _halves(rest, round(val * len(y)), classes, seed)
    return Split("stratified", seed, len(y), *(torch.from_numpy(np.sort(part)) for part in (learn, choose, test)))


def fold(y: Tensor, number: int, seed: int = 0, folds: int = 10, val: float = 0.1) -> Split:
    """One of ten folds as Errica et al.: the fold is the test set; a stratified share of the rest chooses the model.

    Args:
        y: Class of each example, ``[N]``.
        number: Which fold, from 0.
        seed: Of the draw of all folds.
        folds: How many.
        val: Share of what is not tested that chooses.

    Example:
        >>> fold(torch.tensor([0] * 50 + [1] * 50), number=3)
        Split('fold-3-of-10', seed=0, train=81, val=9, test=10, hash=...)
    """
    if not 0 <= number < folds:
        raise ValueError(f"fold {number} is not one of 0 to {folds - 1}")
    classes = _as_classes(y)
    if classes is None:
        raise ValueError("folds are stratified: they need one class per example")
    if np.unique(classes, return_counts=True)[1].max() < folds:
        raise ValueError(f"{folds} folds need {folds} examples of some class, and no class has so many")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")  # it is then in some folds only
        parts = list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), classes))
    rest, test = parts[number]
    return _with_inner_holdout(f"fold-{number}-of-{folds}", rest, test, y, seed, val)


# ---- given -----------------------------------------------------------------------------------------------------


def published_fold(y: Tensor, tests: Sequence[Sequence[int]], number: int, seed: int = 0, val: float = 0.1) -> Split:
    """One of the folds that others have published as lists of test indices; a share of the rest chooses the model.

    Args:
        y: Class of each example, ``[N]``.
        tests: Test indices of each fold.
        number: Which fold, from 0.
        seed: Of the inner hold-out.
        val: Share of what is not tested that chooses.
    """
    if not 0 <= number < len(tests):
        raise ValueError(f"fold {number} is not one of 0 to {len(tests) - 1}")
    test = np.asarray(tests[number], dtype=np.int64)
    rest = np.setdiff1d(np.arange(len(y)), test)
    return _with_inner_holdout(f"published-fold-{number}-of-{len(tests)}", rest, test, y, seed, val)


def from_masks(name: str, train: Tensor, val: Tensor, test: Tensor) -> Split:
    """A split that comes with the data, as boolean masks.

    Example:
        >>> mask = torch.tensor([True, False, False])
        >>> from_masks("public", mask, mask.roll(1), mask.roll(2))
        Split('public', train=1, val=1, test=1, hash=...)
    """
    return Split(name, None, len(train), *(mask.nonzero().squeeze(1) for mask in (train, val, test)))


_WORDS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "testing": 2}


def from_column(values: Sequence[object], name: str = "column") -> Split:
    """A user's own: a word for each example, ``train``, ``val`` or ``test`` (or 0, 1, 2); empty: in no part.

    Example:
        >>> from_column(["train", "train", "valid", "test", ""])
        Split('column', train=2, val=1, test=1, hash=...)
    """
    parts: list[list[int]] = [[], [], []]
    for place, value in enumerate(values):
        if value is None or value == "" or value != value:
            continue
        word = str(value).strip().lower()
        number = _WORDS.get(word, int(word) if word in ("0", "1", "2") else None)
        if number is None:
            raise ValueError(f"row {place} of the split column says {value!r}; it must be train, val, test or empty")
        parts[number].append(place)
    return Split(name, None, len(values), *(torch.tensor(part, dtype=torch.int64) for part in parts))


def parts_of(split: Split) -> np.ndarray:
    """The part that each example is in, as packed graphs store it; -1: in none.

    Example:
        >>> parts_of(from_column(["train", "", "test"])).tolist()
        [0, -1, 2]
    """
    parts = np.full(split.size, -1)
    for number, part in enumerate(PARTS):
        parts[getattr(split, part).numpy()] = number
    return parts


# ---- helpers ---------------------------------------------------------------------------------------------------


def _with_inner_holdout(name: str, rest: np.ndarray, test: np.ndarray, y: Tensor, seed: int, val: float) -> Split:
    learn, choose = _halves(rest, len(rest) - round(val * len(rest)), _as_classes(y), seed)
    return Split(name, seed, len(y), *(torch.from_numpy(np.sort(part)) for part in (learn, choose, test)))


def _halves(indices: np.ndarray, first: int, classes: np.ndarray | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws ``first`` of them, stratified; classes of one member count as one class, or where there is but one of them
    as the largest. Where parts have fewer members than there are classes, as they come.
    """
    if first in (0, len(indices)):
        shuffled = np.random.RandomState(seed).permutation(indices)
        return shuffled[:first], shuffled[first:]
    strata = None if classes is None else classes[indices]
    if strata is not None:
        names, members = np.unique(strata, return_counts=True)
        single = names[members == 1]
        alone = names[members.argmax()] if len(single) == 1 else names.max() + 1
        strata = np.where(np.isin(strata, single), alone, strata)
        if min(first, len(indices) - first) < len(np.unique(strata)):
            strata = None
    one, other = train_test_split(indices, train_size=first, random_state=seed, stratify=strata)
    return one, other


def _as_classes(y: Tensor) -> np.ndarray | None:
    return None if y.dim() != 1 or y.is_floating_point() else y.numpy()


def _check_classes(y: Tensor, name: str) -> None:
    if y.dim() != 1 or y.is_floating_point():
        raise ValueError(f"{name} needs one class per example, got {list(y.shape)} of {y.dtype}; use stratified")


def _check_shares(train: float, val: float) -> None:
    if not (0 < train < 1 and 0 <= val < 1 and train + val <= 1):
        raise ValueError(f"train and val are {train} and {val}, but must be shares that leave something for the test")
