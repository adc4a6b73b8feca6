"""node2vec: an embedding of each node, learned from random walks without labels or features."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.index import index2ptr
from torch_geometric.nn.models import MLP, Node2Vec
from torch_geometric.utils import coalesce

from tgnn.models.data_shape import DataShape
from tgnn.ops.graph_cache import cached_on

_NO_DOUBLES = ("mps",)  # devices without float64; long sums of float32 would make some edges likelier than others


def random_walk(rowptr: Tensor, col: Tensor, start: Tensor, length: int, p: float, q: float) -> Tensor:
    r"""Walks of Grover and Leskovec, Section 3.2.2: from :math:`t` over :math:`v` to :math:`x`, drawn in proportion to
    :math:`1/p` where :math:`x = t`, 1 where an edge goes from :math:`t` to :math:`x`, and :math:`1/q` else.

    The first step is uniform. A walk stays where no edge leads on.

    Args:
        rowptr: The edges from node ``v`` are ``rowptr[v]`` to ``rowptr[v + 1]``.
        col: Where they go, rising for each node.
        start: Node that each walk begins at.
        length: Number of steps.
        p: Small: walks turn back.
        q: Small: walks go far; large: they stay near.

    Shapes:
        - **input:** ``rowptr`` ``[N + 1]``, ``col`` ``[E]``, ``start`` ``[B]``
        - **output:** ``[B, length + 1]``

    Example:
        >>> random_walk(torch.tensor([0, 1, 2, 2]), torch.tensor([1, 2]), torch.tensor([0, 2]), 3, 1.0, 1.0).tolist()
        [[0, 1, 2, 2], [2, 2, 2, 2]]
    """
    device = start.device
    if device.type in _NO_DOUBLES:
        rowptr, col, start = rowptr.cpu(), col.cpu(), start.cpu()
    nodes, edges = rowptr.numel() - 1, None
    if p != 1 or q != 1:
        edges = torch.arange(nodes, device=col.device).repeat_interleave(rowptr.diff()) * nodes + col
    walk = [start]
    for _ in range(length):
        before = walk[-2] if len(walk) > 1 and edges is not None else None
        walk.append(_step(rowptr, col, edges, before, walk[-1], p, q))
    return torch.stack(walk, dim=1).to(device)


def _step(
    rowptr: Tensor, col: Tensor, edges: Tensor | None, before: Tensor | None, at: Tensor, p: float, q: float
) -> Tensor:
    if col.numel() == 0:
        return at
    first, count = rowptr[at], rowptr[at + 1] - rowptr[at]
    chance = torch.rand(at.shape, dtype=torch.float64, device=at.device)
    if before is None or edges is None:
        place = first + (chance * count).long()
    else:  # the edges of all walks in one row, and their sums so far
        walks = torch.arange(at.numel(), device=at.device).repeat_interleave(count)
        end = count.cumsum(0)
        each = torch.arange(walks.numel(), device=at.device) + (first - end + count)[walks]
        sums = torch.nn.functional.pad(
            _bias(edges, before[walks], col[each], rowptr.numel() - 1, p, q).cumsum(0), (1, 0)
        )
        low, high = sums[end - count], sums[end]
        drawn = torch.searchsorted(sums, low + chance * (high - low), right=True) - 1
        place = first + (drawn - (end - count)).clamp(min=0).minimum(count - 1)
    return torch.where(count > 0, col[place.clamp(0, col.numel() - 1)], at)


def _bias(edges: Tensor, before: Tensor, to: Tensor, nodes: int, p: float, q: float) -> Tensor:
    wanted = before * nodes + to
    there = edges[torch.searchsorted(edges, wanted).clamp(max=edges.numel() - 1)] == wanted
    bias = torch.full(to.shape, 1 / q, dtype=torch.float64, device=to.device)
    bias[there] = 1
    bias[to == before] = 1 / p
    return bias


class Walks(Node2Vec):
    """PyG's ``Node2Vec``, its samples and its loss, with walks that need no ``pyg-lib`` and a graph that comes later.

    Args:
        nodes: Number of nodes.
        width: Of the embedding.
        walk_length: Nodes of a walk.
        context: Nodes of a walk that are looked at together.
        p: Of :func:`random_walk`.
        q: Of :func:`random_walk`.
        negatives: Random walks for each real one.
    """

    def __init__(
        self, nodes: int, width: int, walk_length: int, context: int, p: float, q: float, negatives: int
    ) -> None:
        torch.nn.Module.__init__(self)  # PyG's own asks for pyg-lib
        self.EPS, self.random_walk_fn = 1e-15, random_walk
        self.num_nodes, self.embedding_dim = nodes, width
        self.walk_length, self.context_size = walk_length - 1, context
        self.walks_per_node, self.num_negative_samples, self.p, self.q = 1, negatives, p, q
        self.embedding = torch.nn.Embedding(nodes, width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Near 0, as word2vec begins: from PyG's normal numbers a few hundred steps do not lead far."""
        torch.nn.init.uniform_(self.embedding.weight, -0.5 / self.embedding_dim, 0.5 / self.embedding_dim)

    def walk_on(self, edge_index: Tensor) -> None:
        """Sets the graph."""
        self.rowptr, self.col = cached_on(("walks", self.num_nodes), (edge_index,), lambda: self._edges(edge_index))

    def _edges(self, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        row, col = coalesce(edge_index, num_nodes=self.num_nodes)
        return index2ptr(row, self.num_nodes), col.contiguous()


class Node2VecNetwork(torch.nn.Module):
    """An MLP of an embedding that learns from walks alone: no gradient of the MLP reaches it.

    Args:
        walks: The embedding.
        head: The MLP.
        batch: Nodes that walks begin at in each step of training.
    """

    def __init__(self, walks: Walks, head: torch.nn.Module, batch: int) -> None:
        super().__init__()
        self.walks, self.head, self.batch = walks, head, batch
        self.extra_loss: Tensor | None = None

    def forward(self, data: Data) -> Tensor:
        nodes = self.walks.num_nodes
        if data.get("n_id") is not None or data.get("num_sampled_nodes") is not None:
            raise ValueError("node2vec learns from walks over the whole graph: leave train.num_neighbors out")
        if data.num_nodes != nodes:
            raise ValueError(
                f"node2vec has an embedding of each of the {nodes} nodes it was made for, and knows no others; "
                f"this graph has {data.num_nodes}"
            )
        self.extra_loss = None
        if self.training:
            self.walks.walk_on(data.edge_index)
            begin = torch.randperm(nodes, device=data.edge_index.device)[: self.batch]
            self.extra_loss = self.walks.loss(*self.walks.sample(begin))
        out: Tensor = self.head(self.walks.embedding.weight.detach())
        return out


def build_node2vec(
    shape: DataShape,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    *,
    p: Annotated[float, Field(gt=0)] = 1.0,
    q: Annotated[float, Field(gt=0)] = 1.0,
    walk_length: Annotated[int, Field(ge=2)] = 20,
    context: Annotated[int, Field(ge=2)] = 10,
    negatives: Annotated[int, Field(ge=1)] = 1,
    walk_batch: Annotated[int, Field(ge=1)] = 256,
) -> Node2VecNetwork:
    """An embedding of width ``hidden_channels`` and an MLP of ``num_layers`` on it: 128 and 1 (logistic regression) in the paper."""
    if shape.nodes is None:
        raise ValueError(
            "node2vec learns an embedding of each node of one graph, and this data has many graphs; gcn, graphsage or "
            "tgnn, which learn from features, would do"
        )
    if walk_length < context:
        raise ValueError(f"model.context is {context}, but a walk has {walk_length} nodes (model.walk_length)")
    walks = Walks(shape.nodes, hidden_channels, walk_length, context, p, q, negatives)
    head = MLP([*[hidden_channels] * num_layers, shape.outputs], dropout=dropout, norm=None)
    return Node2VecNetwork(walks, head, walk_batch)
