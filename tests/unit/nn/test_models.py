"""TGNN and GraphTGNN: PyG's contract for basic GNNs, and the paper's sizes."""

from __future__ import annotations

import pytest
import torch
from tests.conftest import random_edges
from torch_geometric.data import Batch, Data
from torch_geometric.loader import NeighborLoader

from tgnn import TGNN, GraphTGNN
from tgnn.data.sampler import NeighborSampler
from tgnn.nn.feature_maps import CategoryEncoder, FeatureDropout

N = 12
EDGES = random_edges(N, N, 30)


@pytest.mark.parametrize("jk", [None, "last", "cat", "max", "lstm"])
@pytest.mark.parametrize("norm", [None, "batch_norm", "graph_norm", "layer_norm"])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("out_channels", [None, 7])
def test_options_of_basic_gnns(jk, norm, num_layers, out_channels):
    model = TGNN(8, 16, num_layers, out_channels, rank=4, jk=jk, norm=norm, dropout=0.2)
    out = model(torch.randn(N, 8), EDGES)
    assert out.shape == (N, out_channels or 16)
    out.sum().backward()
    model.reset_parameters()
    assert str(model) == f"TGNN(8, {out_channels or 16}, num_layers={num_layers}, rank=4)"


def test_outputs_can_be_negative_and_hidden_rows_cannot():
    model = TGNN(8, 16, 3, 5, rank=4)
    assert (model(torch.randn(N, 8), EDGES) < 0).any()
    assert [(c.cp.act_out is None, c.act_low is None) for c in model.convs] == [(False,) * 2, (False,) * 2, (True,) * 2]
    with_jk = TGNN(8, 16, 2, 5, rank=4, jk="cat")
    assert all(c.cp.act_out is not None for c in with_jk.convs)
    elu = TGNN(8, 16, 2, 5, rank=4, act="elu")
    assert isinstance(elu.convs[0].act_low, torch.nn.ELU)
    assert elu.act is None  # the layers have it inside; twice would not be the equation


def test_arguments_reach_the_layers():
    model = TGNN(8, 16, 2, 5, rank=4, mix="scalar", low_order="gcn", factors="weighted", root_weight=True, edge_dim=3)
    for conv in model.convs:
        assert (conv.low_order, conv.factors, conv.edge_dim) == ("gcn", "weighted", 3)
        assert conv.lin_root is not None
    out = model(torch.randn(N, 8), EDGES, edge_weight=torch.rand(30), edge_attr=torch.randn(30, 3))
    assert out.shape == (N, 5)
    with pytest.raises(TypeError, match="color"):
        TGNN(8, 16, 2, 5, color="red")
    with pytest.raises(ValueError, match="num_layers is 0"):
        TGNN(8, 16, 0, 5)


BLOCKS = {"residual": True, "ffn": True, "norm": "batch_norm", "low_order": "gated_mean"}


@pytest.mark.parametrize("options", [{}, {"norm": "batch_norm"}, BLOCKS], ids=str)
def test_layer_wise_inference_and_trimming(options):
    model = TGNN(8, 16, 2, 5, rank=4, dropout=0.5, input_dropout=0.5, **options).eval()
    data = Data(x=torch.randn(N, 8), edge_index=EDGES)
    sampler = NeighborSampler(EDGES, [-1], num_nodes=N)
    loader = NeighborLoader(data, num_neighbors=[-1], batch_size=5, neighbor_sampler=sampler)
    torch.testing.assert_close(model.inference(loader), model(data.x, EDGES), rtol=1e-4, atol=1e-5)
    # Seed 0 has the sampled neighbors 1 and 2, and these have 3 and 4.
    x, edges = torch.randn(5, 8), torch.tensor([[1, 2, 3, 4], [0, 0, 1, 2]])
    trimmed = model(x, edges, num_sampled_nodes_per_hop=[1, 2, 2], num_sampled_edges_per_hop=[2, 2])
    torch.testing.assert_close(trimmed[:1], model(x, edges)[:1])
    with pytest.raises(ValueError, match="does not support layer-wise inference"):
        TGNN(8, 16, 2, 5, rank=4, low_order="gated_sum", update_edges=True).eval().inference(loader)


