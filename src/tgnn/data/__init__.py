"""Data sets: by name, from files, and how they are split."""

from tgnn.data.dataset_info import DatasetInfo
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.load import list_datasets, load
from tgnn.data.splits import Split

__all__ = ["DatasetInfo", "GraphDataset", "Split", "list_datasets", "load"]
