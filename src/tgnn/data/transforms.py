"""Features for nodes that have none."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.sparse import csr


def with_degrees(graphs: GraphDataset) -> GraphDataset:
    """The degree of each node as its only feature, a whole number: an embedding of it is one-hot times a matrix.

    Example:
        >>> arrays = {"num_nodes": [2, 1], "num_edges": [1, 0], "edge_index": [[0], [1]], "y": [0, 1]}
        >>> with_degrees(GraphDataset(arrays | {"directed": False})).x.tolist()
        [[1], [1], [0]]
    """
    if graphs.edge_index is None:
        raise ValueError("degrees need edges, and these graphs have none")
    arrays = graphs.arrays()
    first = graphs.num_nodes.cumsum(0) - graphs.num_nodes
    counts = torch.from_numpy(arrays["num_edges"].astype(np.int64))
    ends = graphs.edge_index + first.repeat_interleave(counts)
    into = ends[1] if graphs.directed else ends.flatten()
    degree = torch.bincount(into, minlength=int(graphs.num_nodes.sum()))
    return GraphDataset(arrays | {"x": degree.unsqueeze(1).numpy()})


def identity(n: int) -> Tensor:
    """One feature for each node, its own: a sparse matrix; times a matrix it is an embedding.

    Example:
        >>> identity(2).to_dense().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return csr(torch.arange(n + 1), torch.arange(n), torch.ones(n), (n, n))
