"""High-order pooling for graph neural networks: nodes multiply their neighbours through a CP decomposition."""

from . import ops

__version__ = "0.1.0"

__all__ = ["ops"]
