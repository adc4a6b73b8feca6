"""TGNNConv: Eq. (5) with every option, against the equation written out node by node."""

from __future__ import annotations

import pytest
import torch
from tests.conftest import random_edges, to_csr
from torch_geometric import EdgeIndex
from torch_geometric.utils import add_self_loops, remove_self_loops

from tgnn import CPAggregation, TGNNConv
from tgnn.data.catalog.embedded import digits
from tgnn.ops import use_backend
from tgnn.testing import assert_gradients, assert_matches_oracle, assert_permutation_equivariant, tgnn_conv_oracle

N, F, D, R = 9, 5, 4, 6
EDGES = torch.cat([random_edges(N, N - 1, 20), torch.tensor([[2, 3], [2, 3]])], dim=1)  # with loops; the last is alone

LOW_ORDER = ["sum", "mean", "gcn", "gated_sum", "gated_mean"]
FACTORS = ["plain", "weighted", "tempered", "bounded"]
NEW = {  # the layer of TGNNBlock
    "low_order": "gated_sum",
    "factors": "bounded",
    "degree_exponent": 0.5,
    "two_ended": True,
    "high_scale": 0.5,
}


def randomized(conv: TGNNConv) -> TGNNConv:
    """No parameter at a special place."""
    with torch.no_grad():
        for p in conv.parameters():
            p.normal_(0, 0.7)
    return conv


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("low_order", [*LOW_ORDER, None])
@pytest.mark.parametrize("terms", ["", "weight", "attr", "weight attr"])
@pytest.mark.parametrize("add_self_loops", [True, False])
def test_the_equation(factors, low_order, terms, add_self_loops):
    edge_dim = 3 if "attr" in terms else None
    options = {"factors": factors, "low_order": low_order, "edge_dim": edge_dim, "add_self_loops": add_self_loops}
    conv = TGNNConv(F, D, R, **options, act_low="relu")
    weight = torch.rand(EDGES.size(1)) if "weight" in terms else None
    attr = torch.randn(EDGES.size(1), 3) if edge_dim else None
    assert_matches_oracle(randomized(conv), torch.randn(N, F), EDGES, weight, attr, tolerance=2e-4)


@pytest.mark.parametrize("mix", ["sum", "scalar", "node"])
@pytest.mark.parametrize("root_weight", [False, True])
@pytest.mark.parametrize("act", ["tanh", None])
@pytest.mark.parametrize("factor_act", [None, "tanh"])
def test_the_equation_with_other_options(mix, root_weight, act, factor_act):
    conv = TGNNConv(F, D, R, mix=mix, root_weight=root_weight, act=act, factor_act=factor_act)
    assert_matches_oracle(randomized(conv), torch.randn(N, F), EDGES, tolerance=2e-4)


@pytest.mark.parametrize("terms", ["", "weight", "attr", "weight attr"])
@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("degree_exponent", [0, 0.5, 1])
@pytest.mark.parametrize("root_weight", [False, True])
def test_the_equation_of_gated_normalized_layers(factors, degree_exponent, terms, root_weight):
    edge_dim, exponent = 3 if "attr" in terms else None, degree_exponent if factors == "bounded" else 0
    options = {**NEW, "factors": factors, "degree_exponent": exponent, "bound": 0.7, "low_order": "gated_mean"}
    options["root_weight"] = root_weight
    conv = randomized(TGNNConv(F, D, R, **options, edge_dim=edge_dim))
    weight = torch.rand(EDGES.size(1)) if "weight" in terms else None
    attr = torch.randn(EDGES.size(1), 3) if edge_dim else None
    conv(torch.randn(N, F), EDGES, weight, attr)  # updates the running statistics
    assert conv.norm_high.module.running_mean.any()
    assert_matches_oracle(conv.eval(), torch.randn(N, F), EDGES, weight, attr, tolerance=2e-4)


