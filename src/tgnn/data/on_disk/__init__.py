"""Graphs larger than memory: one graph in a folder of memory-mapped arrays."""

from tgnn.data.on_disk.disk_graph import DiskGraph
from tgnn.data.on_disk.writer import GraphWriter

__all__ = ["DiskGraph", "GraphWriter"]
