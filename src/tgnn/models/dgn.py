"""DGN: neighbours weighted by where they lie along the graph, as an eigenvector of the Laplacian tells it."""

from __future__ import annotations

import logging
import math
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import degree, scatter

from tgnn.models.data_shape import DataShape
from tgnn.models.eigenvector import eigenvectors
from tgnn.models.pooled import Pooled
from tgnn.models.readout import Readout
from tgnn.nn.models.encoder import make_encoder

logger = logging.getLogger("tgnn")

_KINDS = ("mean", "max", "min", "av", "dx")
_SMALL = 1e-8  # where the eigenvector is flat, there is no direction; rounding must not make one


class Directions(torch.nn.Module):
    r"""What layers are told of an edge from ``u`` to ``v``: its entry of the field,

    .. math:: \hat F_{vu} = (f_u - f_v) \,/\, (\sum_{w \in N(v)} |f_w - f_v| + \epsilon),

    where :math:`f` is the eigenvector, and then its features, where they are used, mapped to ``hidden_channels``.

    The eigenvector is ``data.eigenvector``, or is found here.

    Args:
        shape: Of the data.
        hidden_channels: Width of rows.
        features: Whether the features of edges are used, where there are any.
    """

    def __init__(self, shape: DataShape, hidden_channels: int, features: bool = True) -> None:
        super().__init__()
        known = shape.edge_features if features else None
        self.encoder = None if known is None else make_encoder(known, hidden_channels, "edge_attr")

    def forward(self, data: Data) -> Tensor:
        f = data.get("eigenvector")
        f = eigenvectors(data).to(data.edge_index.device) if f is None else f
        source, target = data.edge_index
        gradient = f[source] - f[target]
        size = scatter(gradient.abs(), target, dim_size=data.num_nodes, reduce="sum")
        field = gradient / (size[target] + _SMALL)
        return field if self.encoder is None else torch.cat([field, self.encoder(data.edge_attr)], dim=1)


class DGNConv(torch.nn.Module):
    r"""Directional aggregations side by side, and a linear map of them and of the row itself (Beaini et al.):

    - ``av``: directional smoothing, :math:`B_{av} X` with :math:`B_{av} = |\hat F|`;
    - ``dx``: directional derivative, :math:`|B_{dx} X|` with
      :math:`B_{dx} = \hat F - \mathrm{diag}(\hat F \mathbf 1)`; of no sign, as an eigenvector has none;
    - ``mean``, ``max`` and ``min``: of the neighbours, without direction.

    Args:
        width: Of rows.
        kinds: Which of these.
        told: Width of what is told of edges, see :class:`Directions`; ``None``: the messages are the neighbours' rows;
            else linear maps of both rows and the features of the edge.
        scale: Mean of ``log(degree + 1)``, for PNA's scaling by degrees; ``None``: there is none.
    """

    scale: Tensor | None

    def __init__(self, width: int, kinds: tuple[str, ...], told: int | None, scale: float | None) -> None:
        super().__init__()
        self.kinds = kinds
        self.message = None if told is None else torch.nn.Linear(2 * width + told - 1, width)
        self.register_buffer("scale", None if scale is None else torch.tensor(scale))
        copies = len(kinds) * (1 if scale is None else 3)
        self.update = torch.nn.Linear((1 + copies) * width, width)

    def forward(self, x: Tensor, edge_index: Tensor, told: Tensor) -> Tensor:
        source, target = edge_index
        messages = x[source]
        if self.message is not None:
            messages = self.message(torch.cat([x[target], messages, told[:, 1:]], dim=1))
        pooled = torch.cat([self._pool(kind, x, messages, target, told[:, :1]) for kind in self.kinds], dim=1)
        if self.scale is not None:
            logs = degree(target, len(x)).clamp(min=1).log1p().unsqueeze(1) / self.scale
            pooled = torch.cat([pooled, pooled * logs, pooled / logs], dim=1)
        out: Tensor = self.update(torch.cat([x, pooled], dim=1))
        return out

    @staticmethod
    def _pool(kind: str, x: Tensor, messages: Tensor, target: Tensor, field: Tensor) -> Tensor:
        reduce = kind if kind in ("mean", "max", "min") else "sum"
        if kind == "av":
            messages = messages * field.abs()
        if kind == "dx":
            messages = (messages - x[target]) * field
        out: Tensor = scatter(messages, target, dim_size=len(x), reduce=reduce)
        return out.abs() if kind == "dx" else out


def build_graph_dgn(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    aggregators: str = "mean+av+dx",
    messages: Literal["simple", "complex"] = "complex",
    scalers: bool = True,
    readout: str = "mean",
) -> Pooled:
    """Directional layers in the common network. ``simple`` messages are the neighbours' rows; ``complex`` ones are
    linear maps of both ends, and alone use the features of edges. The paper's towers are left out.
    """
    kinds = tuple(aggregators.split("+"))
    if not set(kinds) <= set(_KINDS):
        raise ValueError(f"model.aggregators is {aggregators!r}: it is made of {', '.join(_KINDS)}, such as mean+av+dx")
    if messages == "simple" and shape.edge_features is not None:
        logger.warning("dgn does not use the edge features of this data with model.messages=simple; complex does")
    directions = Directions(shape, hidden_channels, features=messages == "complex")
    told = None if messages == "simple" else 1 if directions.encoder is None else 1 + hidden_channels
    scale = _mean_log(shape.degrees) if scalers else None
    stack = [DGNConv(hidden_channels, kinds, told, scale) for _ in range(num_layers)]
    return Pooled(shape, hidden_channels, stack, Readout(readout, hidden_channels), dropout, edges=directions)


def _mean_log(degrees: tuple[int, ...] | None) -> float:
    """Over the nodes to learn from; a trained model has it among its weights."""
    counts = degrees or (0, 1)
    mean = sum(count * math.log(number + 1) for number, count in enumerate(counts)) / max(sum(counts), 1)
    return mean or 1.0  # no node has an edge
