"""Comparison of the feature encodings of two data sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_EDGE_OPTIONS = ("undirected", "self_loops", "duplicates")
"""Keys of the schema that must be the same for training and prediction."""


def first_difference(known: Mapping[str, Any], found: Mapping[str, Any], scales: bool = True) -> str | None:
    """Describe the first difference between the encoding of new data and the encoding of the training data.

    Two feature matrices of the same width may still have columns of different meaning. Targets and sparsity are not
    compared because they do not change the output of a model.

    Args:
        known: ``data.encoding`` of the training data.
        found: ``data.encoding`` of the new data.
        scales: Whether a different mean or standard deviation of a standardized column counts as a difference. Such
            columns can be :func:`rescaled <tgnn.data.tables.standardize.rescaling>`.

    Returns:
        A sentence about the new data, or ``None`` if both encodings are the same.

    Example:
        >>> age, size = ({"column": name, "kind": "numeric", "width": 1} for name in ("age", "size"))
        >>> first_difference({"nodes": [age, size]}, {"nodes": [size, age]})
        "its columns of nodes are in a different order ('size' instead of 'age')"
    """
    for part in ("nodes", "edges"):
        difference = _compare_columns(known.get(part) or [], found.get(part) or [], part, scales)
        if difference is not None:
            return difference
    known_weight, found_weight = (encoding.get("largest_weight", 1) for encoding in (known, found))
    if not _is_close(known_weight, found_weight):
        return f"its edge weights were divided by {found_weight:g} instead of {known_weight:g}"
    known_schema, found_schema = (encoding.get("schema") or {} for encoding in (known, found))
    for key in _EDGE_OPTIONS:
        if key in known_schema and key in found_schema and known_schema[key] != found_schema[key]:
            new, old = (str(schema[key]).lower() for schema in (found_schema, known_schema))
            return f"it was read with {key}: {new} instead of {old}"
    return None


def _compare_columns(known: list[dict[str, Any]], found: list[dict[str, Any]], part: str, scales: bool) -> str | None:
    known_names, found_names = ([encoding["column"] for encoding in encodings] for encodings in (known, found))
    if (missing := _first_not_in(known_names, found_names)) is not None:
        return f"it has no column {missing!r} of {part}, which the training data has"
    if (extra := _first_not_in(found_names, known_names)) is not None:
        return f"it has a column {extra!r} of {part}, which the training data does not have"
    for known_name, found_name in zip(known_names, found_names):
        if known_name != found_name:
            return f"its columns of {part} are in a different order ({found_name!r} instead of {known_name!r})"
    for known_encoding, found_encoding in zip(known, found):
        difference = _compare_column(known_encoding, found_encoding, scales)
        if difference is not None:
            return f"its column {known_encoding['column']!r} {difference}"
    return None


def _compare_column(known: Mapping[str, Any], found: Mapping[str, Any], scales: bool) -> str | None:
    for key, what in (("kind", "is encoded as"), ("width", "has the width"), ("separator", "has the separator")):
        if known.get(key) != found.get(key):
            return f"{what} {found.get(key)!r} instead of {known.get(key)!r}"
    known_words, found_words = known.get("vocabulary") or [], found.get("vocabulary") or []
    if known_words != found_words:
        if (extra := _first_not_in(found_words, known_words)) is not None:
            return f"has a different vocabulary ({extra!r} is not in the training data)"
        if (missing := _first_not_in(known_words, found_words)) is not None:
            return f"has a different vocabulary ({missing!r} is missing)"
        return "has its vocabulary in a different order"
    if scales and not _same_scale(known, found):
        return f"is {_describe_scale(found)} instead of {_describe_scale(known)}"
    if "fill" not in found:  # no value was missing
        return None
    if "fill" not in known:
        return (
            f"has missing values that were filled with {_fills(found)[0]:g}, and no fill value is known from training"
        )
    for known_fill, found_fill in zip(_fills(known), _fills(found)):
        if not _is_close(known_fill, found_fill):
            return f"has missing values that were filled with {found_fill:g} instead of {known_fill:g}"
    return None


def _first_not_in(names: list[str], others: list[str]) -> str | None:
    known = set(others)
    return next((name for name in names if name not in known), None)


def _fills(encoding: Mapping[str, Any]) -> list[float]:
    """Return the fill value of each entry of a column."""
    fill = encoding["fill"]
    return fill if isinstance(fill, list) else [fill] * encoding["width"]


def _same_scale(known: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    if "deviation" not in known or "deviation" not in found:
        return "deviation" not in known and "deviation" not in found
    pairs = zip(known["mean"], found["mean"], known["deviation"], found["deviation"])
    return all(abs(m - n) <= 1e-6 * d and math.isclose(d, e, rel_tol=1e-6) for m, n, d, e in pairs)


def _describe_scale(encoding: Mapping[str, Any]) -> str:
    if "deviation" not in encoding:
        return "not standardized"
    return f"standardized with mean {encoding['mean'][0]:g} and standard deviation {encoding['deviation'][0]:g}"


def _is_close(one: float, other: float) -> bool:
    """Compare two means whose last digits may differ because of the order of summation."""
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
