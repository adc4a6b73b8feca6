"""High-order pooling for graph neural networks: a node multiplies its neighbours, through a CP decomposition."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tgnn.estimators import GraphClassifier, GraphRegressor, NodeClassifier, NodeRegressor
    from tgnn.nn import TGNN, CPAggregation, GraphTGNN, TGNNConv, with_cp

__version__ = "0.1.0"

__all__ = [
    "TGNN",
    "CPAggregation",
    "GraphClassifier",
    "GraphRegressor",
    "GraphTGNN",
    "NodeClassifier",
    "NodeRegressor",
    "TGNNConv",
    "with_cp",
]

_ESTIMATORS = ("GraphClassifier", "GraphRegressor", "NodeClassifier", "NodeRegressor")
_MODULES = ("data", "nn", "ops", "testing", "theory")


def __getattr__(name: str) -> Any:
    """Everything is imported when it is first used: ``tgnn --help`` need not wait for torch."""
    if name in _MODULES:
        return importlib.import_module(f"tgnn.{name}")
    if name in __all__:
        return getattr(importlib.import_module("tgnn.estimators" if name in _ESTIMATORS else "tgnn.nn"), name)
    raise AttributeError(f"module 'tgnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_MODULES])
