"""What nodes and edges come with, as rows of numbers: measured features as they are, categories as embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.parameter import Parameter

from tgnn.nn.checks import check_size
from tgnn.nn.linear import FeatureLinear


class CategoryEncoder(torch.nn.Module):
    """The sum of one embedding per column, for rows of categories such as OGB's atoms and bonds.

    Args:
        sizes: How many categories each column has.
        out_channels: Width of the embeddings.
        what: What to call the input in an error.

    Shapes:
        - **input:** integers ``[N, len(sizes)]``, or ``[N]`` for one column
        - **output:** ``[N, out_channels]``

    Example:
        >>> CategoryEncoder([28], 16)(torch.tensor([0, 5, 27])).shape
        torch.Size([3, 16])
    """

    def __init__(self, sizes: Sequence[int], out_channels: int, what: str = "x") -> None:
        super().__init__()
        if not sizes or min(sizes) < 1:
            raise ValueError(f"the sizes of {what} are {list(sizes)}, but must be at least one category a column")
        self.what = what
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
            wanted = f"integers in {len(self.sizes)} columns"
            raise ValueError(f"{self.what} must be categories, {wanted}, got {list(x.shape)} of {x.dtype}")
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
                raise ValueError(f"{self.what}[:, {column}] contains category {wrong}, but has {size}: 0 to {size - 1}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sizes}, {self.weight.size(1)})"


def make_encoder(channels: int | Sequence[int], out_channels: int, what: str) -> FeatureLinear | CategoryEncoder:
    """Floats of that width are mapped linearly; a list of sizes means categories."""
    if isinstance(channels, (list, tuple)):
        return CategoryEncoder(channels, out_channels, what)
    check_size("in_channels" if what == "x" else "edge_dim", channels, lazy=True)
    assert isinstance(channels, int)
    return FeatureLinear(channels, out_channels, bias=True, what=what)
