"""PHM-GNN: linear maps that share their weights by an algebra, which is learned."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.parameter import Parameter
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.norm import BatchNorm

from tgnn.models.data_shape import DataShape
from tgnn.models.pooled import Pooled
from tgnn.models.readout import Readout


class PHMLinear(torch.nn.Module):
    r"""Parameterized hypercomplex multiplication, as Le et al. take it from Zhang et al. (arXiv:2102.08597):

    .. math:: y = U x + b, \qquad U = \sum_{i=1}^{n} A_i \otimes S_i

    ``A`` has the rules of multiplication, ``n`` matrices ``[n, n]``; ``S`` has the weights, which are ``n`` times fewer
    than those of a linear map. With the rules of complex numbers (``n`` is 2) or quaternions (4), it is their product.

    Args:
        in_channels: Size of each input row, a multiple of ``dimension``.
        out_channels: Size of each output row, likewise.
        dimension: ``n``.

    Shapes:
        - **input:** ``[*, in_channels]``
        - **output:** ``[*, out_channels]``

    Example:
        >>> PHMLinear(8, 4, dimension=2)(torch.randn(3, 8)).shape
        torch.Size([3, 4])
    """

    def __init__(self, in_channels: int, out_channels: int, dimension: int) -> None:
        super().__init__()
        for channels in (in_channels, out_channels):
            if channels % dimension:
                raise ValueError(f"{channels} channels must be a multiple of the dimension, {dimension}")
        self.rules = Parameter(torch.empty(dimension, dimension, dimension))
        self.weights = Parameter(torch.empty(dimension, out_channels // dimension, in_channels // dimension))
        self.bias = Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws both so that entries of ``U`` have the variance of Glorot and Bengio."""
        n, out, width = self.weights.shape
        wanted = 2 / (n * out + n * width)
        bound = (3 * wanted / (n / 3)) ** 0.5  # an entry has n summands, and the rules' variance is one third
        torch.nn.init.uniform_(self.rules, -1, 1)
        torch.nn.init.uniform_(self.weights, -bound, bound)
        torch.nn.init.zeros_(self.bias)

    def matrix(self) -> Tensor:
        """``U``, ``[out_channels, in_channels]``."""
        n, out, width = self.weights.shape
        return torch.einsum("iab,icd->acbd", self.rules, self.weights).reshape(n * out, n * width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, self.matrix(), self.bias)


class PHMConv(MessagePassing):
    r"""GIN's layer with hypercomplex maps:
    :math:`x'_v = \mathrm{MLP}((1 + \epsilon)\, x_v + \mathrm{pool}_{u \in N(v)} (x_u + e_{uv}))`.

    Args:
        width: Of rows, and of the features of edges.
        dimension: Of the algebra.
        pooling: ``"sum"``, or ``"softmax"``: messages weighted by their softmax, with a temperature that is learned.
        train_eps: Whether :math:`\epsilon` is learned; else it is 0, as in the authors' code.
    """

    eps: Tensor

    def __init__(self, width: int, dimension: int, pooling: str, train_eps: bool = False) -> None:
        super().__init__(aggr=pooling, aggr_kwargs={"learn": True} if pooling == "softmax" else None)
        first, second = (PHMLinear(width, width, dimension) for _ in range(2))
        self.mlp = torch.nn.Sequential(first, BatchNorm(width), torch.nn.ReLU(), second)
        if train_eps:
            self.eps = Parameter(torch.zeros(1))
        else:
            self.register_buffer("eps", torch.zeros(1), persistent=False)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        pooled = self.propagate(edge_index, x=x, edge_attr=edge_attr)
        out: Tensor = self.mlp((1 + self.eps) * x + pooled)
        return out

    def message(self, x_j: Tensor, edge_attr: Tensor | None) -> Tensor:
        return x_j if edge_attr is None else x_j + edge_attr


def build_graph_phm_gnn(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    dimension: Annotated[int, Field(ge=1)] = 4,
    pooling: Literal["sum", "softmax"] = "sum",
    readout: str = "sum",
    train_eps: bool = False,
    head_dropout: Annotated[float, Field(ge=0, lt=1)] | None = None,
) -> Pooled:
    """Layers of Le et al. in the common network; embeddings, readout and head are the network's, and real. The readout
    ``gated`` is their soft attention, but of real maps.
    """
    if hidden_channels % dimension:
        raise ValueError(
            f"model.hidden_channels is {hidden_channels}, but must be a multiple of model.dimension, {dimension}"
        )
    stack = [PHMConv(hidden_channels, dimension, pooling, train_eps) for _ in range(num_layers)]
    settings: dict[str, Any] = {"head_dropout": head_dropout, "edges": "features"}
    return Pooled(shape, hidden_channels, stack, Readout(readout, hidden_channels), dropout, **settings)
