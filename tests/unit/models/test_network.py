"""Networks around PyG models: sparse input, edge inputs, explainers."""

from __future__ import annotations

import copy

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.models import GCN, MLP

from tgnn.models import MODELS, DataShape, build_model, node2vec
from tgnn.models.mixhop import MixHop
from tgnn.models.node_network import accept_sparse
from tgnn.models.registration import ModelSize
from tgnn.nn.feature_maps import FeatureLinear

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 4, 5], [1, 0, 2, 1, 3, 2, 5, 4]])


@pytest.mark.parametrize(
    ("make", "maps"),
    [
        (lambda: GCN(6, 6, 3, 2, bias=True), 1),
        (lambda: MLP([6, 6, 6, 2], norm=None), 1),
        (
            lambda: MixHop(ModelSize(DataShape("node", 6, None, 3), 2, 2, 0.0), (0, 1, 2)),
            3,
        ),  # the second layer is 6 wide as well
    ],
)
def test_accept_sparse_keeps_the_initial_weights(make, maps):
    torch.manual_seed(0)
    given = make().eval()
    changed = accept_sparse(copy.deepcopy(given), 6)
    x = torch.randn(6, 6)
    edges = () if isinstance(given, MLP) else (EDGES,)
    wanted = given(x, *edges)
    torch.testing.assert_close(changed(x, *edges), wanted)
    torch.testing.assert_close(changed(x.to_sparse_csr(), *edges), wanted)
    found = [name for name, module in changed.named_modules() if isinstance(module, FeatureLinear)]
    assert len(found) == maps
    assert all(name.startswith(("convs.0", "lins.0")) for name in found)


def weighted() -> list[Data]:
    """Two undirected graphs with edge weights."""
    torch.manual_seed(1)
    one = EDGES[:, EDGES[0] < EDGES[1]]
    graphs = []
    for _ in range(2):
        weight = torch.rand(one.size(1)).repeat(2)
        graphs.append(Data(torch.randn(6, 4), torch.cat([one, one.flip(0)], 1), edge_weight=weight))
    return graphs


@pytest.mark.parametrize("name", [n for n, model in MODELS.items() if "edge weights" in model.graph_uses])
def test_edge_weights_of_graphs_are_used(name):
    torch.manual_seed(0)
    model = build_model(name, DataShape("graph", 4, None, 2, edge_weights=True), 8, 2, 0.0, {}).eval()
    batch = Batch.from_data_list(weighted())
    before = model(batch)
    batch.edge_weight = batch.edge_weight / 3
    assert not torch.allclose(model(batch), before, atol=1e-4)


def test_gcn_of_weighted_graphs_follows_its_equation():
    torch.manual_seed(0)
    model = build_model("gcn", DataShape("graph", 4, None, 2, edge_weights=True), 8, 1, 0.0, {}).eval()
    graphs = weighted()
    out = model(Batch.from_data_list(graphs))
    for number, data in enumerate(graphs):
        matrix = torch.eye(6)
        matrix[data.edge_index[1], data.edge_index[0]] += data.edge_weight
        root = torch.diag(matrix.sum(1) ** -0.5)
        x, conv = model.encoder(data.x), model.layers[0]
        new = model.norms[0](root @ matrix @ root @ conv.lin(x) + conv.bias).relu() + x
        torch.testing.assert_close(out[number], model.head(new.mean(0)), rtol=1e-4, atol=1e-5)


def test_walks_on_a_device_without_float64(monkeypatch):
    """The CPU stands in for such a device."""
    rowptr, col, start = torch.tensor([0, 1, 3, 4]), torch.tensor([1, 0, 2, 1]), torch.arange(3)
    walks = []
    for devices in ((), ("cpu",)):
        monkeypatch.setattr(node2vec, "_DEVICES_WITHOUT_FLOAT64", devices)
        torch.manual_seed(0)
        walks.append(node2vec.random_walk(rowptr, col, start, 5, 0.5, 2.0))
    assert torch.equal(*walks)


def test_explainers_can_inspect_subclasses_of_pyg_layers():
    """Whether the layer of PyG or its subclass was created first."""

    def subclasses_of(kind):
        return {kind, *(one for child in kind.__subclasses__() for one in subclasses_of(child))}

    ours = [
        kind
        for kind in subclasses_of(MessagePassing)
        if kind.__module__.startswith("tgnn.models") and kind.__base__ is not MessagePassing
    ]
    names = {kind.__name__ for kind in ours}
    assert {
        "FusedGCNConv",
        "FusedGINConv",
        "NodewisePNAConv",
        "TransformFirstMixHopConv",
        "PersonalizedPageRank",
        "SeparateGATConv",
    } <= names
    for kind in ours:
        own = vars(kind)
        assert own.get("_orig_propagate", own.get("propagate")) is MessagePassing.propagate, kind
