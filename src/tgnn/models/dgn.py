"""DGN (Beaini et al., 2021): directional aggregation along an eigenvector of the graph Laplacian.

The direction is the first non-constant eigenvector (Fiedler vector). Its sign is arbitrary. If its eigenvalue is not
simple, as in a cycle, it is any unit vector of the eigenspace and may depend on the order of the nodes. The result is
reproducible for a graph, whatever other graphs are computed with it: graphs of the same size are solved together,
without padding.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import degree, scatter, subgraph

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.positional_encodings import batches_of_equal_size, compute_by_size, undirected_adjacency
from tgnn.models.graph_network import GraphNetwork
from tgnn.models.registration import DataShape, ModelSize, register_model
from tgnn.nn.feature_maps import make_encoder

logger = logging.getLogger("tgnn")

_AGGREGATORS = ("mean", "max", "min", "av", "dx")
_EPSILON = 1e-8  # rounding errors must not make a direction where the eigenvector is constant
_ZERO = 1e-9  # eigenvalues below this fraction of the largest degree belong to constant vectors


def add_eigenvectors(graphs: GraphDataset | Data) -> None:
    """Add the attribute ``eigenvector`` ``[N, 1]`` to a data set of graphs, in place. A single graph is unchanged."""
    if not isinstance(graphs, GraphDataset) or graphs.edge_index is None:
        return
    graphs.add("eigenvector", compute_by_size(graphs, _solve, "computing eigenvectors"))


def eigenvectors(data: Data) -> Tensor:
    """Return the eigenvectors ``[N, 1]`` of the graphs of a batch, computed on the CPU."""
    edge_index, batch = data.edge_index.cpu(), data.batch.cpu()
    sizes = torch.bincount(batch, minlength=data.num_graphs)
    out = torch.zeros(len(batch), 1)
    for indices in batches_of_equal_size(sizes):
        nodes = torch.isin(batch, indices)
        edges, _ = subgraph(nodes, edge_index, relabel_nodes=True, num_nodes=len(batch))
        out[nodes] = _solve(edges, len(indices), int(sizes[indices[0]]))
    return out


def _solve(edge_index: Tensor, count: int, size: int) -> Tensor:
    """Return the entries ``[count * size, 1]`` of the eigenvectors with the smallest positive eigenvalue, or 0.

    The batch has ``count`` graphs of ``size`` nodes. Edges are treated as undirected and unweighted, and self-loops are
    ignored. In a disconnected graph the eigenvector is that of one component.
    """
    adjacency = undirected_adjacency(edge_index, count, size)
    degrees = adjacency.sum(2)
    values, vectors = torch.linalg.eigh(torch.diag_embed(degrees) - adjacency)
    first = (values <= _ZERO * degrees.amax(1, keepdim=True)).sum(1)
    column = first.clamp(max=size - 1).view(-1, 1, 1).expand(-1, size, 1)
    selected = torch.where((first < size).view(-1, 1, 1), vectors.gather(2, column), 0.0)
    return selected.reshape(-1, 1).float()


class Directions(torch.nn.Module):
    r"""Edge inputs of :class:`DGNConv`: the normalized directional field, and the edge features if they are used.

    The field of an edge from ``u`` to ``v`` is

    .. math:: \hat F_{vu} = (f_u - f_v) \,/\, (\sum_{w \in N(v)} |f_w - f_v| + \epsilon),

    where :math:`f` is the eigenvector ``data.eigenvector``. It is computed if the batch has none.

    Args:
        shape: Sizes of the inputs and outputs.
        hidden_channels: Number of channels that edge features are transformed to.
        features: Whether to use the edge features, if the data has them.
    """

    def __init__(self, shape: DataShape, hidden_channels: int, features: bool = True) -> None:
        super().__init__()
        edge_features = shape.edge_features if features else None
        self.encoder = None if edge_features is None else make_encoder(edge_features, hidden_channels, "edge_attr")

    def forward(self, data: Data) -> Tensor:
        f = data.get("eigenvector")
        f = eigenvectors(data).to(data.edge_index.device) if f is None else f
        source, target = data.edge_index
        gradient = f[source] - f[target]
        size = scatter(gradient.abs(), target, dim_size=data.num_nodes, reduce="sum")
        field = gradient / (size[target] + _EPSILON)
        return field if self.encoder is None else torch.cat([field, self.encoder(data.edge_attr)], dim=1)


class DGNConv(torch.nn.Module):
    r"""Concatenated directional aggregations, and a linear layer of them and of the node itself (Beaini et al.):

    - ``av``: directional smoothing, :math:`B_{av} X` with :math:`B_{av} = |\hat F|`;
    - ``dx``: directional derivative, :math:`|B_{dx} X|` with
      :math:`B_{dx} = \hat F - \mathrm{diag}(\hat F \mathbf 1)`, in absolute value as the sign of an eigenvector is
      arbitrary;
    - ``mean``, ``max`` and ``min`` of the neighbors, without direction.

    Args:
        channels: Number of channels of the node embeddings.
        aggregators: Names of the aggregations.
        edge_channels: Number of channels of the edge inputs, see :class:`Directions`. The messages are then a linear
            layer of both nodes and the edge features. ``None`` takes the neighbors themselves as messages.
        mean_log_degree: Mean of ``log(degree + 1)``, for the degree scalers of PNA. ``None`` leaves the scalers out.
    """

    mean_log_degree: Tensor | None

    def __init__(
        self, channels: int, aggregators: tuple[str, ...], edge_channels: int | None, mean_log_degree: float | None
    ) -> None:
        super().__init__()
        self.aggregators = aggregators
        self.message = None if edge_channels is None else torch.nn.Linear(2 * channels + edge_channels - 1, channels)
        self.register_buffer("mean_log_degree", None if mean_log_degree is None else torch.tensor(mean_log_degree))
        copies = len(aggregators) * (1 if mean_log_degree is None else 3)
        self.update = torch.nn.Linear((1 + copies) * channels, channels)

    def forward(self, x: Tensor, edge_index: Tensor, directions: Tensor) -> Tensor:
        source, target = edge_index
        field, edge_embedding = directions[:, :1], directions[:, 1:]
        messages = x[source]
        if self.message is not None:
            messages = self.message(torch.cat([x[target], messages, edge_embedding], dim=1))
        aggregated = torch.cat([self._aggregate(name, x, messages, target, field) for name in self.aggregators], dim=1)
        if self.mean_log_degree is not None:
            scale = degree(target, len(x)).clamp(min=1).log1p().unsqueeze(1) / self.mean_log_degree
            aggregated = torch.cat([aggregated, aggregated * scale, aggregated / scale], dim=1)
        out: Tensor = self.update(torch.cat([x, aggregated], dim=1))
        return out

    @staticmethod
    def _aggregate(name: str, x: Tensor, messages: Tensor, target: Tensor, field: Tensor) -> Tensor:
        reduce = name if name in ("mean", "max", "min") else "sum"
        if name == "av":
            messages = messages * field.abs()
        if name == "dx":
            messages = (messages - x[target]) * field
        out: Tensor = scatter(messages, target, dim_size=len(x), reduce=reduce)
        return out.abs() if name == "dx" else out


@register_model(
    "dgn",
    "graph",
    summary="Directional aggregation along an eigenvector of the graph Laplacian",
    paper="Beaini et al. 2021, arXiv:2010.02863",
    uses=("edge features",),
    search_space={"model.aggregators": ("mean+dx", "mean+av", "mean+av+dx", "mean+dx+max+min")},
    preprocess=add_eigenvectors,
)
def build_graph_dgn(
    size: ModelSize,
    *,
    aggregators: str = "mean+av+dx",
    messages: Literal["simple", "complex"] = "complex",
    scalers: bool = True,
    readout: str = "mean",
    ffn: bool = False,
) -> GraphNetwork:
    """Build a :class:`GraphNetwork` of :class:`DGNConv`, without the towers of the paper.

    ``simple`` messages are the neighbors themselves. ``complex`` messages are a linear layer of both nodes, and only
    they use the edge features.
    """
    names = tuple(aggregators.split("+"))
    if not set(names) <= set(_AGGREGATORS):
        raise ValueError(
            f"model.aggregators is {aggregators!r}, but must be one or several of {', '.join(_AGGREGATORS)}, joined by "
            "'+' as in mean+av+dx."
        )
    if messages == "simple" and size.edge_dim is not None:
        logger.warning("dgn does not use the edge features of this data with model.messages=simple; complex does")
    directions = Directions(size.shape, size.hidden_channels, features=messages == "complex")
    edge_channels = None if messages == "simple" else 1 + (size.edge_dim or 0)
    mean_log_degree = _mean_log_degree(size.shape.degrees) if scalers else None
    make_layer = partial(DGNConv, size.hidden_channels, names, edge_channels, mean_log_degree)
    return GraphNetwork(size, make_layer, readout, edge_inputs=directions, ffn=ffn)


def _mean_log_degree(degrees: tuple[int, ...] | None) -> float:
    """Return the mean of ``log(degree + 1)`` over the training data. A trained model stores it with its weights."""
    counts = degrees or (0, 1)
    mean = sum(count * math.log(number + 1) for number, count in enumerate(counts)) / max(sum(counts), 1)
    return mean or 1.0  # 0 if no node has an edge, but it is a divisor
