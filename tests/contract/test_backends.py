"""One contract, every backend: the same answer as the reference, forward and backward, on every kind of input."""

from __future__ import annotations

import functools
import os
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from torch import Tensor

from tests.conftest import ALL, random_edges, random_factors
from tgnn.ops import available_backends, neighbor_product, segment_product, use_backend

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # that is slow: fewer examples, smaller graphs
EXAMPLES = 15 if INTERPRETED else 150
GRAPHS = {  # sources, destinations, edges
    "ordinary": (10, 10, 30) if INTERPRETED else (30, 30, 120),
    "bipartite": (20, 7, 60),
    "sparse, most nodes isolated": (40, 40, 10),
    "dense, many duplicates": (5, 5, 100),
    "no edges": (6, 6, 0),
    "no nodes": (0, 0, 0),
    "one node": (1, 1, 3),
    "no destinations": (4, 0, 0),
}


def everything(
    backend: str,
    edges: Tensor,
    inputs: list[Tensor | None],
    activation: str | None,
    num_dst: int,
    exponent: float = 0.0,
):
    """Result and gradients of a product, all leaves."""
    leaves = [None if t is None else t.clone().requires_grad_() for t in inputs]
    z, addend, weight = leaves
    assert z is not None
    with use_backend(backend):
        options = {"edge_addend": addend, "edge_weight": weight, "degree_exponent": exponent}
        out = neighbor_product(z, edges, activation=activation, size=(z.size(0), num_dst), **options)
        seed = random_factors(num_dst, z.size(1), z.dtype, seed=7)
        present = [t for t in leaves if t is not None]
        return [out.detach(), *torch.autograd.grad(out, present, seed)]


def assert_same(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        # Gradients of different size stand side by side: compare with the size of the whole.
        scale = float(b.abs().max()) if b.numel() else 0.0
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * max(1.0, min(scale, 1e3)))


def grid_inputs(graph: str, dtype: torch.dtype, zeros: float, edge_terms: str) -> tuple[Tensor, list[Tensor | None]]:
    """Edges, and factors, edge terms and edge weights."""
    num_src, num_dst, num_edges = GRAPHS[graph]
    rank = {"ordinary": 5, "bipartite": 1, "dense, many duplicates": 131}.get(graph, 3)
    z = random_factors(num_src, rank, dtype, zeros)
    if zeros == 0:  # numbers around 1, so that half precision can hold a product of twenty of them
        z = (z * 0.3 + 1).to(dtype)
    unit = torch.Generator().manual_seed(4)
    addend = random_factors(num_edges, rank, dtype, seed=3) * 0.1 if "addend" in edge_terms else None
    weight = torch.rand(num_edges, generator=unit).to(dtype) if "weight" in edge_terms else None
    return random_edges(num_src, num_dst, num_edges), [z, addend, weight]


@functools.cache
def grid_reference(
    graph: str, dtype: torch.dtype, zeros: float, edge_terms: str, activation: str | None, exponent: float
) -> list[Tensor]:
    """The reference, which is slow, computes each case once for all backends."""
    edges, inputs = grid_inputs(graph, dtype, zeros, edge_terms)
    return everything("reference", edges, inputs, activation, GRAPHS[graph][1], exponent)


@pytest.mark.parametrize("activation", [None, "tanh"])
@pytest.mark.parametrize("edge_terms", ["", "addend", "weight", "addend weight"])
@pytest.mark.parametrize("zeros", [0.0, 0.1])
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("graph", list(GRAPHS))
def test_equals_the_reference(accelerated, graph, dtype, zeros, edge_terms, activation):
    edges, inputs = grid_inputs(graph, dtype, zeros, edge_terms)
    for exponent in (0.0, 0.5) if graph in ("ordinary", "one node") and inputs[1] is None else (0.0,):
        found = everything(accelerated, edges, inputs, activation, GRAPHS[graph][1], exponent)
        expected = grid_reference(graph, dtype, zeros, edge_terms, activation, exponent)
        assert_same(found, expected, TOLERANCE[dtype])


@st.composite
def problems(draw):
    """Random graphs with factors of every size, zeros among them: sources and destinations of edges, factors, N_dst."""
    num_src, num_dst = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    num_edges = draw(st.integers(0, 24))
    src = draw(st.lists(st.integers(0, num_src - 1), min_size=num_edges, max_size=num_edges))
    dst = draw(st.lists(st.integers(0, num_dst - 1), min_size=num_edges, max_size=num_edges))
    number = st.one_of(st.just(0.0), st.floats(-4, 4), st.floats(1e-30, 1e30), st.floats(-1e30, -1e-30))
    z = draw(st.lists(number.map(lambda x: torch.tensor(x).item()), min_size=num_src, max_size=num_src))
    return tuple(src), tuple(dst), tuple(z), num_dst


