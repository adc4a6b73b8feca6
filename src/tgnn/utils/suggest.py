"""Suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest_match(name: str, names: Iterable[str], cutoff: float = 0.65) -> str | None:
    """Return the known name that is most similar to a misspelled one, or ``None``.

    The similarity is the ratio of :class:`difflib.SequenceMatcher`. Names that start with ``name`` have priority. Among
    equally similar names, the one of the closest length wins.

    Example:
        >>> closest_match("gnc", ["gin+cp", "gcn"]), closest_match("foo", ["diffpool", "gcn"])
        ('gcn', None)
    """
    name = name.lower()
    similarity = {known: difflib.SequenceMatcher(None, name, known.lower()).ratio() for known in names}
    completions = {k: score for k, score in similarity.items() if len(name) > 2 and k.lower().startswith(name)}
    candidates = completions or {k: score for k, score in similarity.items() if score >= cutoff}
    return max(candidates, key=lambda known: (candidates[known], -abs(len(known) - len(name))), default=None)
