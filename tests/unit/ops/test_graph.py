"""Every form of graph gives the same product; grouping and checking happen once, and changes are seen."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch_geometric import EdgeIndex

from tests.conftest import random_edges, random_factors, to_csr
from tgnn.ops import cpp_build, neighbor_product, neighbor_sum, segment_product, use_backend
from tgnn.ops import graph as graphs
from tgnn.ops import graph_cache as cache


def forms(edges: torch.Tensor, num_src: int, num_dst: int) -> dict[str, tuple[object, torch.Tensor]]:
    """One graph in all forms, each with the place of its edges in ``edges``."""
    by_row, by_col = edges[0].argsort(stable=True), edges[1].argsort(stable=True)
    size = (num_src, num_dst)
    return {
        "edge_index": (edges, torch.arange(edges.size(1))),
        "int32": (edges.int(), torch.arange(edges.size(1))),
        "not contiguous": (edges.t().contiguous().t(), torch.arange(edges.size(1))),
        "EdgeIndex, unsorted": (EdgeIndex(edges, sparse_size=size), torch.arange(edges.size(1))),
        "EdgeIndex, by row": (EdgeIndex(edges[:, by_row], sort_order="row", sparse_size=size), by_row),
        "EdgeIndex, by col": (EdgeIndex(edges[:, by_col], sort_order="col", sparse_size=size), by_col),
        "adj_t": (to_csr(edges, num_dst, num_src), by_col),
    }


EDGES = random_edges(8, 5, 30)


@pytest.mark.parametrize("form", list(forms(EDGES, 8, 5)))
def test_all_forms_agree(form, backend):
    graph, place = forms(EDGES, 8, 5)[form]
    z = random_factors(8, 3, torch.float64).requires_grad_()
    addend = random_factors(30, 3, torch.float64, seed=2).requires_grad_()
    weight = torch.rand(30, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    seed = random_factors(5, 3, torch.float64, seed=5)
    with use_backend("reference"):
        expected = neighbor_product(z, EDGES, size=(8, 5), edge_addend=addend, edge_weight=weight)
        expected_grads = torch.autograd.grad(expected, (z, addend, weight), seed)
    with use_backend(backend):
        found = neighbor_product(z, graph, size=(8, 5), edge_addend=addend[place], edge_weight=weight[place])
        found_grads = torch.autograd.grad(found, (z, addend, weight), seed)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found_grads, expected_grads)


def test_sparse_tensor_of_torch_sparse():
    torch_sparse = pytest.importorskip("torch_sparse", reason="torch-sparse is not installed")
    z = random_factors(8, 3, torch.float64)
    adj_t = torch_sparse.SparseTensor.from_edge_index(EDGES, sparse_sizes=(8, 5)).t()
    torch.testing.assert_close(neighbor_product(z, adj_t), neighbor_product(z, EDGES, size=(8, 5)))


def test_an_undirected_edge_index():
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    graph = EdgeIndex(edges, sort_order="row", is_undirected=True, sparse_size=(4, 4))
    z = random_factors(4, 2, torch.float64).requires_grad_()
    for a, b in zip(
        torch.autograd.grad(neighbor_product(z, graph).sum(), z),
        torch.autograd.grad(neighbor_product(z, edges).sum(), z),
    ):
        torch.testing.assert_close(a, b)


def test_an_edge_index_of_unknown_size():
    graph = EdgeIndex(torch.tensor([[0, 1], [1, 1]]), sort_order="col")  # says nothing of nodes 2 and 3
    z = torch.tensor([[2.0], [3.0], [5.0], [7.0]], requires_grad=True)
    out = neighbor_product(z, graph)
    assert out.flatten().tolist() == [1.0, 6.0, 1.0, 1.0]
    assert torch.autograd.grad(out.sum(), z)[0].flatten().tolist() == [3.0, 2.0, 0.0, 0.0]


class Count:
    """Counts how often a graph is built."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        original = graphs._build

        def counted(*arguments):
            self.calls += 1
            return original(*arguments)

        monkeypatch.setattr(graphs, "_build", counted)


def train_step(z: torch.Tensor, graph: object) -> None:
    torch.autograd.grad(neighbor_product(z, graph, activation="tanh").sum(), z)


def test_a_graph_is_grouped_once(monkeypatch):
    count, edges, z = Count(monkeypatch), random_edges(9, 9, 40, seed=11), random_factors(9, 2, torch.float32)
    z.requires_grad_()
    for _ in range(5):
        train_step(z, edges)
    assert count.calls == 1


def test_the_caches_of_an_edge_index_are_used(monkeypatch):
    edges = random_edges(9, 9, 40, seed=12)
    graph = EdgeIndex(edges[:, edges[1].argsort(stable=True)], sort_order="col", sparse_size=(9, 9)).fill_cache_()
    z = random_factors(9, 2, torch.float32).requires_grad_()
    count = Count(monkeypatch)
    monkeypatch.setattr(torch, "sort", None)
    train_step(z, graph)
    assert count.calls == 0


