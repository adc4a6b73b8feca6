"""Positional encodings of nodes, and relative positions as edge features, for data sets of many graphs.

They equal PyG's transforms ``AddRandomWalkPE`` and ``AddLaplacianEigenvectorPE``, which process one graph at a time.
Here, graphs of the same size are processed together with dense matrices, without padding. ZINC's 12,000 molecules
take about a second.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from tgnn.data.graph_dataset import GraphDataset
from tgnn.utils.progress import bar

_MAX_ENTRIES = 2**18  # entries of the dense matrices that are processed together
_MAX_NODES = 5_000  # a dense eigendecomposition of a larger graph takes minutes and GB


# ---- encodings of nodes ----------------------------------------------------------------------------------------


def with_positional_encoding(graphs: GraphDataset, name: str, channels: int) -> GraphDataset:
    """Return a copy whose ``x`` has the positional encoding of each node as its last columns.

    If ``x`` has categories, they stay categories (``num_categorical``). Models embed them, and apply a linear map to
    the other columns. The signs of eigenvectors are arbitrary, so that the training loop draws them anew in each epoch
    (``random_signs``).

    Args:
        graphs: The graphs.
        name: ``"random-walk"`` or ``"laplacian"``, see :func:`random_walk_encoding` and :func:`laplacian_encoding`.
        channels: Number of columns: steps of the random walk, or eigenvectors.

    Example:
        >>> arrays = {"num_nodes": [2, 1], "num_edges": [1, 0], "edge_index": [[0], [1]], "y": [0, 1]}
        >>> graphs = GraphDataset(arrays | {"directed": False, "x": [[4], [5], [6]]})
        >>> with_positional_encoding(graphs, "random-walk", 2).x.tolist()
        [[4.0, 0.0, 1.0], [5.0, 0.0, 1.0], [6.0, 0.0, 0.0]]
    """
    if graphs.edge_index is None:
        raise ValueError("positional encodings cannot be computed, because the graphs have no edges")
    encode = random_walk_encoding if name == "random-walk" else laplacian_encoding
    compute = partial(encode, channels=channels)
    encoding = compute_by_size(graphs, compute, f"computing {name} encodings", channels)
    dataset = copy.copy(graphs)
    if graphs.x is not None:
        x = graphs.x.reshape(len(graphs.x), -1)
        dataset.num_categorical = 0 if x.is_floating_point() else x.size(1)
        encoding = torch.cat([x.float(), encoding], dim=1)
    dataset.x = encoding
    dataset.num_encodings, dataset.random_signs = channels, name == "laplacian"
    return dataset


def random_walk_encoding(edge_index: Tensor, count: int, size: int, channels: int) -> Tensor:
    """Compute the probabilities that a random walk is back at its first node after 1, 2, ... ``channels`` steps.

    The diagonal of :math:`P^{a+b}` is computed from :math:`P^a` and :math:`P^b`, which halves the number of matrix
    products. Edge weights are not used. The result is ``[count * size, channels]``.
    """
    source, target = edge_index
    walk = torch.zeros(count * size, size)
    walk.index_put_((source, target % size), torch.ones(len(source)), accumulate=True)
    walk = (walk / walk.sum(1, keepdim=True).clamp(min=1)).view(count, size, size)
    powers = [walk]
    while 2 * len(powers) < channels:
        powers.append(powers[-1] @ walk)
    columns = [walk.diagonal(dim1=1, dim2=2)]
    for step in range(2, channels + 1):
        columns.append((powers[(step + 1) // 2 - 1] * powers[step // 2 - 1].mT).sum(2))
    return torch.stack(columns, dim=2).view(count * size, channels)


def laplacian_encoding(edge_index: Tensor, count: int, size: int, channels: int) -> Tensor:
    """Compute the eigenvectors of the normalized Laplacian with the smallest eigenvalues, without the first.

    Edges are treated as undirected and unweighted, and self-loops are ignored. A graph with too few nodes gets zeros in
    the last columns. Shapes are those of :func:`random_walk_encoding`.
    """
    adjacency = undirected_adjacency(edge_index, count, size)
    scale = adjacency.sum(2).rsqrt()
    scale[scale.isinf()] = 0
    laplacian = torch.eye(size, dtype=adjacency.dtype) - scale.unsqueeze(2) * adjacency * scale.unsqueeze(1)
    vectors = torch.linalg.eigh(laplacian)[1][:, :, 1 : channels + 1]
    encoding = torch.zeros(count, size, channels)
    encoding[:, :, : vectors.size(2)] = vectors
    return encoding.view(count * size, channels)


# ---- dense matrices of graphs of the same size -----------------------------------------------------------------


def compute_by_size(
    graphs: GraphDataset, compute: Callable[[Tensor, int, int], Tensor], description: str, channels: int = 1
) -> Tensor:
    """Compute values of all nodes, ``[N, channels]``, from batches of graphs with the same number of nodes.

    ``compute`` is called with ``edge_index``, the number of graphs, and their number of nodes. It returns the values of
    the nodes of the batch.
    """
    values, order = [torch.empty(0, channels)], [torch.empty(0, dtype=torch.int64)]
    with bar(description, len(graphs)) as tick:
        for indices in batches_of_equal_size(graphs.num_nodes):
            values.append(compute(graphs.batch(indices).edge_index, len(indices), int(graphs.num_nodes[indices[0]])))
            order.append(indices.repeat_interleave(graphs.num_nodes[indices]))
            tick(len(indices))
    return torch.cat(values)[torch.cat(order).argsort(stable=True)]


def batches_of_equal_size(sizes: Tensor) -> Iterator[Tensor]:
    """Yield the indices of graphs with the same number of nodes, in ascending order and in batches of limited size."""
    if len(sizes) and int(sizes.max()) > _MAX_NODES:
        raise ValueError(
            f"Graph {int(sizes.argmax())} has {int(sizes.max()):,} nodes, but dense matrices, which dgn and positional "
            f"encodings need, support up to {_MAX_NODES:,} nodes. Use gin or gcn without positional encodings."
        )
    for size, same in enumerate(torch.split(sizes.argsort(stable=True), torch.bincount(sizes).tolist())):
        if size > 0 and len(same):
            yield from torch.split(same, max(_MAX_ENTRIES // size**2, 1))


def undirected_adjacency(edge_index: Tensor, count: int, size: int) -> Tensor:
    """Return the adjacency matrices ``[count, size, size]`` without directions, weights and self-loops, in float64."""
    source, target = edge_index
    adjacency = torch.zeros(count * size, size, dtype=torch.float64)
    adjacency[source, target % size] = 1
    adjacency[target, source % size] = 1
    adjacency = adjacency.view(count, size, size)
    adjacency.diagonal(dim1=1, dim2=2).zero_()
    return adjacency


# ---- features of edges -----------------------------------------------------------------------------------------


def with_relative_positions(graphs: GraphDataset) -> GraphDataset:
    """Return a copy whose edge features also have the position of the source relative to the target, and its length.

    Example:
        >>> arrays = {"num_nodes": [2], "num_edges": [1], "edge_index": [[0], [1]], "pos": [[3.0, 4.0], [0.0, 0.0]]}
        >>> with_relative_positions(GraphDataset(arrays | {"y": [0]})).edge_attr.tolist()
        [[3.0, 4.0, 5.0]]
    """
    position = graphs.pos
    if position is None or graphs.edge_index is None or not graphs.directed:
        raise ValueError(
            "data.relative_positions needs graphs with node positions and with stored edges of both directions"
        )
    stored = graphs.edge_attr
    if stored is not None and not stored.is_floating_point():
        raise ValueError("data.relative_positions needs numeric edge features; set data.edge_features=false")
    first = torch.cat([graphs.num_nodes.new_zeros(1), graphs.num_nodes.cumsum(0)[:-1]])
    source, target = graphs.edge_index + first.repeat_interleave(graphs.num_edges)
    relative = position[source] - position[target]
    columns = [relative, relative.norm(dim=1, keepdim=True)]
    dataset = copy.copy(graphs)
    dataset.edge_attr = torch.cat(columns if stored is None else [stored.reshape(len(stored), -1), *columns], dim=1)
    return dataset
