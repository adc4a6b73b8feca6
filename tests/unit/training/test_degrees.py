"""Degrees of graphs equal those of a batch of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.utils import degree

from tgnn.data.dataset_info import DatasetInfo
from tgnn.data.graph_dataset import GraphDataset
from tgnn.training.prepare import infer_shape


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_degrees_equal_those_of_the_batch(directed, seed):
    random = np.random.default_rng(seed)
    nodes, edges = random.integers(1, 9, 12), random.integers(0, 15, 12)
    ends = random.integers(0, np.repeat(nodes, edges), (2, edges.sum()))  # loops and edges given twice are among them
    arrays = {"num_nodes": nodes, "num_edges": edges, "edge_index": ends, "directed": directed, "y": np.zeros(12)}
    graphs = GraphDataset(arrays)
    for numbers in (torch.tensor([7, 2, 11]), torch.arange(12), torch.tensor([], dtype=torch.int64)):
        batch = graphs.batch(numbers)
        wanted = degree(batch.edge_index[1], batch.num_nodes, torch.long)
        assert torch.equal(graphs.degrees(numbers), wanted)
    graphs.info = DatasetInfo("", "graph", "classes", "accuracy", 2, "memory")
    counts = infer_shape(graphs, torch.arange(5)).degrees
    assert counts is not None
    assert sum(counts) == nodes[:5].sum()
    assert sum(number * count for number, count in enumerate(counts)) == edges[:5].sum() * (1 if directed else 2)


def test_graphs_without_edges_have_no_degrees():
    graphs = GraphDataset({"num_nodes": [2, 1], "y": [0, 1]})
    assert graphs.degrees(torch.tensor([0, 1])).tolist() == [0, 0, 0]
