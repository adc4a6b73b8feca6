"""MoNet (Monti et al., 2017): Gaussian mixture weights of pseudo-coordinates."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GMMConv
from torch_geometric.utils import degree

from tgnn.models.graph_network import GraphNetwork
from tgnn.models.registration import ModelSize, PositiveInt, register_model


def degree_coordinates(data: Data) -> Tensor:
    """Return the pseudo-coordinates ``1 / sqrt(degree + 1)`` of both ends of each edge, as in Dwivedi et al."""
    inverse_root: Tensor = (degree(data.edge_index[1], data.num_nodes) + 1).rsqrt()
    return inverse_root[data.edge_index].t()


def position_coordinates(data: Data) -> Tensor:
    """Return the position of the source relative to the target of each edge."""
    source, target = data.edge_index
    pos: Tensor = data.pos
    return pos[source] - pos[target]


class MoNetLayer(torch.nn.Module):
    """PyG's ``GMMConv``, Eq. (9) to (11) of Monti et al., of transformed pseudo-coordinates ``tanh(A u + b)``.

    Args:
        channels: Number of channels of the node embeddings.
        dim: Number of pseudo-coordinates.
        kernels: Number of Gaussian kernels.
    """

    def __init__(self, channels: int, dim: int, kernels: int) -> None:
        super().__init__()
        self.transform = torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.Tanh())
        self.conv = GMMConv(channels, channels, dim, kernels, aggr="sum", root_weight=False)
        self.conv.root = None  # GMMConv reads it in spite of root_weight=False
        torch.nn.init.ones_(self.conv.sigma)  # the scale of the coordinates; narrow kernels are 0 on all edges

    def forward(self, x: Tensor, edge_index: Tensor, coordinates: Tensor) -> Tensor:
        out: Tensor = self.conv(x, edge_index, self.transform(coordinates))
        return out


@register_model(
    "monet",
    "graph",
    summary="Sum of the neighbors with Gaussian mixture weights of pseudo-coordinates",
    paper="Monti et al. 2017, arXiv:1611.08402",
    search_space={"model.kernels": (2, 3, 5)},
)
def build_graph_monet(
    size: ModelSize,
    *,
    kernels: PositiveInt = 3,
    pseudo: Literal["degree", "position"] = "degree",
    readout: str = "mean",
    ffn: bool = False,
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of :class:`MoNetLayer`.

    ``pseudo`` selects the pseudo-coordinates: the node degrees, or the relative positions if nodes have positions.
    """
    if pseudo == "position" and size.shape.positions is None:
        raise ValueError("model.pseudo is 'position', but this data has no node positions. Set model.pseudo=degree.")
    dim = 2 if pseudo == "degree" else int(size.shape.positions or 0)
    make_layer = partial(MoNetLayer, size.hidden_channels, dim, kernels)
    coordinates = degree_coordinates if pseudo == "degree" else position_coordinates
    return GraphNetwork(size, make_layer, readout, edge_inputs=coordinates, ffn=ffn)