@pytest.mark.parametrize("layout", ["to_sparse_csr", "to_sparse_coo"])
@pytest.mark.parametrize("options", [{}, BLOCKS], ids=["layers", "blocks"])
def test_sparse_features_and_dropout_on_stored_entries(layout, options):
    x = (torch.rand(N, 8) < 0.4).float()
    sparse = getattr(x, layout)()
    model = TGNN(8, 16, 2, 5, rank=4, input_dropout=0.5, dropout=0.5, **options)
    torch.testing.assert_close(model.eval()(sparse, EDGES), model(x, EDGES))
    model.train()(sparse, EDGES).sum().backward()
    dropped = FeatureDropout(0.5)(x.repeat(200, 1).to_sparse_csr())
    assert dropped.values().unique().tolist() == [0.0, 2.0]
    assert 0.45 < float((dropped.values() == 0).float().mean()) < 0.55


def test_dropout_is_dropout():
    x = torch.ones(1000, 10, requires_grad=True)
    out = FeatureDropout(0.8)(x)
    assert set(out.detach().unique().round(decimals=3).tolist()) == {0.0, 5.0}
    assert 0.77 < float((out == 0).float().mean()) < 0.83
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())
    assert FeatureDropout(0.8).eval()(x) is x
    assert not FeatureDropout(1.0)(x).any()


@pytest.mark.parametrize("p", [1e-9, 0.001, 0.1, 0.5, 0.9999, 1 - 1e-9])
def test_dropout_has_the_given_probability_and_keeps_the_mean(p):
    torch.manual_seed(0)
    x = torch.ones(1000, 1001)
    out = FeatureDropout(p)(x)
    error = (p * (1 - p) / x.numel()) ** 0.5
    assert abs(float((out == 0).double().mean()) - p) <= 5 * error + 2**-16
    assert abs(float(out.double().mean()) - 1) <= 5 * error / (1 - p) + 1e-3
    columns, rows = (out == 0).double().mean(0), (out == 0).double().mean(1)
    assert float(max(columns.std(), rows.std())) <= 2 * (p * (1 - p) / 1000) ** 0.5 + 2**-16


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(0, 3), (), (1,), (3, 5), (2, 3, 7)])
def test_dropout_of_any_shape_and_type(shape, dtype):
    x = (torch.rand(shape) + 1).to(dtype)
    torch.manual_seed(0)
    out = FeatureDropout(0.5)(x)
    torch.manual_seed(0)
    with torch.device("meta"):  # random numbers are drawn on the device of the input
        assert torch.equal(FeatureDropout(0.5)(x), out)
    assert (out.dtype, out.shape) == (dtype, shape)
    assert torch.equal(out[out != 0], 2 * x[out != 0])
    if out.numel() > 10:
        assert 0 < int((out == 0).sum()) < out.numel()


def test_dropout_of_an_expanded_input():
    torch.manual_seed(0)
    out = FeatureDropout(0.5)(torch.ones(1, 7).expand(50, 7))
    assert 0.35 < float((out == 0).float().mean()) < 0.65


def test_dropout_can_be_compiled_traced_and_vectorized():
    x, dropout = torch.ones(40, 25), FeatureDropout(0.5)
    recorded = [
        torch.compile(dropout, fullgraph=True, backend="aot_eager"),
        torch.jit.trace(dropout, (x,), check_trace=False),
        torch.func.vmap(dropout, randomness="different"),
    ]
    for apply in recorded:
        out = apply(x)
        assert set(out.unique().tolist()) == {0.0, 2.0}
        assert 0.4 < float((out == 0).float().mean()) < 0.6


# ---- graphs ----------------------------------------------------------------------------------------------------


def two_graphs(categories: bool) -> Batch:
    graphs = []
    for nodes, edges in ((4, 6), (7, 12)):
        x = torch.randint(5, (nodes,)) if categories else torch.randn(nodes, 8)
        attr = torch.randint(3, (edges,)) if categories else torch.randn(edges, 2)
        graphs.append(Data(x=x, edge_index=random_edges(nodes, nodes, edges), edge_attr=attr, num_nodes=nodes))
    return Batch.from_data_list(graphs)


