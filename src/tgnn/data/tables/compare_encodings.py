"""Comparison of the feature encodings of two data sets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tgnn.data.tables.numeric import Encoding

_EDGE_OPTIONS = ("undirected", "self_loops", "duplicates")
"""Keys of the schema that must be the same for training and prediction."""


def first_difference(known: Mapping[str, Any], found: Mapping[str, Any], scales: bool = True) -> str | None:
    """Describe the first difference between the encoding of new data and the encoding of the training data.

    Two feature matrices of the same width may still have columns of different meaning. Targets and sparsity are not
    compared because they do not change the output of a model. With ``scales=False``, neither are the mean and standard
    deviation of standardized columns, which can be :func:`rescaled <tgnn.data.tables.numeric.rescaling>`.
    """
    return next(_differences(known, found, scales), None)


def _differences(known: Mapping[str, Any], found: Mapping[str, Any], scales: bool) -> Iterator[str]:
    for part in ("nodes", "edges"):
        yield from _column_differences(known.get(part) or [], found.get(part) or [], part, scales)
    known_weight, found_weight = (encoding.get("largest_weight", 1) for encoding in (known, found))
    if not _is_close(known_weight, found_weight):
        yield f"its edge weights were divided by {found_weight:g} instead of {known_weight:g}"
    known_schema, found_schema = (encoding.get("schema") or {} for encoding in (known, found))
    for key in _EDGE_OPTIONS:
        if key in known_schema and key in found_schema and known_schema[key] != found_schema[key]:
            new, old = (str(schema[key]).lower() for schema in (found_schema, known_schema))
            yield f"it was read with {key}: {new} instead of {old}"


def _column_differences(known: list[Encoding], found: list[Encoding], part: str, scales: bool) -> Iterator[str]:
    known_names, found_names = ([encoding["column"] for encoding in encodings] for encodings in (known, found))
    for name in _not_in(known_names, found_names):
        yield f"it has no column {name!r} of {part}, which the training data has"
    for name in _not_in(found_names, known_names):
        yield f"it has a column {name!r} of {part}, which the training data does not have"
    for known_name, found_name in zip(known_names, found_names):
        if known_name != found_name:
            yield f"its columns of {part} are in a different order ({found_name!r} instead of {known_name!r})"
    for old, new in zip(known, found):
        yield from (f"its column {old['column']!r} {text}" for text in _encoding_differences(old, new, scales))


def _encoding_differences(known: Encoding, found: Encoding, scales: bool) -> Iterator[str]:
    for key, what in (("kind", "is encoded as"), ("width", "has the width"), ("separator", "has the separator")):
        if known.get(key) != found.get(key):
            yield f"{what} {found.get(key)!r} instead of {known.get(key)!r}"
    known_words, found_words = known.get("vocabulary") or [], found.get("vocabulary") or []
    if known_words != found_words:
        for word in _not_in(found_words, known_words):
            yield f"has a different vocabulary ({word!r} is not in the training data)"
        for word in _not_in(known_words, found_words):
            yield f"has a different vocabulary ({word!r} is missing)"
        yield "has its vocabulary in a different order"
    if scales and not _same_scale(known, found):
        yield f"is {_describe_scale(found)} instead of {_describe_scale(known)}"
    filled = "fill" in found and found.get("filled", True)
    if filled and "fill" not in known:
        yield f"has missing values that were filled with {_fills(found)[0]:g}, and no fill value is known from training"
    elif filled:
        for known_fill, found_fill in zip(_fills(known), _fills(found)):
            if not _is_close(known_fill, found_fill):
                yield f"has missing values that were filled with {found_fill:g} instead of {known_fill:g}"


def _not_in(names: list[str], others: list[str]) -> list[str]:
    known = set(others)
    return [name for name in names if name not in known]


def _fills(encoding: Encoding) -> list[float]:
    """Return the fill value of each entry of a column."""
    fill = encoding["fill"]
    return fill if isinstance(fill, list) else [fill] * encoding["width"]


def _same_scale(known: Encoding, found: Encoding) -> bool:
    if "deviation" not in known or "deviation" not in found:
        return "deviation" not in known and "deviation" not in found
    pairs = zip(known["mean"], found["mean"], known["deviation"], found["deviation"])
    return all(abs(m - n) <= 1e-6 * d and math.isclose(d, e, rel_tol=1e-6) for m, n, d, e in pairs)


def _describe_scale(encoding: Encoding) -> str:
    if "deviation" not in encoding:
        return "not standardized"
    return f"standardized with mean {encoding['mean'][0]:g} and standard deviation {encoding['deviation'][0]:g}"


def _is_close(one: float, other: float) -> bool:
    """Compare two means whose last digits may differ because of the order of summation."""
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