def test_branches_have_their_own_normalization_and_scale():
    conv, x = TGNNConv(F, D, R, **{**NEW, "high_scale": 0.01}), 5 * torch.randn(N, F)
    high, low = [], []
    conv.norm_high.register_forward_hook(lambda norm, given, out: high.append(out))
    conv.norm_low.register_forward_hook(lambda norm, given, out: low.append(out))
    torch.testing.assert_close(conv(x, EDGES), high[0] + low[0])
    torch.testing.assert_close(low[0].std(0, unbiased=False), torch.ones(D), rtol=1e-2, atol=0)
    assert (high[0].std(0) < 0.011).all()
    with torch.no_grad():
        conv.norm_high.module.weight.fill_(3)
    conv.reset_parameters()
    assert torch.equal(conv.norm_high.module.weight, torch.full((D,), 0.01))
    assert TGNNConv(F, D, 0, low_order="gated_sum", high_scale=0.01).norm_high is None
    assert TGNNConv(F, D, R, low_order=None, high_scale=0.01).norm_low is None


@pytest.mark.parametrize(("rank", "low_order"), [(0, "gated_mean"), (R, None), (R, "gated_mean")])
def test_the_normalization_of_the_sum_branch_includes_the_root_weight(rank, low_order):
    conv = randomized(TGNNConv(F, D, rank, low_order=low_order, root_weight=True, high_scale=0.5))
    x, found = torch.randn(N, F), []
    conv.norm_low.register_forward_hook(lambda norm, given, out: found.append(given[0]))
    conv(x, EDGES)
    low = TGNNConv(F, D, 0, low_order=low_order or "sum", root_weight=True)
    low.load_state_dict(conv.state_dict(), strict=False)
    expected = low(x, EDGES) if low_order else low.lin_root(x)
    torch.testing.assert_close(found[0], expected)
    assert_matches_oracle(conv.eval(), x, EDGES, tolerance=2e-4)


def test_the_normalized_root_weight_of_an_exclusive_layer_has_a_row_per_edge():
    conv = randomized(TGNNConv(F, D, R, low_order=None, root_weight=True, high_scale=0.5, exclusive=True))
    x, high, low = torch.randn(N, F), [], []
    conv.norm_high.register_forward_hook(lambda norm, given, out: high.append(out))
    conv.norm_low.register_forward_hook(lambda norm, given, out: low.append((given[0], out)))
    out = conv(x, EDGES)
    torch.testing.assert_close(low[0][0], conv.lin_root(x)[EDGES[1]])
    torch.testing.assert_close(out, high[0] + low[0][1])


@pytest.mark.parametrize("add_self_loops", [True, False])
@pytest.mark.parametrize("edge_dim", [None, 3])
def test_state_of_the_edges(edge_dim, add_self_loops):
    conv = randomized(TGNNConv(F, D, R, low_order="gated_mean", edge_dim=edge_dim, add_self_loops=add_self_loops))
    x, attr = torch.randn(N, F), None if edge_dim is None else torch.randn(EDGES.size(1), edge_dim)
    out, state = conv(x, EDGES, None, attr, return_edge_state=True)
    torch.testing.assert_close(out, conv(x, EDGES, None, attr))
    expected = conv.gate.lin_dst(x)[EDGES[1]] + conv.gate.lin_src(x)[EDGES[0]]
    torch.testing.assert_close(state, expected if attr is None else expected + conv.gate.lin_edge(attr))
    with pytest.raises(ValueError, match="needs a gated low_order, but low_order is 'sum'"):
        TGNNConv(F, D, R)(x, EDGES, return_edge_state=True)


def test_gates_and_factors_of_both_ends_need_the_destinations():
    x, edges = torch.randn(6, F), random_edges(6, 4, 11)
    for options in ({"low_order": "gated_sum"}, {"two_ended": True}):
        conv = TGNNConv((F, 3), D, R, **options)
        assert conv((x, torch.randn(4, 3)), edges).shape == (4, D)
        with pytest.raises(ValueError, match="needs the features of the destinations"):
            conv((x, None), edges, size=(6, 4))


