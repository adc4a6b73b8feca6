"""node2vec (Grover and Leskovec, 2016): node embeddings from biased random walks."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.index import index2ptr
from torch_geometric.nn.models import MLP, Node2Vec
from torch_geometric.utils import coalesce

from tgnn.models.registration import ModelSize, PositiveInt, register_model
from tgnn.ops.graph_cache import cached_on

_DEVICES_WITHOUT_FLOAT64 = ("mps",)  # long cumulative sums in float32 would distort the probabilities of edges


def random_walk(rowptr: Tensor, col: Tensor, start: Tensor, length: int, p: float, q: float) -> Tensor:
    r"""Sample second-order random walks, Section 3.2.2 of Grover and Leskovec.

    A walk that came from :math:`t` to :math:`v` continues to :math:`x` with a probability proportional to :math:`1/p`
    if :math:`x = t`, to 1 if there is an edge from :math:`t` to :math:`x`, and to :math:`1/q` otherwise. The first step
    is uniform. A walk stays at a node without outgoing edges.

    Args:
        rowptr: Row pointer of the CSR adjacency matrix: the edges of node ``v`` are ``rowptr[v]`` to ``rowptr[v + 1]``.
        col: Target nodes of the edges, in ascending order for each node.
        start: First node of each walk.
        length: Number of steps.
        p: Return parameter. Small values make walks return to the previous node.
        q: In-out parameter. Small values make walks move away from the start, large values keep them close to it.

    Shapes:
        - **input:** ``rowptr`` ``[N + 1]``, ``col`` ``[E]``, ``start`` ``[B]``
        - **output:** ``[B, length + 1]``

    Example:
        >>> random_walk(torch.tensor([0, 1, 2, 2]), torch.tensor([1, 2]), torch.tensor([0, 2]), 3, 1.0, 1.0).tolist()
        [[0, 1, 2, 2], [2, 2, 2, 2]]
    """
    device = start.device
    if device.type in _DEVICES_WITHOUT_FLOAT64:
        rowptr, col, start = rowptr.cpu(), col.cpu(), start.cpu()
    num_nodes, edge_ids = rowptr.numel() - 1, None
    if p != 1 or q != 1:
        edge_ids = torch.arange(num_nodes, device=col.device).repeat_interleave(rowptr.diff()) * num_nodes + col
    walk = [start]
    for _ in range(length):
        previous = walk[-2] if len(walk) > 1 and edge_ids is not None else None
        walk.append(_step(rowptr, col, edge_ids, previous, walk[-1], p, q))
    return torch.stack(walk, dim=1).to(device)


def _step(
    rowptr: Tensor, col: Tensor, edge_ids: Tensor | None, previous: Tensor | None, current: Tensor, p: float, q: float
) -> Tensor:
    """Sample the next node of each walk."""
    if col.numel() == 0:
        return current
    first, count = rowptr[current], rowptr[current + 1] - rowptr[current]
    random = torch.rand(current.shape, dtype=torch.float64, device=current.device)
    if previous is None or edge_ids is None:
        edge = first + (random * count).long()
    else:  # inverse transform sampling over the concatenated edges of all walks
        walks = torch.arange(current.numel(), device=current.device).repeat_interleave(count)
        end = count.cumsum(0)
        candidates = torch.arange(walks.numel(), device=current.device) + (first - end + count)[walks]
        bias = _search_bias(edge_ids, previous[walks], col[candidates], rowptr.numel() - 1, p, q)
        cumulative = torch.nn.functional.pad(bias.cumsum(0), (1, 0))
        low, high = cumulative[end - count], cumulative[end]
        sampled = torch.searchsorted(cumulative, low + random * (high - low), right=True) - 1
        edge = first + (sampled - (end - count)).clamp(min=0).minimum(count - 1)
    return torch.where(count > 0, col[edge.clamp(0, col.numel() - 1)], current)


def _search_bias(edge_ids: Tensor, previous: Tensor, following: Tensor, num_nodes: int, p: float, q: float) -> Tensor:
    """Return the unnormalized probability of each following node, given the previous one."""
    wanted = previous * num_nodes + following
    is_edge = edge_ids[torch.searchsorted(edge_ids, wanted).clamp(max=edge_ids.numel() - 1)] == wanted
    bias = torch.full(following.shape, 1 / q, dtype=torch.float64, device=following.device)
    bias[is_edge] = 1
    bias[following == previous] = 1 / p
    return bias


class WalkEmbedding(Node2Vec):
    """PyG's ``Node2Vec`` with :func:`random_walk`, which needs no ``pyg-lib``, and with a graph that is set later."""

    def __init__(
        self,
        num_nodes: int,
        embedding_dim: int,
        walk_length: int,
        context_size: int,
        p: float,
        q: float,
        num_negative_samples: int,
    ) -> None:
        torch.nn.Module.__init__(self)  # the constructor of Node2Vec requires pyg-lib
        self.EPS, self.random_walk_fn = 1e-15, random_walk
        self.num_nodes, self.embedding_dim = num_nodes, embedding_dim
        self.walk_length, self.context_size = walk_length - 1, context_size
        self.walks_per_node, self.num_negative_samples, self.p, self.q = 1, num_negative_samples, p, q
        self.embedding = torch.nn.Embedding(num_nodes, embedding_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize close to 0, as word2vec does. PyG's normal initialization needs many more steps to train."""
        torch.nn.init.uniform_(self.embedding.weight, -0.5 / self.embedding_dim, 0.5 / self.embedding_dim)

    def set_graph(self, edge_index: Tensor) -> None:
        """Set the graph that walks are sampled from."""
        self.rowptr, self.col = cached_on(("walks", self.num_nodes), (edge_index,), lambda: self._to_csr(edge_index))

    def _to_csr(self, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        row, col = coalesce(edge_index, num_nodes=self.num_nodes)
        return index2ptr(row, self.num_nodes), col.contiguous()


class Node2VecNetwork(torch.nn.Module):
    """An MLP of a node embedding that is trained by random walks alone. The MLP sends no gradient to the embedding.

    Walks start from ``batch_size`` nodes in each training step.
    """

    def __init__(self, walks: WalkEmbedding, head: torch.nn.Module, batch_size: int) -> None:
        super().__init__()
        self.walks, self.head, self.batch_size = walks, head, batch_size
        self.extra_loss: Tensor | None = None

    def forward(self, data: Data) -> Tensor:
        num_nodes = self.walks.num_nodes
        if data.get("n_id") is not None or data.get("num_sampled_nodes") is not None:
            raise ValueError("node2vec samples walks from the whole graph. Leave train.num_neighbors out.")
        if data.num_nodes != num_nodes:
            raise ValueError(
                f"node2vec has embeddings of the {num_nodes} nodes that it was trained on, but this graph has "
                f"{data.num_nodes} nodes. Use a model of node features, such as gcn, graphsage or tgnn, for new nodes."
            )
        self.extra_loss = None
        if self.training:
            self.walks.set_graph(data.edge_index)
            start = torch.randperm(num_nodes, device=data.edge_index.device)[: self.batch_size]
            self.extra_loss = self.walks.loss(*self.walks.sample(start))
        out: Tensor = self.head(self.walks.embedding.weight.detach())
        return out


@register_model(
    "node2vec",
    "node",
    summary="Node embeddings from biased random walks, without features",
    paper="Grover and Leskovec 2016, arXiv:1607.00653",
    needs=(),
    search_space={"model.p": (0.25, 0.5, 1.0, 2.0, 4.0), "model.q": (0.25, 0.5, 1.0, 2.0, 4.0)},
    hops=lambda num_layers, hyperparameters: 0,
)
def build_node2vec(
    size: ModelSize,
    *,
    p: Annotated[float, Field(gt=0)] = 1.0,
    q: Annotated[float, Field(gt=0)] = 1.0,
    walk_length: Annotated[int, Field(ge=2)] = 20,
    context: Annotated[int, Field(ge=2)] = 10,
    negatives: PositiveInt = 1,
    walk_batch: PositiveInt = 256,
) -> Node2VecNetwork:
    """Build a :class:`WalkEmbedding` of ``hidden_channels`` and an MLP of ``num_layers`` layers.

    The paper has 128 channels and one layer, logistic regression.
    """
    if size.shape.nodes is None:
        raise ValueError(
            "node2vec trains an embedding of each node of one graph, but this data has many graphs. Use a model of "
            "node features, such as gcn, graphsage or tgnn."
        )
    if walk_length < context:
        raise ValueError(f"model.context is {context}, but must be at most model.walk_length, {walk_length}.")
    walks = WalkEmbedding(size.shape.nodes, size.hidden_channels, walk_length, context, p, q, negatives)
    channels = [*[size.hidden_channels] * size.num_layers, size.out_channels]
    head = MLP(channels, dropout=size.dropout, norm=None)
    return Node2VecNetwork(walks, head, walk_batch)
