"""Every data set that has a name."""

from __future__ import annotations

from collections.abc import Mapping

from tgnn.data.catalog import citation, embedded, molecules, nodes, ogb, superpixels, tu
from tgnn.data.catalog.entry import Entry

_GROUPS = (citation, ogb, molecules, superpixels, tu, nodes, embedded)

CATALOG: Mapping[str, Entry] = {entry.name: entry for group in _GROUPS for entry in group.ENTRIES}
