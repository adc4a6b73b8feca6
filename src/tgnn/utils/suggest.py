"""The name that somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest_match(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The most alike; of equals the one whose length differs least. One that begins with it comes first.

    Args:
        name: What was written.
        names: What there is.
        cutoff: How alike it must be, from 0 to 1.

    Example:
        >>> closest_match("gnc", ["gin+cp", "gcn"]), closest_match("x", ["gcn"])
        ('gcn', None)
    """
    name = name.lower()
    alike = {one: difflib.SequenceMatcher(None, name, one.lower()).ratio() for one in names}
    begun = {one: score for one, score in alike.items() if len(name) > 2 and one.lower().startswith(name)}
    possible = begun or {one: score for one, score in alike.items() if score >= cutoff}
    return max(possible, key=lambda one: (possible[one], -abs(len(one) - len(name))), default=None)
