"""The first eigenvector of a graph's Laplacian that is not flat: along it, nodes that are far apart differ most.

Its sign is arbitrary. So is more where its eigenvalue is not simple, as in a ring, whose nodes have no first direction:
then it is any unit vector of the eigenspace, and it may change with the order of nodes. Whichever the solver finds, it
finds again: graphs of one size are solved together and nothing is padded, so that no other graph has a say in it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from tgnn.data.graph_dataset import GraphDataset
from tgnn.utils.progress import bar

_AT_ONCE = 2**18  # entries of dense matrices
_LARGEST = 5_000  # nodes; all eigenvectors of a larger graph take minutes, and GB
_ZERO = 1e-9  # an eigenvalue below that share of the largest degree is one of a flat vector


def add_eigenvectors(graphs: GraphDataset | Data) -> None:
    """Gives many graphs their ``eigenvector``, ``[N, 1]``; one alone is left as it is."""
    if not isinstance(graphs, GraphDataset) or graphs.edge_index is None:
        return
    parts, order = [], []
    with bar("finding eigenvectors", len(graphs)) as tick:
        for numbers in alike(graphs.num_nodes):
            batch = graphs.batch(numbers)
            parts.append(_dense(batch.edge_index, len(numbers), int(graphs.num_nodes[numbers[0]])))
            order.append(numbers.repeat_interleave(graphs.num_nodes[numbers]))
            tick(len(numbers))
    place = torch.cat(order).argsort(stable=True)
    graphs.add("eigenvector", torch.cat(parts)[place])


def eigenvectors(data: Data) -> Tensor:
    """The same of each graph of a batch, on the CPU."""
    edge_index, batch = data.edge_index.cpu(), data.batch.cpu()
    sizes = torch.bincount(batch, minlength=data.num_graphs)
    out = torch.zeros(len(batch), 1)
    for numbers in alike(sizes):
        nodes = torch.isin(batch, numbers)
        edges, _ = subgraph(nodes, edge_index, relabel_nodes=True, num_nodes=len(batch))
        out[nodes] = _dense(edges, len(numbers), int(sizes[numbers[0]]))
    return out


def alike(sizes: Tensor) -> Iterator[Tensor]:
    """Numbers of graphs, rising, in pieces of one size.

    Args:
        sizes: Nodes of each graph; one too large for dense eigenvectors is an error, one of none is left out.
    """
    if len(sizes) and int(sizes.max()) > _LARGEST:
        raise ValueError(
            f"graph {int(sizes.argmax())} has {int(sizes.max()):,} nodes, and dgn reads a dense eigenvector of each "
            f"graph, which is for up to {_LARGEST:,}: gin or gcn would do"
        )
    for size, same in enumerate(torch.split(sizes.argsort(stable=True), torch.bincount(sizes).tolist())):
        if size > 0 and len(same):
            yield from torch.split(same, max(_AT_ONCE // size**2, 1))


def _dense(edge_index: Tensor, count: int, size: int) -> Tensor:
    """For each node, its entry of the eigenvector whose eigenvalue is the smallest above 0; 0 if there is none.

    Edges count once and both ways, loops not at all. A graph of several parts has the direction of one of them.

    Args:
        edge_index: Of graphs side by side.
        count: How many there are.
        size: Nodes of each of them.
    """
    source, target = edge_index
    adjacent = torch.zeros(count * size, size, dtype=torch.float64)
    adjacent[source, target % size] = 1
    adjacent[target, source % size] = 1
    adjacent = adjacent.view(count, size, size)
    adjacent.diagonal(dim1=1, dim2=2).zero_()
    degrees = adjacent.sum(2)
    values, vectors = torch.linalg.eigh(torch.diag_embed(degrees) - adjacent)
    first = (values <= _ZERO * degrees.amax(1, keepdim=True)).sum(1)
    chosen = first.clamp(max=size - 1).view(-1, 1, 1).expand(-1, size, 1)
    found = torch.where((first < size).view(-1, 1, 1), vectors.gather(2, chosen), 0.0)
    return found.reshape(-1, 1).float()
