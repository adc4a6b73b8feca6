"""High-order pooling for graph neural networks: a node multiplies its neighbours, through a CP decomposition."""

import importlib
from types import ModuleType

from tgnn import nn as nn
from tgnn import ops as ops
from tgnn.nn import TGNN, CPAggregation, GraphTGNN, TGNNConv, with_cp

__version__ = "0.1.0"

__all__ = ["TGNN", "CPAggregation", "GraphTGNN", "TGNNConv", "with_cp"]


def __getattr__(name: str) -> ModuleType:
    """``tgnn.theory``, ``tgnn.testing`` and ``tgnn.data``, imported when they are first used."""
    if name in ("data", "testing", "theory"):
        return importlib.import_module(f"tgnn.{name}")
    raise AttributeError(f"module 'tgnn' has no attribute {name!r}")