def test_bounded_factors_start_at_one():
    conv = TGNNConv(F, D, R, factors="bounded", add_self_loops=False)
    assert not conv.cp.lin.bias.any()
    products = []
    conv.cp.product_hook = products.append
    conv(torch.zeros(N, F), EDGES)
    torch.testing.assert_close(products[0], torch.ones(N, R).tanh())
    hub = torch.stack([torch.arange(5000) % N, torch.zeros(5000, dtype=torch.int64)])
    conv(torch.full((N, F), 1e4), hub).sum().backward()
    assert all(p.grad.isfinite().all() for p in conv.parameters())


def test_one_branch_alone():
    x = torch.randn(N, F)
    assert_matches_oracle(randomized(TGNNConv(F, D, 0)), x, EDGES)
    assert sum(p.numel() for p in TGNNConv(F, D, 0).parameters()) == F * D
    with pytest.raises(ValueError, match="rank is 0, but must be at least 1"):
        TGNNConv(F, D, 0, low_order=None)


@pytest.mark.parametrize("low_order", ["sum", "gcn", "gated_mean"])
@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("add_self_loops", [True, False])
def test_every_form_of_graph(factors, low_order, add_self_loops):
    conv = randomized(TGNNConv(F, D, R, factors=factors, low_order=low_order, add_self_loops=add_self_loops))
    x = torch.randn(N, F)
    expected = conv(x, EDGES)
    torch.testing.assert_close(conv(x, to_csr(EDGES, N, N)), expected)
    for order in ("row", "col"):
        torch.testing.assert_close(conv(x, EdgeIndex(EDGES, sparse_size=(N, N)).sort_by(order).values), expected)
    torch.testing.assert_close(conv(x, EDGES.int()), expected)


def test_values_of_adj_t_are_weights():
    conv, x, weight = randomized(TGNNConv(F, D, R)), torch.randn(N, F), torch.rand(EDGES.size(1))
    adj_t = to_csr(EDGES, N, N)
    order = EDGES[1].argsort(stable=True)
    weighted = torch.sparse_csr_tensor(
        adj_t.crow_indices(), adj_t.col_indices(), weight[order], (N, N), check_invariants=False
    )
    torch.testing.assert_close(conv(x, weighted), conv(x, EDGES, weight))
    with pytest.raises(ValueError, match="adj_t also stores values"):
        conv(x, weighted, weight)


@pytest.mark.parametrize("layout", ["to_sparse_csr", "to_sparse_coo"])
@pytest.mark.parametrize("options", [{}, {"root_weight": True}, {**NEW, "high_scale": None}], ids=str)
def test_sparse_features(layout, options, backend):
    conv = randomized(TGNNConv(F, D, R, **options)).double()
    x = torch.rand(N, F, dtype=torch.float64)
    x[x < 0.5] = 0
    with use_backend(backend):
        gradients = []
        for form in (x, getattr(x, layout)()):
            out = conv(form, EDGES)
            torch.testing.assert_close(out, conv(x, EDGES))
            gradients.append(torch.autograd.grad(out.square().sum(), list(conv.parameters())))
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("low_order", LOW_ORDER)
@pytest.mark.parametrize("factors", FACTORS)
def test_bipartite_is_the_same_graph_seen_in_two_halves(factors, low_order):
    conv = randomized(TGNNConv(F, D, R, factors=factors, low_order=low_order, root_weight=True))
    sources, destinations = torch.randn(6, F), torch.randn(4, F)
    edges = random_edges(6, 4, 11)
    # The same as one graph: destinations come after the sources, and sources have no edges into them but their loop.
    both = torch.cat([sources, destinations])
    one = torch.cat([edges + torch.tensor([[0], [6]])], dim=1)
    found = conv((sources, destinations), edges)
    assert found.shape == (4, D)
    if low_order != "gcn" and factors != "weighted":  # degrees of sources count their loop there, their edges here
        torch.testing.assert_close(found, conv(both, one)[6:])
    weight, alike = torch.rand(11), torch.ones(11)
    torch.testing.assert_close(conv((sources, destinations), edges, alike), found)
    assert not torch.allclose(conv((sources, destinations), edges, weight), found)
    torch.testing.assert_close(conv((sources, destinations), to_csr(edges, 4, 6)), found)


