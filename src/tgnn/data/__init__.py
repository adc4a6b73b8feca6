"""Data sets: by name, from files, and how they are split."""

from tgnn.data.about import About
from tgnn.data.formats.packed import PackedGraphs
from tgnn.data.load import list_datasets, load
from tgnn.data.splits import Split

__all__ = ["About", "PackedGraphs", "Split", "list_datasets", "load"]
