"""Layers that pass messages along edges."""

from tgnn.nn.conv.tgnn_conv import TGNNConv

__all__ = ["TGNNConv"]