@functools.cache
def solve(backend: str, problem: tuple[Any, ...], activation: str | None, exponent: float) -> list[Tensor]:
    """The examples of all backends are the same, so that each is computed once by the reference."""
    src, dst, z, num_dst = problem
    edges = torch.tensor([src, dst], dtype=torch.int64).reshape(2, -1)
    return everything(backend, edges, [torch.tensor(z).unsqueeze(1), None, None], activation, num_dst, exponent)


@pytest.mark.parametrize("name", [name for name in ALL if name != "reference"])
@hypothesis.settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@hypothesis.given(problem=problems())
def test_equals_the_reference_on_random_graphs(name, problem):
    if available_backends()[name] != "available":
        pytest.skip(available_backends()[name])
    for activation, exponent in ((None, 0.0), ("tanh", 0.0), (None, 0.5), ("tanh", 1.0)):
        expected = solve("reference", problem, activation, exponent)
        found = solve(name, problem, activation, exponent)
        tiny = torch.finfo(torch.float32).tiny
        for a, b in zip(found, expected):  # to the relative precision of float32, down to its smallest normal number
            torch.testing.assert_close(a, b, rtol=2e-5, atol=2 * tiny, equal_nan=True)


def test_the_order_of_edges_does_not_matter(backend):
    count = 50 if INTERPRETED else 200
    edges, z = random_edges(12, 12, count), random_factors(12, 4, torch.float64)
    shuffled = edges[:, torch.randperm(count, generator=torch.Generator().manual_seed(0))]
    for a, b in zip(
        everything(backend, edges, [z, None, None], "tanh", 12),
        everything(backend, shuffled, [z, None, None], "tanh", 12),
    ):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_renaming_nodes_renames_the_result(backend):
    edges, z = random_edges(12, 12, 60), random_factors(12, 4, torch.float64)
    rename = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    renamed = torch.empty_like(z)
    renamed[rename] = z
    with use_backend(backend):
        torch.testing.assert_close(neighbor_product(renamed, rename[edges])[rename], neighbor_product(z, edges))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_segments_by_index_and_by_ptr(backend, dtype):
    x = random_factors(40, 6, dtype, zeros=0.05)
    index = torch.randint(7, (40,), generator=torch.Generator().manual_seed(5)).sort().values + 1
    ptr = torch.searchsorted(index, torch.arange(10))
    expected = torch.stack([x[index == i].double().prod(0) for i in range(9)]).to(dtype)
    shuffle = torch.randperm(40, generator=torch.Generator().manual_seed(6))
    with use_backend(backend):
        for found in (
            segment_product(x, index, dim_size=9),
            segment_product(x, ptr=ptr),
            segment_product(x[shuffle], index[shuffle], dim_size=9),
        ):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("zeros", [0.0, 0.1])
@pytest.mark.parametrize(("tanh", "exponent"), [(False, 0.0), (True, 0.0), (False, 0.5), (True, 0.5)])
@pytest.mark.parametrize("saver", ALL)
def test_each_reads_what_any_other_has_saved(accelerated, saver, tanh, exponent, zeros, weighted):
    """Forward by one backend, backward by another: the state and the marks of rows mean the same to all."""
    edges, z = random_edges(12, 12, 60), random_factors(12, 4, torch.float32, zeros)
    graph, grad = (edges, None, "edges", 12, 12), random_factors(12, 4, torch.float32, seed=7)
    weight = torch.rand(60, generator=torch.Generator().manual_seed(4)) if weighted else None
    with use_backend(saver):
        _, state, least = torch.ops.tgnn.neighbor_product(z, weight, *graph, tanh, exponent, True)
    with use_backend(accelerated):
        saved = (state, least, [True, weighted])
        found = torch.ops.tgnn.neighbor_product_backward(grad, z, weight, *graph, tanh, exponent, *saved)
    expected = everything("reference", edges, [z, None, weight], "tanh" if tanh else None, 12, exponent)[1:]
    assert_same(list(found[: len(expected)]), expected, TOLERANCE[torch.float32])


@pytest.mark.parametrize("zeros", [0.0, 1e-4])
@pytest.mark.parametrize("rank", [40, 130])
def test_tables_larger_than_a_cache(rank, zeros):
    """The cpp backend divides the columns of large tables into other blocks than those of small ones."""
    nodes = 17_000
    edges, z = random_edges(nodes, nodes, 30_000), random_factors(nodes, rank, torch.float32, zeros)
    names = [name for name in ("cpp", "torch") if available_backends()[name] == "available"]
    found, expected = (everything(name, edges, [z, None, None], "tanh", nodes) for name in (names[0], "torch"))
    assert_same(found, expected, TOLERANCE[torch.float32])