def test_a_change_in_place_is_seen():
    edges, z = torch.tensor([[0, 1], [2, 2]]), torch.tensor([[2.0], [3.0], [5.0]])
    assert neighbor_product(z, edges)[2].item() == 6
    edges[0, 1] = 2
    assert neighbor_product(z, edges)[2].item() == 10
    edges.set_(torch.tensor([[1, 2], [2, 2]]))  # the storage is replaced
    assert neighbor_product(z, edges)[2].item() == 15
    edges.data = torch.tensor([[0, 0], [2, 2]])  # another storage, the same version counter
    assert neighbor_product(z, edges)[2].item() == 4


def test_a_view_of_another_type_is_another_graph():
    x, index = torch.tensor([[2.0], [3.0]]), torch.tensor([1, 1])
    assert segment_product(x, index, dim_size=2).tolist() == [[1.0], [6.0]]
    assert segment_product(x, index.view(torch.int32)[:2], dim_size=2).tolist() == [[3.0], [2.0]]


def test_node_numbers_beyond_32_bits():
    graph = graphs.get_graph("edges", torch.tensor([[2**31], [0]]), None, 2**31 + 1, 1)
    assert graph.by_dst().index.tolist() == [2**31]


def test_freed_graphs_are_dropped_by_the_garbage_collector():
    gc.collect()
    before = len(cache._entries)
    edges = random_edges(9, 9, 40, seed=5)
    neighbor_product(random_factors(9, 2, torch.float32), edges)
    assert len(cache._entries) == before + 1
    assert graphs._most_recent is not None
    graph = weakref.ref(graphs._most_recent.graph)
    del edges
    gc.collect()
    assert len(cache._entries) == before
    assert graph() is None


def test_graphs_beyond_the_limit_are_forgotten_and_still_right():
    z = torch.tensor([[2.0], [3.0]])
    kept = [torch.tensor([[i % 2], [0]]) for i in range(cache._MAX_ENTRIES + 10)]
    for _ in range(2):
        for i, edges in enumerate(kept):
            assert neighbor_product(z, edges)[0].item() == [2.0, 3.0][i % 2]
    assert len(cache._entries) <= cache._MAX_ENTRIES


@pytest.mark.parametrize("lib", [True, False], ids=["counting sort in C++", "torch.sort"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_grouping_is_stable(lib, dtype, monkeypatch):
    if not lib:
        monkeypatch.setattr(cpp_build, "load", lambda: None)
    elif cpp_build.load() is None:
        pytest.skip(str(cpp_build.why_unavailable()))
    key, other = random_edges(6, 50, 400).to(dtype)
    found = graphs.group(key, other, 7, torch.int32)
    order = key.argsort(stable=True)
    assert found.perm is not None
    assert found.perm.tolist() == order.tolist()
    assert found.index.tolist() == other[order].tolist()
    assert found.ptr.tolist() == [int((key < i).sum()) for i in range(8)]


def test_empty_and_extreme_shapes():
    none = torch.empty(2, 0, dtype=torch.int64)
    assert neighbor_product(torch.empty(0, 4), none).shape == (0, 4)
    assert neighbor_product(torch.empty(3, 0), none).shape == (3, 0)
    assert (
        neighbor_product(torch.randn(3, 2), none, activation="tanh").tolist() == [[pytest.approx(0.76159416)] * 2] * 3
    )
    assert segment_product(torch.empty(0, 2), torch.empty(0, dtype=torch.int64)).shape == (0, 2)
    assert (
        segment_product(torch.empty(0, 2, 3), torch.empty(0, dtype=torch.int64), dim_size=2).tolist()
        == [[[1.0] * 3] * 2] * 2
    )
    assert segment_product(torch.randn(4, 2, 3), ptr=torch.tensor([0, 1, 4])).shape == (2, 2, 3)
    assert segment_product(torch.tensor([2.0, 4.0]), ptr=torch.tensor([0, 0, 2, 2])).tolist() == [1.0, 8.0, 1.0]


def test_a_view_of_factors():
    """Rows that do not lie next to each other in memory."""
    wide = random_factors(6, 8, torch.float32)
    edges = random_edges(6, 6, 20)
    torch.testing.assert_close(neighbor_product(wide[:, ::2], edges), neighbor_product(wide[:, ::2].clone(), edges))


@pytest.mark.parametrize("sort_order", [None, "col"])
def test_a_change_of_an_edge_index_in_place_is_seen(sort_order):
    z = random_factors(3, 2, torch.float32)
    graph = EdgeIndex(torch.tensor([[0, 0, 1, 2], [1, 2, 2, 0]]), sparse_size=(3, 3))
    graph = graph.sort_by(sort_order).values if sort_order else graph
    neighbor_product(z, graph)
    graph[1, 0] = 0
    torch.testing.assert_close(neighbor_product(z, graph), neighbor_product(z, graph.as_tensor().clone()))


def test_compiled_code_that_reuses_its_buffers():
    def twice(x, edges):
        return neighbor_sum(neighbor_product(x, edges.flip(0)), (edges + 1) % 4)

    x, edges = random_factors(4, 3, torch.float32), torch.tensor([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 2, 0]])
    compiled = torch.compile(twice, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, edges), twice(x, edges))
        edges = edges.roll(1, 1) % 4


def test_a_default_device_elsewhere():
    x, edges = random_factors(4, 3, torch.float32), torch.tensor([[3, 1, 2], [1, 0, 3]])
    with torch.device("meta"):
        found = neighbor_sum(x, edges)
    torch.testing.assert_close(found, neighbor_sum(x, edges.clone()))
