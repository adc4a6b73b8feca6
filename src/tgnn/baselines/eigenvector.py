"""The first eigenvector of a graph's Laplacian that is not flat: along it, nodes that are far apart differ most.

Its sign is arbitrary. So is more where its eigenvalue is not simple, as in a ring, whose nodes have no first direction:
then it is any unit vector of the eigenspace, whichever the solver finds, and it may change with the order of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph, to_dense_adj, to_dense_batch

from tgnn.data.formats.packed import PackedGraphs
from tgnn.data.progress import bar

_AT_ONCE = 2**18  # entries of dense matrices
_ZERO = 1e-9  # an eigenvalue below that share of the largest degree is one of a flat vector


def add_eigenvectors(graphs: PackedGraphs | Data) -> None:
    """Gives many graphs their ``eigenvector``, ``[N, 1]``; one alone is left as it is."""
    if not isinstance(graphs, PackedGraphs) or graphs.edge_index is None:
        return
    parts, order = [], []
    with bar("finding eigenvectors", len(graphs)) as tick:
        for numbers in alike(graphs.num_nodes):
            batch = graphs.batch(numbers)
            parts.append(_dense(batch.edge_index, batch.batch, len(numbers)))
            order.append(numbers.repeat_interleave(graphs.num_nodes[numbers]))
            tick(len(numbers))
    place = torch.cat(order).argsort(stable=True)
    graphs.add("eigenvector", torch.cat(parts)[place])


def eigenvectors(data: Data) -> Tensor:
    """The same of each graph of a batch, on the CPU."""
    edge_index, batch = data.edge_index.cpu(), data.batch.cpu()
    out = torch.zeros(len(batch), 1)
    for numbers in alike(torch.bincount(batch, minlength=data.num_graphs)):
        nodes = torch.isin(batch, numbers)
        edges, _ = subgraph(nodes, edge_index, relabel_nodes=True, num_nodes=len(batch))
        graph = torch.empty(data.num_graphs, dtype=torch.int64)
        graph[numbers] = torch.arange(len(numbers))
        out[nodes] = _dense(edges, graph[batch[nodes]], len(numbers))
    return out


def alike(sizes: Tensor) -> Iterator[Tensor]:
    """Numbers of graphs, in pieces of about the same size; little is padded."""
    order = sizes.argsort(descending=True)[: int((sizes > 0).sum())]
    start = 0
    while start < len(order):
        largest = int(sizes[order[start]])
        end = start + max(_AT_ONCE // max(largest, 1) ** 2, 1)
        yield order[start:end].sort().values
        start = end


def _dense(edge_index: Tensor, batch: Tensor, count: int) -> Tensor:
    """For each node, its entry of the eigenvector whose eigenvalue is the smallest above 0; 0 if there is none.

    Edges count once and both ways, loops not at all. A graph of several parts has the direction of one of them.
    """
    _, there = to_dense_batch(batch, batch, batch_size=count)
    edges = to_dense_adj(edge_index, batch, max_num_nodes=there.size(1), batch_size=count)
    adjacent = ((edges + edges.transpose(1, 2)) > 0).double()
    adjacent.diagonal(dim1=1, dim2=2).zero_()
    degrees = adjacent.sum(2)
    beyond = 2 * degrees.amax() + 1  # of nodes that only pad: larger than any other eigenvalue
    values, vectors = torch.linalg.eigh(torch.diag_embed(torch.where(there, degrees, beyond)) - adjacent)
    first = (values < _ZERO * beyond).sum(1)
    has = first < there.sum(1)
    chosen = first.clamp(max=there.size(1) - 1).view(-1, 1, 1).expand(-1, there.size(1), 1)
    found = torch.where(has.view(-1, 1, 1), vectors.gather(2, chosen), 0.0)
    return found[there].float()
