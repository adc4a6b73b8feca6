"""What is odd in features, labels, weights and keys: the parts that every check is made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import scipy.sparse
import torch
from torch import Tensor

from tgnn.data.validation.report import Finding, Places, named

LARGE = 100.0
"""Features beyond this are told."""
LIKE_IDS = 0.5
"""Labels of which more than this share are different are no classes."""


def check_features(
    x: Tensor, places: Places, names: Sequence[str] | None = None, what: str = "feature"
) -> list[Finding]:
    """Features that are no numbers, or that say nothing.

    Args:
        x: Dense or sparse CSR, ``[N, F]`` or ``[N]``.
        places: What its rows are called.
        names: Of its columns; by default their numbers.
        what: What to call a column.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [float("inf"), 2.0]])
        >>> [(finding.code, finding.places) for finding in check_features(x, Places())]
        [('infinite-feature', (1,)), ('constant-feature', ())]
    """
    sparse = x.layout == torch.sparse_csr
    values = x.values() if sparse else x
    found = []
    if values.is_floating_point() and not bool(torch.isfinite(values).all()):
        for code, word, odd in (
            ("missing-feature", "not a number", values.isnan()),
            ("infinite-feature", "infinite", values.isinf()),
        ):
            if bool(odd.any()):
                rows = _rows_of(x)[odd.numpy()] if sparse else _of_rows(odd).any(1).numpy()
                text = f"{'an' if what[0] == 'e' else 'a'} {what} is {word}"
                found.append(places.finding("error", code, text, np.unique(rows) if sparse else rows))
    least, most = _ends(x)
    if values.is_floating_point():
        found += large_features(least, most, places.file, names, what)
    return [*found, *constant_features(least, most, places.file, names, what)]


def constant_features(
    least: np.ndarray, most: np.ndarray, file: str = "", names: Sequence[str] | None = None, what: str = "feature"
) -> list[Finding]:
    """Columns that say nothing; arguments as for :func:`large_features`."""
    constant = np.flatnonzero(least == most)
    if not len(constant):
        return []
    columns = named(constant.tolist() if names is None else [names[int(i)] for i in constant])
    plural = "s" if len(constant) > 1 else ""
    text = f"the {what}{plural} {columns} {'are' if plural else 'is'} the same everywhere: tells none from another"
    return [Finding("warning", "constant-feature", text, file)]


def large_features(
    least: np.ndarray, most: np.ndarray, file: str = "", names: Sequence[str] | None = None, what: str = "feature"
) -> list[Finding]:
    """Columns of numbers so large that they drown the others, and that products and steps of usual size fail on.

    Args:
        least: Of each column.
        most: Of each column.
        file: Where they come from.
        names: Of the columns; by default their numbers.
        what: What to call a column.

    Example:
        >>> large_features(np.array([0.0, -1.0]), np.array([1.0, 25000.0]), "", ["age", "income"])[0].text
        "the feature 'income' is as large as 25000: divide it, or take its logarithm, so that columns are near 1"
    """
    size = np.maximum(np.abs(least), np.abs(most))
    large = np.flatnonzero((size > LARGE) & np.isfinite(size))
    if not len(large):
        return []
    columns = named(large.tolist() if names is None else [names[int(i)] for i in large])
    are, them, their = ("s", "them", "their logarithms") if len(large) > 1 else ("", "it", "its logarithm")
    text = (
        f"the {what}{are} {columns} {'are' if are else 'is'} as large as {size[large].max():g}: divide {them}, or take "
        f"{their}, so that columns are near 1"
    )
    return [Finding("warning", "large-feature", text, file)]


def check_labels(y: Tensor, places: Places, classes: Sequence[object] | None = None) -> list[Finding]:
    """Labels that are missing, and classes that look wrong.

    Args:
        y: Classes (int64, -1: none), or numbers (NaN: none), ``[N]`` or ``[N, T]``.
        places: What its rows are called.
        classes: Names of the classes; by default their numbers.

    Example:
        >>> [finding.text for finding in check_labels(torch.tensor([0, 0, 1, -1]), Places())]
        ['no label: never learned from nor tested on', 'the class 1 has a single member: ...']
    """
    found = []
    is_class = not y.is_floating_point() and y.dim() == 1
    missing = _of_rows(y < 0 if is_class else y.isnan()).all(1)
    if bool(missing.any()):
        text = "no label: never learned from nor tested on"
        found.append(places.finding("note", "missing-label", text, missing.numpy()))
    if len(y) and bool(missing.all()):
        return [*found, Finding("warning", "no-labels", "there is not one label", places.file)]
    infinite = _of_rows(y.isinf()).any(1)
    if bool(infinite.any()):
        found.append(places.finding("error", "infinite-label", "a label is infinite", infinite.numpy()))
    return found + (_check_classes(y[~missing].numpy(), places, classes) if is_class and len(y) else [])


def _check_classes(y: np.ndarray, places: Places, classes: Sequence[object] | None) -> list[Finding]:
    members = np.bincount(y)
    names = list(range(len(members))) if classes is None else classes
    there = np.flatnonzero(members)
    single = [names[i] for i in np.flatnonzero(members == 1).tolist()]
    found = []
    if len(y) >= 10 and len(there) > LIKE_IDS * len(y):
        text = (
            f"{len(there):,} different labels for {len(y):,} examples: these look like ids or like numbers "
            "(for numbers say task: regression)"
        )
        found.append(Finding("warning", "labels-like-ids", text, places.file))
    elif single:
        one = len(single) == 1
        text = f"the class{'' if one else 'es'} {named(single)} {'has' if one else 'have'} a single member"
        text += ": what is learned of it cannot be tested" if one else ": what is learned of them cannot be tested"
        found.append(Finding("warning", "single-member", text, places.file))
    if len(there) == 1:
        text = f"every label is {names[int(there[0])]!r}: there is nothing to tell apart"
        found.append(Finding("warning", "one-class", text, places.file))
    return found


def check_weights(
    weight: np.ndarray,
    places: Places,
    way_out: str = "divide them by the largest",
    feature_instead: str = "leave it out, or make the weights a feature of the edges (edge_attr)",
) -> list[Finding]:
    """Weights that the layers refuse.

    Args:
        weight: One for each edge.
        places: What the edges are called.
        way_out: What to do about weights that are too large.
        feature_instead: What to do where one is negative or no finite number.

    Example:
        >>> [finding.places for finding in check_weights(np.array([0.5, 2.0]), Places())]
        [(1,)]
    """
    outside = ~((weight >= 0) & (weight <= 1))  # NaN is outside too
    if not outside.any():
        return []
    beyond = outside & ~((weight > 1) & (weight < np.inf))  # where dividing by the largest does not help
    if beyond.any():
        way_out = feature_instead
    first = weight[beyond if beyond.any() else outside][0]
    text = f"a weight is {first:g}, but must be from 0 (as if there were no edge) to 1: {way_out}"
    return [places.finding("error", "weight-outside", text, outside)]


def repeated(keys: np.ndarray) -> np.ndarray | None:
    """Which have been there before; ``None``: none has.

    Example:
        >>> repeated(np.array([3, 1, 3])).tolist()
        [False, False, True]
    """
    in_order = np.sort(keys)  # a sixth of the time of the mask
    if not (in_order[1:] == in_order[:-1]).any():
        return None
    mask: np.ndarray = ~pl.Series(keys).is_first_distinct().to_numpy()
    return mask


def _of_rows(values: Tensor) -> Tensor:
    """``[N, columns]``, whatever the shape of a row."""
    return values.unsqueeze(1) if values.dim() == 1 else values.flatten(1)


def _rows_of(x: Tensor) -> np.ndarray:
    """The row of each stored entry of a CSR matrix."""
    return np.repeat(np.arange(x.size(0)), x.crow_indices().diff().numpy())


def _ends(x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest of each column; of fewer than two rows nothing is told."""
    if x.size(0) < 2:
        return np.empty(0), np.empty(0)
    if x.layout == torch.sparse_csr:
        parts = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
        matrix = scipy.sparse.csc_matrix(scipy.sparse.csr_matrix(parts, shape=tuple(x.shape)))
        least, most = (end.toarray().ravel() for end in (matrix.min(axis=0), matrix.max(axis=0)))
    else:
        x = _of_rows(x)
        least, most = x.amin(0).numpy(), x.amax(0).numpy()
    return least, most
