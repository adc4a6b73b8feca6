"""Graphs for the tests of graphs on disk."""

from __future__ import annotations

import torch
from torch_geometric.data import Data


def random_graph(nodes: int = 300, edges: int = 4000, width: int = 7, seed: int = 0) -> Data:
    """Draw a graph with self-loops, duplicate edges, isolated nodes, and hubs that have most of the edges."""
    generator = torch.Generator().manual_seed(seed)
    power = torch.rand(2, edges, generator=generator) ** 3
    part = torch.randint(0, 4, (nodes,), generator=generator)
    return Data(
        x=torch.randn(nodes, width, generator=generator),
        edge_index=(power * (nodes - 10)).long(),
        y=torch.randint(-1, 4, (nodes,), generator=generator),
        train_mask=part == 1,
        val_mask=part == 2,
        test_mask=part == 3,
        num_nodes=nodes,
    )


def by_destination(edge_index: torch.Tensor) -> torch.Tensor:
    """Sort edges as they are stored on disk."""
    return edge_index[:, torch.sort(edge_index[1], stable=True).indices]


def same(one: Data, other: Data) -> None:
    """Assert that everything that a graph on disk stores is equal."""
    assert one.num_nodes == other.num_nodes
    assert torch.equal(one.edge_index, other.edge_index)
    for name in ("x", "y", "train_mask", "val_mask", "test_mask"):
        a, b = one.get(name), other.get(name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert a.dtype == b.dtype, name
            assert torch.equal(a.to_dense().nan_to_num(-7), b.to_dense().nan_to_num(-7)), name
    ids = [None if graph.get("node_id") is None else graph.node_id.tolist() for graph in (one, other)]
    assert ids[0] == ids[1]
