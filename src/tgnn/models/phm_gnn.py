"""PHM-GNN (Le et al., 2021): parameterized hypercomplex graph neural network."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.nn.parameter import Parameter
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.norm import BatchNorm

from tgnn.models.graph_network import GraphNetwork, check_multiple
from tgnn.models.registration import ModelSize, PositiveInt, Probability, register_model


class PHMLinear(torch.nn.Module):
    r"""Parameterized hypercomplex multiplication, which Le et al. take from Zhang et al. (arXiv:2102.08597):

    .. math:: y = U x + b, \qquad U = \sum_{i=1}^{n} A_i \otimes S_i

    ``A`` are the multiplication rules, ``n`` matrices ``[n, n]``. ``S`` are the weights, ``n`` times fewer than those
    of a linear layer. With the rules of complex numbers (``n = 2``) or quaternions (``n = 4``), it is their product.

    Args:
        in_channels: Number of input channels, a multiple of ``dimension``.
        out_channels: Number of output channels, a multiple of ``dimension``.
        dimension: Dimension ``n`` of the algebra.

    Shapes:
        - **input:** ``[*, in_channels]``
        - **output:** ``[*, out_channels]``

    Example:
        >>> PHMLinear(8, 4, dimension=2)(torch.randn(3, 8)).shape
        torch.Size([3, 4])
    """

    def __init__(self, in_channels: int, out_channels: int, dimension: int) -> None:
        super().__init__()
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % dimension:
                raise ValueError(f"{name} is {channels}, but must be a multiple of the dimension, {dimension}.")
        self.rules = Parameter(torch.empty(dimension, dimension, dimension))
        self.weights = Parameter(torch.empty(dimension, out_channels // dimension, in_channels // dimension))
        self.bias = Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize rules and weights so that the entries of ``U`` have the variance of Glorot and Bengio."""
        n, out_size, in_size = self.weights.shape
        variance = 2 / (n * out_size + n * in_size)
        bound = (3 * variance / (n / 3)) ** 0.5  # an entry of U is a sum of n terms; the rules have variance 1/3
        torch.nn.init.uniform_(self.rules, -1, 1)
        torch.nn.init.uniform_(self.weights, -bound, bound)
        torch.nn.init.zeros_(self.bias)

    def matrix(self) -> Tensor:
        """Return ``U``, ``[out_channels, in_channels]``."""
        n, out_size, in_size = self.weights.shape
        return torch.einsum("iab,icd->acbd", self.rules, self.weights).reshape(n * out_size, n * in_size)

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, self.matrix(), self.bias)


class PHMConv(MessagePassing):
    r"""GIN layer with hypercomplex linear layers:
    :math:`x'_v = \mathrm{MLP}((1 + \epsilon)\, x_v + \mathrm{pool}_{u \in N(v)} (x_u + e_{uv}))`.

    Args:
        channels: Number of channels of the node embeddings and of the edge features.
        dimension: Dimension of the algebra.
        pooling: ``"sum"``, or ``"softmax"``: softmax aggregation with a learned temperature.
        train_eps: Whether :math:`\epsilon` is trained. Otherwise it is 0, as in the authors' code.
    """

    eps: Tensor

    def __init__(self, channels: int, dimension: int, pooling: str, train_eps: bool = False) -> None:
        super().__init__(aggr=pooling, aggr_kwargs={"learn": True} if pooling == "softmax" else None)
        first, second = (PHMLinear(channels, channels, dimension) for _ in range(2))
        self.mlp = torch.nn.Sequential(first, BatchNorm(channels), torch.nn.ReLU(), second)
        if train_eps:
            self.eps = Parameter(torch.zeros(1))
        else:
            self.register_buffer("eps", torch.zeros(1), persistent=False)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        aggregated = self.propagate(edge_index, x=x, edge_attr=edge_attr)
        out: Tensor = self.mlp((1 + self.eps) * x + aggregated)
        return out

    def message(self, x_j: Tensor, edge_attr: Tensor | None) -> Tensor:
        return x_j if edge_attr is None else x_j + edge_attr


@register_model(
    "phm-gnn",
    "graph",
    summary="GIN with parameterized hypercomplex linear layers",
    paper="Le et al. 2021, arXiv:2103.16584",
    uses=("edge features",),
    search_space={"model.dimension": (2, 4, 5)},
)
def build_graph_phm_gnn(
    size: ModelSize,
    *,
    dimension: PositiveInt = 4,
    pooling: Literal["sum", "softmax"] = "sum",
    readout: str = "sum",
    train_eps: bool = False,
    head_dropout: Probability | None = None,
    ffn: bool = False,
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of :class:`PHMConv`. Its encoder, readout and head are real-valued.

    The readout ``gated`` is the soft attention of Le et al. with real-valued linear layers.
    """
    check_multiple(size, "dimension", dimension)
    make_layer = partial(PHMConv, size.hidden_channels, dimension, pooling, train_eps)
    return GraphNetwork(size, make_layer, readout, head_dropout=head_dropout, edge_inputs="features", ffn=ffn)
