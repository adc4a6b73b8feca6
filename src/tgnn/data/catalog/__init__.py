"""The catalog of named data sets: statistics, default split, license and download sources of each."""

from __future__ import annotations

from collections.abc import Mapping

from tgnn.data.catalog import amazon_blogcatalog, citation, embedded, molecules, ogb, superpixels, tu
from tgnn.data.catalog.entry import CatalogEntry

_GROUPS = (citation, ogb, molecules, superpixels, tu, amazon_blogcatalog, embedded)

CATALOG: Mapping[str, CatalogEntry] = {entry.name: entry for group in _GROUPS for entry in group.ENTRIES}
"""All data sets that :func:`tgnn.data.load` knows, by name."""