def test_bipartite_with_features_of_two_kinds():
    conv = TGNNConv((F, 3), D, R, root_weight=True)
    edges = random_edges(6, 4, 11)
    assert conv.uses_self_loops is False
    assert conv((torch.randn(6, F), torch.randn(4, 3)), edges).shape == (4, D)
    alone = TGNNConv((F, 3), D, R)
    assert alone((torch.randn(6, F), None), edges, size=(6, 4)).shape == (4, D)
    with pytest.raises(ValueError, match=r"size=\(N_src, N_dst\) must be given"):
        alone((torch.randn(6, F), None), edges)
    with pytest.raises(ValueError, match="needs the features of the destinations"):
        conv((torch.randn(6, F), None), edges, size=(6, 4))
    with pytest.raises(ValueError, match="does not support a pair of in_channels"):
        TGNNConv((F, 3), D, R, add_self_loops=True)
    with pytest.raises(ValueError, match="x_src has 5 and x_dst has 3; use add_self_loops=False"):
        TGNNConv(F, D, R)((torch.randn(6, F), torch.randn(4, 3)), edges)
    with pytest.raises(ValueError, match="x_dst is None; use add_self_loops=False"):
        TGNNConv(F, D, R)((torch.randn(6, F), None), edges)


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("low_order", LOW_ORDER)
def test_weight_zero_means_that_the_edge_is_not_there(factors, low_order):
    conv, x = randomized(TGNNConv(F, D, R, factors=factors, low_order=low_order)), torch.randn(N, F)
    weight = (torch.rand(EDGES.size(1)) > 0.4).float()
    weight[EDGES[0] == EDGES[1]] = 1  # without its loop a node would get one again
    torch.testing.assert_close(conv(x, EDGES, weight), conv(x, EDGES[:, weight == 1]), rtol=1e-4, atol=1e-5)


def test_equivariance_and_gradients():
    conv = randomized(TGNNConv(F, D, R, low_order="gcn", mix="node", act_high="tanh", act_low="tanh")).double()
    x = torch.randn(N, F, dtype=torch.float64)
    assert_permutation_equivariant(conv, x, EDGES, tolerance=1e-10)
    assert_gradients(conv, x, EDGES)
    conv = TGNNConv(2, 2, 2, edge_dim=1, factors="weighted", act_high="tanh", act_low="tanh").double()
    attr, weight = torch.randn(EDGES.size(1), 1).double(), torch.rand(EDGES.size(1)).double() * 0.8 + 0.1
    assert_gradients(conv, x[:, :2], EDGES, weight, attr)
    for options in (NEW, {**NEW, "factors": "tempered", "degree_exponent": 0}):
        conv = randomized(TGNNConv(2, 2, 2, edge_dim=1, **options)).double()
        assert_permutation_equivariant(randomized(TGNNConv(F, D, R, **options)).double(), x, EDGES, tolerance=1e-9)
        assert_gradients(conv, x[:, :2], EDGES, None, attr)
        assert_gradients(conv, x[:, :2], EDGES, weight, attr)


def test_gradients_of_the_tempered_product_are_finite_at_zero():
    conv = TGNNConv(1, 1, 1, factors="tempered", add_self_loops=False)
    x = torch.tensor([[-1.0], [0.0], [1e30]], requires_grad=True)
    with torch.no_grad():
        conv.cp.lin.weight.fill_(1)
    out = conv(x, torch.tensor([[0, 1, 2, 2], [0, 1, 1, 2]]))  # factors 0, 1, 1e30
    out.sum().backward()
    assert out.isfinite().all()
    assert all(t.grad.isfinite().all() for t in [x, *conv.parameters()])


