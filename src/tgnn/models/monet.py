"""MoNet: neighbours weighted by Gaussians of where they lie."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GMMConv
from torch_geometric.utils import degree

from tgnn.models.data_shape import DataShape
from tgnn.models.pooled import Pooled
from tgnn.models.readout import Readout


def degree_coordinates(data: Data) -> Tensor:
    """Of each edge: one over the root of the degrees of its two ends, each one higher, as in Dwivedi et al.: an end
    may have no edge into it.
    """
    root: Tensor = (degree(data.edge_index[1], data.num_nodes) + 1).rsqrt()
    return root[data.edge_index].t()


def position_coordinates(data: Data) -> Tensor:
    """Of each edge: from where its target lies to where its source lies."""
    source, target = data.edge_index
    pos: Tensor = data.pos
    return pos[source] - pos[target]


class MoNetLayer(torch.nn.Module):
    """PyG's ``GMMConv``, Eq. (9) to (11) of Monti et al., of coordinates that are bent first: ``tanh(A u + b)``.

    Args:
        width: Of rows.
        dim: Of coordinates.
        kernels: Gaussians.
    """

    def __init__(self, width: int, dim: int, kernels: int) -> None:
        super().__init__()
        self.bend = torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.Tanh())
        self.conv = GMMConv(width, width, dim, kernels, aggr="sum", root_weight=False)
        self.conv.root = None  # it asks for it even so
        torch.nn.init.ones_(self.conv.sigma)  # as wide as the coordinates are; a narrow one sees no edge

    def forward(self, x: Tensor, edge_index: Tensor, coordinates: Tensor) -> Tensor:
        out: Tensor = self.conv(x, edge_index, self.bend(coordinates))
        return out


def build_graph_monet(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    kernels: Annotated[int, Field(ge=1)] = 3,
    pseudo: Literal["degree", "position"] = "degree",
    readout: str = "mean",
) -> Pooled:
    """PyG's ``GMMConv`` in the common network. ``pseudo`` says where a neighbour lies: by ``degree``, or, where nodes
    have positions, by their difference.
    """
    if pseudo == "position" and shape.positions is None:
        raise ValueError("model.pseudo is 'position', but this data has no positions of nodes; set model.pseudo=degree")
    dim = 2 if pseudo == "degree" else int(shape.positions or 0)
    stack = [MoNetLayer(hidden_channels, dim, kernels) for _ in range(num_layers)]
    coordinates = degree_coordinates if pseudo == "degree" else position_coordinates
    return Pooled(shape, hidden_channels, stack, Readout(readout, hidden_channels), dropout, edges=coordinates)
