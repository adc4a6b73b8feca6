"""Exact inference block by block equals the model on the whole graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tgnn.nn import TGNN
from tgnn.nn.layerwise_inference import infer_layerwise
from tgnn.ops.graph import group

NODES = 60


def make_graph():
    """Edges with loops, repeated edges, nodes without any, and a hub."""
    generator = torch.Generator().manual_seed(3)
    edges = torch.randint(NODES - 5, (2, 300), generator=generator)
    hub = torch.stack([torch.arange(50), torch.full((50,), 7)])
    return torch.cat([edges, hub, torch.tensor([[4, 9, 9], [4, 9, 9]])], dim=1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rank": 0},
        {"low_order": None},
        {"low_order": "mean"},
        {"low_order": "gcn"},
        {"factors": "weighted"},
        {"factors": "weighted", "low_order": "gcn", "root_weight": True},
        {"factors": "tempered"},
        {"mix": "scalar"},
        {"mix": "node"},
        {"norm": "batch_norm"},
        {"norm": "layer_norm", "norm_kwargs": {"mode": "node"}, "jk": "cat"},
        {"jk": "last"},
        {"jk": "max", "num_layers": 3},
        {"jk": "lstm"},
        {"add_self_loops": False},
        {"act": None},
        {"dropout": 0.5, "input_dropout": 0.5},
        {"low_order": "gated_mean", "factors": "bounded", "degree_exponent": 0.5, "two_ended": True},
        {
            "low_order": "gated_sum",
            "residual": True,
            "ffn": True,
            "norm": "batch_norm",
            "high_scale": 0.1,
            "root_weight": True,
        },
        {"residual": True, "jk": "cat", "num_layers": 3},
        {"ffn": True, "rank": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize("edges_at_once", [1, 37, 10_000])
def test_blocks_give_what_the_whole_gives(options, edges_at_once, tmp_path):
    torch.manual_seed(0)
    edge_index, x = make_graph(), torch.randn(NODES, 6)
    gnn = TGNN(6, 8, **{"num_layers": 2, "out_channels": 3, "rank": 4, **options}).eval()
    in_edges = group(edge_index[1], edge_index[0], NODES, torch.int32)
    progress = []
    out = infer_layerwise(
        gnn, lambda a, b: x[a:b], in_edges, tmp_path, lambda *done: progress.append(done), edges_at_once=edges_at_once
    )
    assert isinstance(out, np.memmap)
    torch.testing.assert_close(torch.from_numpy(out), gnn(x, edge_index).detach(), rtol=1e-5, atol=1e-6)
    assert progress[-1] == (gnn.num_layers * NODES, gnn.num_layers * NODES)


def test_rows_are_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("tgnn.nn.layerwise_inference.NODES_AT_ONCE", 7)
    edge_index, x, sizes = make_graph(), torch.randn(NODES, 6), []

    def read(begin, end):
        sizes.append(end - begin)
        return x[begin:end]

    gnn = TGNN(6, 8, num_layers=2, out_channels=3, rank=4).eval()
    out = infer_layerwise(gnn, read, group(edge_index[1], edge_index[0], NODES, torch.int32), tmp_path)
    assert max(sizes) == 7
    torch.testing.assert_close(torch.from_numpy(out), gnn(x, edge_index).detach(), rtol=1e-5, atol=1e-6)


def test_norms_over_all_nodes_and_edge_states_are_refused(tmp_path):
    edge_index = make_graph()
    gnn = TGNN(6, 8, num_layers=2, out_channels=3, rank=4, norm="graph_norm").eval()
    in_edges = group(edge_index[1], edge_index[0], NODES, torch.int32)
    with pytest.raises(ValueError, match="all nodes at once"):
        infer_layerwise(gnn, lambda a, b: None, in_edges, tmp_path)
    gnn = TGNN(6, 8, num_layers=2, out_channels=3, rank=4, residual=True, norm="graph_norm").eval()
    with pytest.raises(ValueError, match="all nodes at once"):
        infer_layerwise(gnn, lambda a, b: None, in_edges, tmp_path)
    gnn = TGNN(6, 8, num_layers=2, out_channels=3, rank=4, low_order="gated_sum", update_edges=True).eval()
    with pytest.raises(ValueError, match="stores no edge states"):
        infer_layerwise(gnn, lambda a, b: None, in_edges, tmp_path)
