"""Weighted sums: every backend against a dense matrix product, to the second derivative."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import EdgeIndex

from tests.conftest import random_edges, random_factors, to_csr
from tgnn.ops import degrees, edges_with_self_loops, neighbor_product, neighbor_sum, sparse_matmul, use_backend

GRAPHS = {"ordinary": (30, 30, 120), "bipartite": (20, 7, 60), "no edges": (4, 4, 0), "no nodes": (0, 0, 0)}


def dense(edges, num_src, num_dst, weight=None):
    """A[v, u] = total weight of the edges from u to v."""
    weight = torch.ones(edges.size(1), dtype=torch.float64) if weight is None else weight.double()
    return torch.zeros(num_dst, num_src, dtype=torch.float64).index_put((edges[1], edges[0]), weight, accumulate=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("graph", list(GRAPHS))
@pytest.mark.parametrize("width", [1, 5, 131, 256])
def test_equals_a_dense_product(backend, graph, weighted, dtype, width):
    num_src, num_dst, num_edges = GRAPHS[graph]
    edges = random_edges(num_src, num_dst, num_edges)
    x = random_factors(num_src, width, dtype).requires_grad_()
    weight = random_factors(num_edges, 1, dtype, seed=3).flatten().requires_grad_() if weighted else None
    with use_backend(backend):
        out = neighbor_sum(x, edges, size=(num_src, num_dst), edge_weight=weight)
    seed = random_factors(num_dst, width, dtype, seed=5)
    leaves = [x, weight] if weighted else [x]
    found = torch.autograd.grad(out, leaves, seed)
    wide = [leaf.detach().double().requires_grad_() for leaf in leaves]
    expected = dense(edges, num_src, num_dst, wide[1] if weighted else None) @ wide[0]
    gradients = torch.autograd.grad(expected, wide, seed.double())
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 0.05}[dtype]
    for a, b in zip([out, *found], [expected, *gradients], strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=tolerance * 5)


def test_second_derivatives(backend):
    edges = random_edges(5, 4, 9)
    x = random_factors(5, 2, torch.float64).requires_grad_()
    weight = torch.rand(9, dtype=torch.float64).requires_grad_()
    with use_backend(backend):
        assert torch.autograd.gradgradcheck(
            lambda x, w: neighbor_sum(x, edges, size=(5, 4), edge_weight=w), (x, weight), fast_mode=True
        )


@pytest.mark.parametrize("form", ["edge_index", "EdgeIndex", "adj_t"])
def test_self_loops_are_added_where_there_are_none(backend, form):
    edges = torch.tensor([[0, 1, 1, 2, 0], [1, 1, 2, 0, 1]])
    closed = torch.cat([edges, torch.tensor([[0, 2], [0, 2]])], dim=1)
    graph = {
        "edge_index": edges,
        "EdgeIndex": EdgeIndex(edges, sparse_size=(3, 3)).sort_by("col").values,
        "adj_t": to_csr(edges, 3, 3),
    }[form]
    z = random_factors(3, 4, torch.float64)
    with use_backend(backend):
        torch.testing.assert_close(neighbor_sum(z, graph, self_loops=True), neighbor_sum(z, closed))
        torch.testing.assert_close(neighbor_product(z, graph, self_loops=True), neighbor_product(z, closed))
    assert degrees(graph, 3, self_loops=True).tolist() == [2, 3, 2]
    assert degrees(graph, 3).tolist() == [1, 3, 1]


def test_closed_edges_give_the_same_with_weights(backend):
    edges = torch.tensor([[0, 1, 1, 2, 0], [1, 1, 2, 0, 1]])
    z = random_factors(3, 4, torch.float64)
    closed, loop_weight = edges_with_self_loops(edges, 3)
    weight = torch.cat([torch.ones(5), loop_weight]).double()
    with use_backend(backend):
        torch.testing.assert_close(neighbor_sum(z, closed, edge_weight=weight), neighbor_sum(z, edges, self_loops=True))
        torch.testing.assert_close(
            neighbor_product(z, closed, edge_weight=weight), neighbor_product(z, edges, self_loops=True)
        )


def test_sparse_features_times_a_matrix(backend):
    x = torch.rand(9, 7, dtype=torch.float64)
    x[x < 0.6] = 0
    weight = random_factors(7, 3, torch.float64).requires_grad_()
    values = x.to_sparse_csr().values().clone().requires_grad_()

    def product(values, weight):
        pattern = x.to_sparse_csr()
        matrix = torch.sparse_csr_tensor(
            pattern.crow_indices(), pattern.col_indices(), values, x.shape, check_invariants=False
        )
        return sparse_matmul(matrix, weight)

    with use_backend(backend):
        torch.testing.assert_close(product(values, weight), x @ weight)
        assert torch.autograd.gradcheck(product, (values, weight))


def test_wrong_input_is_named():
    x, edges = torch.rand(3, 2), torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="add the loops with edges_with_self_loops"):
        neighbor_sum(x, edges, edge_weight=torch.rand(2), self_loops=True)
    with pytest.raises(ValueError, match="add the loops with edges_with_self_loops"):
        neighbor_product(x, edges, edge_weight=torch.rand(2), self_loops=True)
    with pytest.raises(ValueError, match="needs one set of nodes, but there are 3 sources and 5 destinations"):
        neighbor_sum(x, edges, size=(3, 5), self_loops=True)
    with pytest.raises(ValueError, match=r"contains 9, but must lie in \[0, num_src - 1\] = \[0, 2\]"):
        neighbor_sum(x, torch.tensor([[9], [0]]))
    with pytest.raises(TypeError, match="x must be a sparse CSR matrix, got a tensor"):
        sparse_matmul(x, x)
    with pytest.raises(ValueError, match="x has 2 columns, but weight has 3 rows"):
        sparse_matmul(x.to_sparse_csr(), x)


@pytest.mark.parametrize("weighted", [False, True])
def test_torch_knows_the_operators(weighted):
    x = random_factors(5, 3, torch.float32).requires_grad_()
    weight = torch.rand(9).requires_grad_() if weighted else None
    graph = (random_edges(5, 6, 9), None, "edges", 5, 6)
    torch.library.opcheck(torch.ops.tgnn.neighbor_sum.default, (x, weight, *graph, False))
    torch.library.opcheck(torch.ops.tgnn.edge_dot.default, (torch.rand(6, 3).requires_grad_(), x, *graph))
    torch.library.opcheck(torch.ops.tgnn.degrees.default, graph)


def test_the_same_bits_for_every_number_of_threads():
    edges, x = random_edges(500, 500, 9000), torch.randn(500, 200)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(neighbor_sum(x, edges))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)
