"""Message passing layers."""

from tgnn.nn.conv.tgnn_conv import TGNNConv

__all__ = ["TGNNConv"]
