"""Whether two data sets were encoded alike: of equal width they may still mean other things."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_GRAPH = ("undirected", "self_loops", "duplicates")
"""What a schema says of edges, and is the same for who was learned from and who is asked about."""


def first_difference(known: Mapping[str, Any], found: Mapping[str, Any], scales: bool = True) -> str | None:
    """The first thing in which data was encoded otherwise than that which was learned from; ``None``: none.

    Targets are not looked at, nor whether features are sparse: neither changes what a model says.

    Args:
        known: ``data.encoding`` of what was learned from.
        found: That of other data.
        scales: Whether columns that were standardized with another mean or deviation are a difference; they can be
            brought :func:`to that scale <tgnn.data.tables.standardize.to_scale>`.

    Example:
        >>> age, size = ({"column": name, "kind": "numeric", "width": 1} for name in ("age", "size"))
        >>> first_difference({"nodes": [age, size]}, {"nodes": [size, age]})
        "its columns of nodes are in another order: 'size' where 'age' was learned from"
    """
    for part in ("nodes", "edges"):
        different = _of_columns(known.get(part) or [], found.get(part) or [], part, scales)
        if different is not None:
            return different
    if not _near(known.get("largest_weight", 1), found.get("largest_weight", 1)):
        return (
            f"its weights are divided by {found.get('largest_weight', 1):g}, not by {known.get('largest_weight', 1):g}"
        )
    then, now = (encoding.get("schema") or {} for encoding in (known, found))
    for key in _GRAPH:
        if key in then and key in now and then[key] != now[key]:
            return f"it was made with {key}: {_plain(now[key])}, not {_plain(then[key])}"
    return None


def _of_columns(known: list[dict[str, Any]], found: list[dict[str, Any]], part: str, scales: bool) -> str | None:
    then, now = ([encoding["column"] for encoding in encodings] for encodings in (known, found))
    missing = [name for name in then if name not in now]
    more = [name for name in now if name not in then]
    if missing:
        return f"it has no column {missing[0]!r} of {part}, which was learned from"
    if more:
        return f"it has a column {more[0]!r} of {part}, which was not there to be learned from"
    for one, other in zip(then, now):
        if one != other:
            return f"its columns of {part} are in another order: {other!r} where {one!r} was learned from"
    for one, other in zip(known, found):
        different = _of_one(one, other, scales)
        if different is not None:
            return f"{one['column']!r} {different}"
    return None


def _of_one(known: Mapping[str, Any], found: Mapping[str, Any], scales: bool) -> str | None:
    for key, what in (("kind", ""), ("width", " numbers wide"), ("separator", " between its words")):
        if known.get(key) != found.get(key):
            return f"is {found.get(key)!r}{what}, not {known.get(key)!r}"
    then, now = known.get("vocabulary") or [], found.get("vocabulary") or []
    if then != now:
        for words, others, what in ((now, set(then), "was not learned from"), (then, set(now), "is not in it")):
            if more := [word for word in words if word not in others]:
                return f"has another vocabulary: {more[0]!r} {what}"
        return "has its words in another order"
    if scales and not _same_scale(known, found):
        return f"is {_scale(found)}, not {_scale(known)}"
    if "fill" not in found:  # then nothing was missing
        return None
    if "fill" not in known:
        return f"is filled with {_fills(found)[0]:g} where it is missing, and was never missing before"
    for one, other in zip(_fills(known), _fills(found)):
        if not _near(one, other):
            return f"is filled with {other:g} where it is missing, not with {one:g}"
    return None


def _fills(encoding: Mapping[str, Any]) -> list[float]:
    """Of each entry."""
    fill = encoding["fill"]
    return fill if isinstance(fill, list) else [fill] * encoding["width"]


def _same_scale(known: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    if "deviation" not in known or "deviation" not in found:
        return "deviation" not in known and "deviation" not in found
    pairs = zip(known["mean"], found["mean"], known["deviation"], found["deviation"])
    return all(abs(m - n) <= 1e-6 * d and math.isclose(d, e, rel_tol=1e-6) for m, n, d, e in pairs)


def _scale(encoding: Mapping[str, Any]) -> str:
    if "deviation" not in encoding:
        return "as stored"
    return f"standardized with mean {encoding['mean'][0]:g} and deviation {encoding['deviation'][0]:g}"


def _near(one: float, other: float) -> bool:
    """A mean that was added up in another order differs in its last digits."""
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)


def _plain(value: object) -> str:
    return str(value).lower()
