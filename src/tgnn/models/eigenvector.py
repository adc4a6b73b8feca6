"""The first non-constant eigenvector of the graph Laplacian (Fiedler vector), which DGN uses as a direction.

Its sign is arbitrary. If its eigenvalue is not simple, as in a cycle, it is any unit vector of the eigenspace and may
depend on the order of the nodes. The result is reproducible for a graph, whatever other graphs are computed with it:
graphs of the same size are solved together, without padding.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from tgnn.data.graph_dataset import GraphDataset
from tgnn.utils.progress import bar

_MAX_ENTRIES = 2**18  # entries of the dense matrices that are solved together
_MAX_NODES = 5_000  # a dense eigendecomposition of a larger graph takes minutes and GB
_ZERO = 1e-9  # eigenvalues below this fraction of the largest degree belong to constant vectors


def add_eigenvectors(graphs: GraphDataset | Data) -> None:
    """Add the attribute ``eigenvector`` ``[N, 1]`` to a data set of graphs, in place. A single graph is unchanged."""
    if not isinstance(graphs, GraphDataset) or graphs.edge_index is None:
        return
    parts, order = [], []
    with bar("computing eigenvectors", len(graphs)) as tick:
        for indices in batches_of_equal_size(graphs.num_nodes):
            batch = graphs.batch(indices)
            parts.append(_solve(batch.edge_index, len(indices), int(graphs.num_nodes[indices[0]])))
            order.append(indices.repeat_interleave(graphs.num_nodes[indices]))
            tick(len(indices))
    permutation = torch.cat(order).argsort(stable=True)
    graphs.add("eigenvector", torch.cat(parts)[permutation])


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


def batches_of_equal_size(sizes: Tensor) -> Iterator[Tensor]:
    """Yield the indices of graphs with the same number of nodes, in ascending order and in batches of limited size.

    Args:
        sizes: Number of nodes of each graph. Empty graphs are left out. A graph that is too large for a dense
            eigendecomposition raises an error.
    """
    if len(sizes) and int(sizes.max()) > _MAX_NODES:
        raise ValueError(
            f"Graph {int(sizes.argmax())} has {int(sizes.max()):,} nodes, but dgn needs a dense eigendecomposition, "
            f"which supports up to {_MAX_NODES:,} nodes. Use gin or gcn."
        )
    for size, same in enumerate(torch.split(sizes.argsort(stable=True), torch.bincount(sizes).tolist())):
        if size > 0 and len(same):
            yield from torch.split(same, max(_MAX_ENTRIES // size**2, 1))


def _solve(edge_index: Tensor, count: int, size: int) -> Tensor:
    """Return the entries ``[count * size, 1]`` of the eigenvectors with the smallest positive eigenvalue, or 0.

    Edges are treated as undirected and unweighted, and self-loops are ignored. In a disconnected graph the eigenvector
    is that of one component.

    Args:
        edge_index: Edges of the batch.
        count: Number of graphs.
        size: Number of nodes of each graph.
    """
    source, target = edge_index
    adjacency = torch.zeros(count * size, size, dtype=torch.float64)
    adjacency[source, target % size] = 1
    adjacency[target, source % size] = 1
    adjacency = adjacency.view(count, size, size)
    adjacency.diagonal(dim1=1, dim2=2).zero_()
    degrees = adjacency.sum(2)
    values, vectors = torch.linalg.eigh(torch.diag_embed(degrees) - adjacency)
    first = (values <= _ZERO * degrees.amax(1, keepdim=True)).sum(1)
    column = first.clamp(max=size - 1).view(-1, 1, 1).expand(-1, size, 1)
    selected = torch.where((first < size).view(-1, 1, 1), vectors.gather(2, column), 0.0)
    return selected.reshape(-1, 1).float()
