"""Data sets: load by name or from files, validate and split."""

from tgnn.data.dataset_info import DatasetInfo
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.load import list_datasets, load
from tgnn.data.splits import Split
from tgnn.data.task_types import TaskType
from tgnn.data.validation.validate import validate

__all__ = ["DatasetInfo", "GraphDataset", "Split", "TaskType", "list_datasets", "load", "validate"]
