"""Is it about nodes or about graphs?"""

from __future__ import annotations

from pathlib import Path

from tgnn.data.catalog import CATALOG
from tgnn.data.load import find_path
from tgnn.data.readers.detect import detect

_OF_NODES = ("table", "gnn-benchmark", "graph", "graph on disk")


def task_level(name: str) -> str:
    """``"node"`` or ``"graph"``, told without reading the data.

    Args:
        name: Of the catalog, or a path.

    Example:
        >>> task_level("zinc")
        'graph'
    """
    if name in CATALOG:
        return CATALOG[name].level
    return "node" if detect(Path(find_path(name))) in _OF_NODES else "graph"
