"""Is it about nodes or about graphs?"""

from __future__ import annotations

from tgnn.data.catalog import CATALOG
from tgnn.data.load import load


def level_of(name: str) -> str:
    """``"node"`` or ``"graph"``; the catalog tells at once, the user's own data is looked at.

    Example:
        >>> level_of("zinc")
        'graph'
    """
    if name in CATALOG:
        return CATALOG[name].level
    level: str = load(name).about.level
    return level
