"""Normalization of the rows of graphs."""

from __future__ import annotations

import torch
from torch import Tensor


class RowNorm(torch.nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` of what is read of each graph, which says what to do where it cannot learn.

    Example:
        >>> RowNorm(8)(torch.randn(4, 8)).shape
        torch.Size([4, 8])
    """

    def forward(self, rows: Tensor) -> Tensor:
        if self.training and rows.size(0) == 1:
            raise ValueError(
                "readout_norm is True, and cannot learn from a batch of one graph: "
                "give two graphs or more at once, or set readout_norm to False"
            )
        out: Tensor = super().forward(rows)
        return out
