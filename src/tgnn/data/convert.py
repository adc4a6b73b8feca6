"""Any data set as one ``.npz`` that loads fast."""

from __future__ import annotations

from pathlib import Path

from torch_geometric.data import Data

from tgnn.data.formats.packed import PackedGraphs, write_packed
from tgnn.data.formats.single import write_graph


def write(data: Data | PackedGraphs, path: Path) -> None:
    """Packed graphs, or one graph. Whole or not at all.

    Args:
        data: As :func:`tgnn.data.load` gives it.
        path: The ``.npz``.
    """
    if isinstance(data, PackedGraphs):
        write_packed(data, path, data.about.differs)
    else:
        write_graph(data, path, data.about.differs)