def test_scalar_mix_can_be_read():
    conv = TGNNConv(F, D, R, mix="scalar")
    assert float(conv.a_high) == float(conv.a_low) == 0.5
    with torch.no_grad():
        conv.mix.logit.fill_(2.0)
    assert float(conv.a_high) > 0.8
    assert float(conv.a_high + conv.a_low) == 1
    with pytest.raises(AttributeError, match="a_high"):
        TGNNConv(F, D, R).a_high  # noqa: B018


@pytest.mark.parametrize(
    ("rank", "parameters"),
    [(8, 58128), (32, 94272), (64, 142464), (128, 238848), (256, 431616), (512, 817152), (1024, 1588224)],
)
def test_parameters_are_those_of_the_papers_table(rank, parameters):
    layers = [TGNNConv(1433, 32, rank), TGNNConv(32, 7, rank)]
    assert sum(p.numel() for layer in layers for p in layer.parameters()) == parameters


def test_isolated_nodes_empty_graphs_and_no_nodes():
    conv = randomized(TGNNConv(F, D, R, add_self_loops=False))
    none = torch.empty(2, 0, dtype=torch.int64)
    x = torch.randn(3, F)
    torch.testing.assert_close(conv(x, none), tgnn_conv_oracle(conv, x, none).float())
    assert conv(torch.empty(0, F), none).shape == (0, D)
    assert TGNNConv(F, D, R)(torch.empty(0, F), none).shape == (0, D)
    assert TGNNConv(F, D, R, factors="weighted", low_order="gcn")(x[:1], none).isfinite().all()
    for low_order in ("gated_sum", "gated_mean"):
        conv = randomized(TGNNConv(F, D, R, **{**NEW, "low_order": low_order}, add_self_loops=False)).eval()
        torch.testing.assert_close(conv(x, none), tgnn_conv_oracle(conv, x, none).float())
        assert conv.train()(x[:1], none).isfinite().all()
        assert conv.eval()(torch.empty(0, F), none).shape == (0, D)


def test_lazy_repr_reset():
    conv = TGNNConv(-1, D, R, root_weight=True)
    assert repr(conv) == "TGNNConv(-1, 4, rank=6)"
    assert conv(torch.randn(N, F), EDGES).shape == (N, D)
    assert conv.cp.W.shape == (F + 1, R)
    conv = randomized(TGNNConv(F, D, R, mix="node"))
    x = torch.randn(N, F)
    before = conv(x, EDGES)
    conv.reset_parameters()
    assert not torch.allclose(conv(x, EDGES), before)
    assert torch.equal(conv.cp.lin.bias, torch.ones(R))


