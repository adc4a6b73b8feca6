"""Layers that pass messages along edges."""

from .tgnn_conv import TGNNConv

__all__ = ["TGNNConv"]
