"""Encoders of node and edge features: a linear map for numeric features, embeddings for categories."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.parameter import Parameter

from tgnn.nn.checks import check_size
from tgnn.nn.linear import FeatureLinear


class CategoryEncoder(torch.nn.Module):
    """Sum of one embedding per categorical column, for example for the atoms and bonds of OGB.

    Args:
        sizes: Number of categories of each column.
        out_channels: Size of the embeddings.
        input_name: Name of the input in error messages.

    Shapes:
        - **input:** integers ``[N, len(sizes)]``, or ``[N]`` for one column
        - **output:** ``[N, out_channels]``

    Example:
        >>> CategoryEncoder([28], 16)(torch.tensor([0, 5, 27])).shape
        torch.Size([3, 16])
    """

    def __init__(self, sizes: Sequence[int], out_channels: int, input_name: str = "x") -> None:
        super().__init__()
        if not sizes or min(sizes) < 1:
            raise ValueError(
                f"The numbers of categories of {input_name} are {list(sizes)}, but must be a list of positive numbers."
            )
        self.input_name = input_name
        self.sizes = list(sizes)
        self.offset: Tensor
        self.register_buffer("offset", torch.tensor([0, *self.sizes[:-1]]).cumsum(0), persistent=False)
        self.weight = Parameter(torch.empty(sum(self.sizes), out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        torch.nn.init.normal_(self.weight, std=len(self.sizes) ** -0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(-1, 1) if x.dim() == 1 else x
        if x.is_floating_point() or x.size(1) != len(self.sizes):
            raise ValueError(
                f"{self.input_name} must be categories, integers in {len(self.sizes)} columns, "
                f"got {list(x.shape)} of {x.dtype}."
            )
        if not torch.compiler.is_compiling():
            self._check(x)
        if len(self.sizes) == 1:
            return torch.nn.functional.embedding(x.squeeze(1), self.weight)
        return torch.nn.functional.embedding_bag(x + self.offset, self.weight, mode="sum")

    def _check(self, x: Tensor) -> None:
        for column, size in enumerate(self.sizes if x.numel() else []):
            low, high = (int(value) for value in torch.aminmax(x[:, column]))
            if low < 0 or high >= size:
                wrong = low if low < 0 else high
                raise ValueError(
                    f"{self.input_name}[:, {column}] contains category {wrong}, but has {size}: 0 to {size - 1}."
                )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sizes}, {self.weight.size(1)})"


def make_encoder(channels: int | Sequence[int], out_channels: int, input_name: str) -> FeatureLinear | CategoryEncoder:
    """Create an encoder: a linear map for a number of features, embeddings for a list of numbers of categories."""
    if isinstance(channels, (list, tuple)):
        return CategoryEncoder(channels, out_channels, input_name)
    check_size("in_channels" if input_name == "x" else "edge_dim", channels, lazy=True)
    assert isinstance(channels, int)
    return FeatureLinear(channels, out_channels, bias=True, input_name=input_name)