@pytest.mark.parametrize("readout", ["sum", "mean", "cp", "sum+cp", "mean+cp"])
@pytest.mark.parametrize("categories", [False, True])
@pytest.mark.parametrize("with_edges", [False, True])
def test_a_batch_is_its_graphs(readout, categories, with_edges):
    batch = two_graphs(categories)
    edge_dim = ([3] if categories else 2) if with_edges else None
    model = GraphTGNN([5] if categories else 8, 16, 2, 3, rank=4, edge_dim=edge_dim, readout=readout).eval()
    out = model(batch.x, batch.edge_index, batch.batch, batch.edge_attr if with_edges else None)
    assert out.shape == (2, 3)
    for graph, row in zip(batch.to_data_list(), out):
        alone = model(graph.x, graph.edge_index, None, graph.edge_attr if with_edges else None)
        torch.testing.assert_close(alone[0], row, rtol=1e-4, atol=1e-5)
    model.reset_parameters()


def test_graph_model_with_other_options():
    batch = two_graphs(False)
    options = {"root_weight": True, "mix": "scalar", "norm": None, "scaled_readout": False, "head_layers": 1}
    model = GraphTGNN(8, 16, 2, 3, rank=4, **options)
    model(batch.x, batch.edge_index, batch.batch).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert "readout='sum+cp'" in repr(model)
    assert model(batch.x, batch.edge_index, batch.batch, batch_size=3).shape == (3, 3)
    with pytest.raises(ValueError, match="readout is 'max', but must be one of 'sum'"):
        GraphTGNN(8, 16, 2, 3, readout="max")
    with pytest.raises(ValueError, match="edge_attr is given, but the model was created without edge_dim"):
        model(batch.x, batch.edge_index, batch.batch, batch.edge_attr)


@pytest.mark.parametrize("jk", [None, "cat"])
@pytest.mark.parametrize("readout", ["mean", "cp", "sum+cp"])
def test_what_is_read_of_a_graph(jk, readout):
    batch = two_graphs(False)
    model = GraphTGNN(8, 16, 3, 3, rank=4, jk=jk, readout=readout, readout_norm=True)
    rows, layers = [], []
    model.readout_norm.register_forward_hook(lambda norm, given, out: rows.extend([given[0], out]))
    for norm in model.gnn.norms:
        norm.register_forward_hook(lambda norm, given, out: layers.append(out.relu()))
    model(batch.x, batch.edge_index, batch.batch).square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    poolings = [pooling for pooling in (model.low_readout, model.cp_readout) if pooling is not None]
    expected = [pooling(h, batch.batch) for h in (layers if jk else layers[-1:]) for pooling in poolings]
    torch.testing.assert_close(rows[0], torch.cat(expected, 1))
    assert rows[0].size(1) == 16 * (3 if jk else 1) * (2 if "+" in readout else 1)
    torch.testing.assert_close(rows[1].mean(0), torch.zeros(rows[1].size(1)), atol=1e-4, rtol=0)  # over the batch
    model.reset_parameters()
    model.eval()
    together = model(batch.x, batch.edge_index, batch.batch)
    for graph, row in zip(batch.to_data_list(), together):
        torch.testing.assert_close(model(graph.x, graph.edge_index)[0], row, rtol=1e-4, atol=1e-5)


def test_a_batch_of_one_graph_has_nothing_to_be_normalized_by():
    model = GraphTGNN(8, 16, 2, 3, rank=4, readout_norm=True)
    with pytest.raises(ValueError, match="readout_norm=True cannot normalize a training batch of one graph"):
        model(torch.randn(N, 8), EDGES)
    assert model.eval()(torch.randn(N, 8), EDGES).shape == (1, 3)


@pytest.mark.parametrize(("edge_dim", "rank"), [(1, 2), (3, 4), ([3], 3), ([2, 2], 4)])
def test_edges_are_as_wide_as_what_they_say(edge_dim, rank):
    """Of numbers, their slopes and a constant; of categories, one row for each."""
    model = GraphTGNN(8, 16, 2, 3, rank=4, edge_dim=edge_dim)
    assert model.gnn.convs[0].edge_dim == rank
    encoder = model.edge_encoder
    if isinstance(edge_dim, int):
        torch.nn.init.normal_(encoder.bias)
    rows = encoder.weight if not isinstance(edge_dim, int) else torch.cat([encoder.weight, encoder.bias.unsqueeze(0)])
    assert torch.linalg.matrix_rank(rows @ model.gnn.convs[0].lin_edge_low.weight) == rank
    assert GraphTGNN(8, 2, 2, 3, rank=4, edge_dim=edge_dim).gnn.convs[0].edge_dim == 2  # but no wider than nodes


