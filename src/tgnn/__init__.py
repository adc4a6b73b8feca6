"""High-order pooling for graph neural networks: nodes multiply their neighbors through a CP decomposition."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tgnn.estimators import GraphClassifier, GraphRegressor, NodeClassifier, NodeRegressor
    from tgnn.nn import TGNN, CPAggregation, GraphTGNN, TGNNConv, with_cp
    from tgnn.training.predict import predict
    from tgnn.training.repeated_runs import load_run
    from tgnn.training.train import train

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
    "load_run",
    "predict",
    "train",
    "with_cp",
]

_DEFINED_IN = {
    **dict.fromkeys(("TGNN", "CPAggregation", "GraphTGNN", "TGNNConv", "with_cp"), "tgnn.nn"),
    **dict.fromkeys(("GraphClassifier", "GraphRegressor", "NodeClassifier", "NodeRegressor"), "tgnn.estimators"),
    "load_run": "tgnn.training.repeated_runs",
    "predict": "tgnn.training.predict",
    "train": "tgnn.training.train",
}
_MODULES = ("data", "nn", "ops", "testing", "theory")


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that ``import tgnn`` and ``tgnn --help`` do not import torch."""
    if name in _MODULES:
        return importlib.import_module(f"tgnn.{name}")
    if name in _DEFINED_IN:
        return getattr(importlib.import_module(_DEFINED_IN[name]), name)
    raise AttributeError(f"module 'tgnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_MODULES])
