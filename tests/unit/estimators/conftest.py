"""Small graphs, and one thread for training."""

from __future__ import annotations

from collections.abc import Iterator

import networkx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import coalesce

from tgnn.data.catalog.embedded import karate


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: small graphs are slower with two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def club() -> Data:
    """The karate club without its mask; edges in the order of a matrix."""
    data = karate()
    return Data(x=data.x, edge_index=coalesce(data.edge_index), y=data.y)


@pytest.fixture
def planted() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, edges, and a number of each node: its first feature, and the mean second one of its neighbors."""
    random = np.random.RandomState(0)
    edges = random.randint(300, size=(2, 900))
    edges = np.concatenate([edges, edges[::-1]], axis=1)
    x = random.randn(300, 3)
    degree = np.bincount(edges[1], minlength=300)
    y = x[:, 0] + np.bincount(edges[1], weights=x[edges[0], 1], minlength=300) / np.maximum(degree, 1)
    return x, edges, y


def rings(count: int = 40, seed: int = 0) -> list[Data]:
    """Rings and paths of 4 to 9 nodes: class 1 and 0. The features are the same everywhere."""
    random = np.random.RandomState(seed)
    graphs = []
    for number in range(count):
        size = int(random.randint(4, 10))
        nodes = torch.arange(size)
        edges = torch.stack([nodes, (nodes + 1) % size])[:, : size - 1 + number % 2]
        both = torch.cat([edges, edges.flip(0)], dim=1)
        graphs.append(Data(x=torch.ones(size, 2), edge_index=both, y=torch.tensor([number % 2])))
    return graphs


def as_networkx(data: Data, y: bool = True) -> networkx.Graph:
    graph = networkx.Graph()
    for node in range(data.num_nodes):
        graph.add_node(node, x=data.x[node].numpy(), **({"y": int(data.y[node])} if y else {}))
    graph.add_edges_from(data.edge_index.t().tolist())
    return graph
