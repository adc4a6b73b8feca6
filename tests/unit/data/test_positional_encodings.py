"""Positional encodings and relative positions equal those of PyG's transforms."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE, Cartesian, Distance
from torch_geometric.utils import erdos_renyi_graph, to_undirected

from tgnn.data.graph_dataset import GraphDataset, pack
from tgnn.data.positional_encodings import with_positional_encoding, with_relative_positions


def make_graphs(categorical: bool = True, directed: bool = False) -> GraphDataset:
    """Make graphs of several sizes, with an isolated node each."""
    torch.manual_seed(0)
    graphs = []
    for size in (7, 3, 7, 12):
        path = torch.stack([torch.arange(size - 1), torch.arange(1, size)])
        random = erdos_renyi_graph(size, 0.3, directed=directed)
        edge_index = torch.cat([path, random[:, (random[0] - random[1]).abs() > 1]], dim=1)
        x = torch.randint(5, (size + 1, 2)) if categorical else torch.rand(size + 1, 2)
        graphs.append(
            Data(
                x=x,
                pos=torch.rand(size + 1, 2),
                edge_index=edge_index if directed else to_undirected(edge_index),
                y=torch.zeros(1),
            )
        )
    return pack(graphs)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("channels", [1, 2, 5, 20])
def test_random_walks_equal_pyg(directed, channels):
    graphs = make_graphs(directed=directed)
    encoded = with_positional_encoding(graphs, "random-walk", channels)
    for index in range(len(graphs)):
        expected = AddRandomWalkPE(channels, attr_name="pe")(graphs[index]).pe
        torch.testing.assert_close(encoded[index].x[:, 2:], expected, atol=1e-6, rtol=0)
        assert torch.equal(encoded[index].x[:, :2].long(), graphs[index].x)
    assert (encoded.num_categorical, encoded.num_encodings, encoded.random_signs) == (2, channels, False)


def test_eigenvectors_equal_pyg_up_to_the_sign():
    graphs = make_graphs(categorical=False)[[0, 2, 3]]
    encoded = with_positional_encoding(graphs, "laplacian", 3)
    for index in range(len(graphs)):
        expected = AddLaplacianEigenvectorPE(3, attr_name="pe", is_undirected=True)(graphs[index]).pe
        torch.testing.assert_close(encoded[index].x[:, 2:].abs(), expected.abs(), atol=1e-5, rtol=0)
    assert (encoded.num_categorical, encoded.num_encodings, encoded.random_signs) == (0, 3, True)


def test_graphs_with_few_nodes_get_zeros():
    encoded = with_positional_encoding(make_graphs(), "laplacian", 6)
    assert bool((encoded[1].x[:, -3:] == 0).all())
    assert bool((encoded[1].x[:, -6:-3] != 0).any())


def test_encodings_are_not_hashed_and_stored():
    graphs = make_graphs(categorical=False)
    assert torch.equal(with_positional_encoding(graphs, "random-walk", 4).tensors()["x"], graphs.x)
    with pytest.raises(ValueError, match="the graphs have no edges"):
        with_positional_encoding(GraphDataset({"num_nodes": [2], "y": [0]}), "random-walk", 4)


@pytest.mark.parametrize("stored", [False, True])
def test_relative_positions_equal_pyg(stored):
    graphs = make_graphs(directed=True)
    if stored:
        graphs.edge_attr = torch.rand(graphs.edge_index.size(1), 1)
    edges = with_relative_positions(graphs)
    for index in range(len(graphs)):
        expected = Distance(norm=False)(Cartesian(norm=False)(graphs[index])).edge_attr
        torch.testing.assert_close(edges[index].edge_attr, expected)


def test_data_without_positions_or_with_bonds_is_refused():
    graphs = make_graphs(directed=True)
    graphs.edge_attr = torch.zeros(graphs.edge_index.size(1), 1, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"needs numeric edge features; set data\.edge_features=false"):
        with_relative_positions(graphs)
    graphs.pos = None
    with pytest.raises(ValueError, match="needs graphs with node positions"):
        with_relative_positions(graphs)