def test_where_the_factors_of_a_graph_start():
    model = GraphTGNN(8, 400, 2, 3, rank=20, edge_dim=400, smallest_start=1.0)
    convs = list(model.gnn.convs)
    for lin in (convs[0].cp.lin, convs[1].cp.lin, convs[0].lin_edge, model.cp_readout.lin):
        torch.testing.assert_close(lin.weight.std(0) * 20, torch.ones(20), rtol=0.3, atol=0)


def test_categories():
    encoder = CategoryEncoder([3, 2], 4)
    x = torch.tensor([[0, 1], [2, 0]])
    expected = torch.stack([encoder.weight[0] + encoder.weight[4], encoder.weight[2] + encoder.weight[3]])
    torch.testing.assert_close(encoder(x), expected)
    with pytest.raises(ValueError, match=r"x\[:, 1\] contains category 2, but has 2: 0 to 1"):
        encoder(torch.tensor([[0, 2]]))
    with pytest.raises(ValueError, match=r"integers in 2 columns, got \[1, 1\] of torch.int64"):
        encoder(torch.tensor([[0]]))
    with pytest.raises(ValueError, match="a list of positive numbers"):
        CategoryEncoder([], 4)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TGNN(8, 16, 2, 3, rank="8"), TypeError, "rank is '8', but must be an integer"),
        (lambda: TGNN(8, 16.0, 2, 3), TypeError, "hidden_channels is 16.0"),
        (lambda: TGNN(8, 16, 2, 3, rank=-1), ValueError, "rank is -1, but must be at least 0"),
        (lambda: TGNN(8, 16, 2, 3, jk="sum"), ValueError, "jk is 'sum', but must be one of None, 'last'"),
        (lambda: TGNN(-3, 16, 2, 3), ValueError, "in_channels is -3"),
        (lambda: GraphTGNN(None, 16, 2, 3), TypeError, "in_channels is None"),
        (lambda: GraphTGNN(8, 16, 2, 0), ValueError, "out_channels is 0"),
        (lambda: GraphTGNN(8, 16, 2, 3, edge_dim=0), ValueError, "edge_dim is 0"),
        (
            lambda: GraphTGNN(8, 16, 2, 3, smallest_start=2),
            ValueError,
            "smallest_start is 2, but must be a number above 0",
        ),
        (lambda: TGNN(8, 16, 2, 3, rank=0, smallest_start="a"), ValueError, "smallest_start is 'a', but must be"),
        (lambda: GraphTGNN(8, 16, 2, 3, jk="max"), ValueError, "jk is 'max', but must be one of None, 'cat'"),
        (lambda: GraphTGNN(8, 16, 2, 3, rank=0), ValueError, "use readout='sum' or 'mean'"),
    ],
)
def test_wrong_sizes_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_wrong_batches_and_features_are_named():
    model, x, edges = GraphTGNN(8, 16, 2, 1, rank=4, edge_dim=3), torch.randn(N, 8), EDGES
    attr = torch.randn(30, 3)
    for batch, error, message in [
        (torch.zeros(3).long(), ValueError, "batch has 3 entries, but x has 12 rows"),
        (torch.full((N,), -1), ValueError, "batch contains -1, but graph indices must not be negative"),
        (torch.zeros(N), TypeError, "batch must be an int64 tensor"),
        ([0] * N, TypeError, "batch must be an int64 tensor .* got list"),
    ]:
        with pytest.raises(error, match=message):
            model(x, edges, batch, attr)
    with pytest.raises(ValueError, match="edge_attr has 29 rows, but the graph has 30 edges"):
        model(x, edges, None, attr[1:])
    with pytest.raises(ValueError, match="edge_attr has 2 features, but the layer expects 3"):
        model(x, edges, None, attr[:, :2])
    with pytest.raises(TypeError, match="x is torch.int64, but the weights are torch.float32"):
        model(x.long(), edges, None, attr)
    with pytest.raises(TypeError, match=r"x is torch.float64, .*; convert it with .to\(torch.float32\)"):
        model(x.double(), edges, None, attr)
    with pytest.raises(ValueError, match=r"edge_weight has shape \[30, 3\]; did you mean edge_attr="):
        TGNN(8, 16, 2, 1, edge_dim=3)(x, edges, attr)
    with pytest.raises(TypeError, match="transpose it with"):
        TGNN(8, 16, 2, 1)(x, edges.t())
    assert GraphTGNN(8, 16, 2, 1, edge_dim=1)(x, edges, None, torch.ones(30)).shape == (1, 1)
