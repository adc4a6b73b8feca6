"""The catalog of named data sets: statistics, default split, license and download sources of each."""

from __future__ import annotations

from collections.abc import Mapping

from tgnn.data.catalog import embedded, molecules, node_graphs, superpixels, tu
from tgnn.data.catalog.entry import CatalogEntry

_GROUPS = (
    *(node_graphs.CITATION_NETWORKS, node_graphs.OGB, molecules.ENTRIES, superpixels.ENTRIES, tu.ENTRIES),
    *(node_graphs.REPLACEMENTS, embedded.ENTRIES),
)

CATALOG: Mapping[str, CatalogEntry] = {entry.name: entry for group in _GROUPS for entry in group}
"""All data sets that :func:`tgnn.data.load` knows, by name."""