def test_wrong_input_is_named():
    x = torch.randn(N, F)
    for options, message in [
        ({"mix": "both"}, "mix is 'both', but must be one of 'sum', 'scalar', 'node'"),
        ({"low_order": "max"}, "low_order is 'max', but must be"),
        ({"factors": "heavy"}, "factors is 'heavy', but must be"),
        ({"factors": "bounded", "bound": 1.0}, "bound is 1.0, but must be above 0 and below 1"),
        ({"factors": "bounded", "degree_exponent": 2}, r"degree_exponent is 2, but must lie in \[0, 1\]"),
        ({"degree_exponent": 0.5}, "degree_exponent is 0.5, but needs factors='bounded', got 'plain'"),
        ({"factors": "bounded", "factor_act": "tanh"}, "factors='bounded' has its own activation"),
        ({"high_scale": -1}, "high_scale is -1, but must be a number of at least 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            TGNNConv(F, D, R, **options)
    conv = TGNNConv(F, D, R)
    with pytest.raises(ValueError, match="edge_attr is given, but edge_dim is None"):
        conv(x, EDGES, edge_attr=torch.randn(EDGES.size(1), 2))
    with pytest.raises(ValueError, match="edge_attr is not given, but edge_dim is 2"):
        TGNNConv(F, D, R, edge_dim=2)(x, EDGES)
    with pytest.raises(ValueError, match=r"edge_weight must have shape \[22\], one row per edge, got \[3\]"):
        conv(x, EDGES, torch.rand(3))
    with pytest.raises(ValueError, match=r"edge_weight must have shape \[22\], one row per edge, got \[22, 1\]"):
        conv(x, EDGES, torch.rand(EDGES.size(1), 1))
    lone = TGNNConv(F, D, R, factors="tempered", low_order=None, add_self_loops=False, edge_dim=2)
    with pytest.raises(ValueError, match=r"edge_attr must have shape \[22, edge_dim\]"):
        lone(x, EDGES, edge_attr=torch.randn(1, 2))
    with pytest.raises(TypeError, match="graph must be an edge_index, an EdgeIndex, a torch CSR tensor"):
        conv(x, torch.eye(N).to_sparse_coo(), torch.rand(N))
    for factors in FACTORS:
        with pytest.raises(ValueError, match=r"edge_weight contains 2.0, but must lie in \[0, 1\]"):
            TGNNConv(F, D, R, factors=factors)(x, EDGES, torch.full((EDGES.size(1),), 2.0))
    with pytest.raises(ValueError, match="contains 99, but must lie in"):
        conv(x, torch.tensor([[99], [0]]))
    with pytest.raises(ValueError, match="x has 3 features, but the layer expects 5"):
        conv(x[:, :3], EDGES)


@pytest.mark.parametrize("factors", ["plain", "weighted"])
def test_as_many_sources_as_destinations_are_still_two_kinds_of_nodes(factors):
    conv = randomized(TGNNConv((F, F), D, R, low_order="gcn", factors=factors))
    sources, destinations, edges = torch.randn(4, F), torch.randn(4, F), torch.tensor([[0, 0, 0, 1], [0, 1, 2, 3]])
    one_more = torch.cat([sources, torch.zeros(1, F)])  # a source without edges changes nothing
    torch.testing.assert_close(conv((sources, destinations), edges), conv((one_more, destinations), edges))
    with pytest.raises(ValueError, match=r"size is \(4, 7\), but x has 4 sources and 4 destinations"):
        TGNNConv(F, D, R)((sources, destinations), edges, size=(4, 7))


def test_values_of_adj_t_that_learn_are_weights_even_where_they_are_one():
    adj_t = to_csr(EDGES.unique(dim=1), N, N)  # torch's own gradient of a CSR tensor knows no duplicates
    values = torch.ones(adj_t.values().numel(), requires_grad=True)
    graph = torch.sparse_csr_tensor(adj_t.crow_indices(), adj_t.col_indices(), values, (N, N), check_invariants=False)
    randomized(TGNNConv(F, D, R))(torch.randn(N, F), graph).sum().backward()
    assert values.grad is not None
    assert values.grad.any()


def test_evaluating_first_and_training_then():
    conv, x, weight = TGNNConv(F, D, R), torch.randn(N, F), torch.rand(EDGES.size(1))
    edges = EDGES.clone()
    with torch.inference_mode():
        conv(x, edges, weight)
        conv((x, x), edges)
    conv(x, edges, weight).sum().backward()
    conv((x, x), edges).sum().backward()


def test_many_neighbors_in_half_precision():
    """bfloat16 cannot count beyond 256: degrees, signs and sizes are counted in float32."""
    degree = 301
    star = torch.stack([torch.arange(1, degree + 1), torch.zeros(degree, dtype=torch.int64)])
    x = torch.ones(degree + 1, 1)
    for options in ({"factors": "tempered"}, {"low_order": "mean"}, {"low_order": "gcn"}, {"factors": "weighted"}):
        conv = TGNNConv(1, 1, 1, add_self_loops=False, **options)
        with torch.no_grad():
            conv.cp.lin.weight.fill_(-2 if "factors" in options else 0)  # factors of -1
            conv.cp.M.fill_(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = conv(x, star)[0]
        torch.testing.assert_close(half.float(), conv(x, star)[0], rtol=0.02, atol=0.02)
    aggr = CPAggregation(1, 1, rank=4, scaled=True, act_out=None)
    rows, index = torch.randn(1000, 1), torch.zeros(1000, dtype=torch.int64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = aggr(rows, index)
    torch.testing.assert_close(half.float(), aggr(rows, index), rtol=0.02, atol=0.02)
    sparse = torch.eye(4).to_sparse_csr()
    for mix in ("scalar", "node"):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert TGNNConv(4, 2, 2, mix=mix)(sparse, torch.tensor([[0], [1]])).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("edges", [[[0, 1], [1, 2]], [[0, 1], [1, 1]]], ids=["no loop", "a loop"])
def test_features_of_edges_in_half_precision(dtype, edges):
    conv, x = TGNNConv(8, 4, 5, edge_dim=3), torch.randn(3, 8)
    edge_index, attr = torch.tensor(edges), torch.randn(2, 3)
    whole = conv(x, edge_index, None, attr)
    out = conv.to(dtype)(x.to(dtype), edge_index, None, attr.to(dtype))
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), whole, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("factor_act", [None, "tanh", "sigmoid"])
@pytest.mark.parametrize("affine", [None, (-1.0, 1.0)])
@pytest.mark.parametrize("terms", ["attr", "gate", "two ended", ""])
@pytest.mark.parametrize("add_self_loops", [True, False])
@pytest.mark.parametrize("factors", ["plain", "tempered"])
def test_activations_and_affine_maps_follow_the_terms_of_edges(factor_act, affine, terms, add_self_loops, factors):
    conv = TGNNConv(
        F,
        D,
        R,
        factors=factors,
        factor_act=factor_act,
        affine=affine,
        edge_dim=3 if terms in ("attr", "gate") else None,
        edge_gate=terms == "gate",
        two_ended=terms == "two ended",
        add_self_loops=add_self_loops,
        act=None,
    )
    attr = torch.randn(EDGES.size(1), 3) if conv.edge_dim else None
    weight = torch.rand(EDGES.size(1)) if terms == "gate" else None
    assert_matches_oracle(randomized(conv), torch.randn(N, F), EDGES, weight, attr, tolerance=2e-4)


@pytest.mark.parametrize("fill_value", [0.5, torch.tensor([1.0, -1.0, 2.0]), "mean", "max"], ids=str)
@pytest.mark.parametrize("low_order", ["sum", "gated_mean", None])
def test_self_loops_with_edge_features(fill_value, low_order):
    options = {"edge_dim": 3, "edge_gate": True, "low_order": low_order, "two_ended": True}
    conv = randomized(TGNNConv(F, D, R, fill_value=fill_value, **options))
    x, attr, weight = torch.randn(N, F), torch.randn(EDGES.size(1), 3), torch.rand(EDGES.size(1))
    assert_matches_oracle(conv, x, EDGES, weight, attr, tolerance=2e-4)
    edges, attr = remove_self_loops(EDGES, attr)
    with_loops = add_self_loops(edges, attr, fill_value, N)
    explicit = TGNNConv(F, D, R, add_self_loops=False, **options)
    explicit.load_state_dict(conv.state_dict())
    torch.testing.assert_close(conv(x, edges, None, attr), explicit(x, with_loops[0], None, with_loops[1]))
    torch.testing.assert_close(conv((x, x), edges, None, attr), explicit((x, x), with_loops[0], None, with_loops[1]))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("factors", FACTORS)
def test_exclusive_products_leave_out_one_edge(factors, weighted):
    options = {"low_order": None, "act": None, "root_weight": True, "factors": factors}
    options |= {"degree_exponent": 0.5} if factors == "bounded" else {"factor_act": "tanh"}
    if factors == "weighted":  # the weights of its factors depend on the degrees
        options |= {"factors": "plain", "affine": (0.5, 0.5)}
    conv = randomized(TGNNConv(F, D, R, exclusive=True, **options))
    assert not conv.uses_self_loops
    whole = TGNNConv(F, D, R, add_self_loops=False, **options)
    whole.load_state_dict(conv.state_dict())
    x, weight = torch.randn(N, F), torch.rand(EDGES.size(1)) if weighted else None
    out = conv(x, EDGES, weight)
    assert out.shape == (EDGES.size(1), D)
    for edge in (0, 5, 21):
        others = torch.arange(EDGES.size(1)) != edge
        expected = whole(x, EDGES[:, others], None if weight is None else weight[others])[EDGES[1, edge]]
        torch.testing.assert_close(out[edge], expected, rtol=1e-4, atol=1e-5)


def test_the_check_rule_of_belief_propagation_is_a_layer():
    conv = TGNNConv(1, 1, 1, exclusive=True, low_order=None, factor_act="tanh", act=None, bias_init=0.0)
    with torch.no_grad():
        conv.cp.lin.weight.fill_(0.5)
        conv.cp.M.fill_(1.0)
    llr = torch.tensor([[2.0], [-1.0], [3.0]])
    product = conv((llr, None), torch.tensor([[0, 1, 2], [0, 0, 0]]), size=(3, 1))
    half = (llr / 2).tanh().flatten()
    torch.testing.assert_close(
        product.flatten(), torch.stack([half[1] * half[2], half[0] * half[2], half[0] * half[1]])
    )


def test_initial_bias():
    assert TGNNConv(F, D, R).cp.lin.bias.unique().tolist() == [1]
    assert TGNNConv(F, D, R, factors="bounded").cp.lin.bias.unique().tolist() == [0]
    assert TGNNConv(F, D, R, bias_init=0.0).cp.lin.bias.unique().tolist() == [0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edge_dim": 3, "factor_act": "relu"}, "must be None, 'tanh' or 'sigmoid'"),
        ({"affine": (1.0, 0.0), "factors": "bounded"}, "affine is"),
        ({"edge_gate": True}, "edge_gate=True needs edge_dim"),
        ({"exclusive": True}, "needs low_order=None and no self-loops"),
        ({"fill_value": 1.0}, "fill_value is 1.0, but needs edge_dim"),
        ({"fill_value": "median", "edge_dim": 3}, "fill_value"),
    ],
    ids=str,
)
def test_options_of_factors_that_contradict_each_other(options, message):
    with pytest.raises(ValueError, match=message):
        TGNNConv(F, D, R, **options)


def test_stacked_layers_with_default_arguments_train_on_digits():
    data = digits()
    first, last = TGNNConv(64, 32, rank=8), TGNNConv(32, 10, rank=8)
    optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()], lr=0.01)
    for _ in range(60):
        out = last(first(data.x, data.edge_index).relu(), data.edge_index)
        loss = torch.nn.functional.cross_entropy(out[::2], data.y[::2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (out.argmax(1) == data.y)[1::2].float().mean() > 0.85  # 0.1 to 0.6 with ReLU after both branches


def test_products_can_start_small():
    torch.manual_seed(0)
    plain = TGNNConv(F, D, R)
    for factors in ("plain", "bounded"):
        torch.manual_seed(0)
        conv = TGNNConv(F, D, R, factors=factors, high_start=0.1)
        torch.testing.assert_close(conv.cp.M, 0.1 * plain.cp.M)
    conv.reset_parameters()
    assert 0 < conv.cp.M.abs().max() < 0.1 * (6 / (D + R)) ** 0.5  # the bound of Glorot's initialization
    with pytest.raises(ValueError, match="high_start is 0, but must be a number above 0 and at most 1"):
        TGNNConv(F, D, R, high_start=0)
