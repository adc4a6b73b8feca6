"""One graph in a folder of arrays that are read where they are asked for: for graphs larger than memory."""

from tgnn.data.on_disk.disk_graph import DiskGraph
from tgnn.data.on_disk.writer import GraphWriter

__all__ = ["DiskGraph", "GraphWriter"]
