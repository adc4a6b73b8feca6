"""Derivatives of first and second order, and the operator as torch sees it."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric import EdgeIndex

from tests.conftest import random_edges, random_factors
from tgnn.ops import neighbor_product, neighbor_sum, segment_product, use_backend

EDGES = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 3], [0, 0, 0, 1, 1, 2, 2, 2, 2]])
WITH_ZEROS = {  # rows of z that are zero: sets {0,1,2}, {3,0}, {1,2,3,3}
    "no zero": [],
    "one zero in a set": [1],
    "two zeros in a set": [1, 2],
    "the same zero twice": [3],
}


@pytest.mark.parametrize("activation", [None, "tanh"])
@pytest.mark.parametrize("zeros", list(WITH_ZEROS))
@pytest.mark.parametrize("edge_terms", [False, True])
def test_first_and_second_derivatives(backend, zeros, activation, edge_terms):
    z = random_factors(4, 2, torch.float64)
    z[WITH_ZEROS[zeros], 0] = 0
    inputs = [z]
    if edge_terms:
        addend = random_factors(9, 2, torch.float64, seed=2) * 0.5
        addend[:, 0] = 0  # keep the zeros
        inputs += [addend, torch.rand(9, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 0.8 + 0.1]
        inputs[2][[1, 2, 5, 6]] = 0.999
    inputs = [t.requires_grad_() for t in inputs]

    def function(z, addend=None, weight=None):
        return neighbor_product(z, EDGES, activation=activation, edge_addend=addend, edge_weight=weight, size=(4, 4))

    with use_backend(backend):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


def test_derivatives_of_segments(backend):
    x = random_factors(6, 2, torch.float64)
    x[1, 0] = x[4, 1] = x[5, 1] = 0
    index = torch.tensor([2, 0, 0, 2, 3, 3])
    with use_backend(backend):
        for activation in (None, "tanh"):

            def function(x, activation=activation):
                return segment_product(x, index, activation=activation)

            assert torch.autograd.gradcheck(function, x.requires_grad_())
            assert torch.autograd.gradgradcheck(function, x)


def test_gradients_equal_those_of_torch_prod():
    """An oracle that shares no code with ours: torch's own product, differentiated by torch."""
    edges, z = random_edges(9, 9, 40), random_factors(9, 3, torch.float64, zeros=0.1).requires_grad_()
    expected = torch.stack([z[edges[0, edges[1] == v]].prod(0) for v in range(9)])
    seed = random_factors(9, 3, torch.float64, seed=3)
    (grad,) = torch.autograd.grad(expected, z, seed)
    out = neighbor_product(z, edges)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(torch.autograd.grad(out, z, seed)[0], grad)


def by_torch(z: torch.Tensor, edges: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """The product from torch's own operations."""
    factors = z[edges[0]]
    if weight is not None:
        factors = weight.unsqueeze(1) * factors + (1 - weight.unsqueeze(1))
    return torch.stack([factors[edges[1] == v].prod(0) for v in range(z.size(0))])


@pytest.mark.parametrize("dependent_weight", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
def test_second_derivatives_of_a_whole_network(dependent_weight, create_graph):
    """The gradient of the result depends on z, and so may the weights: nothing must be counted twice."""
    z = random_factors(5, 2, torch.float64).requires_grad_()
    edges = random_edges(5, 5, 14)

    def second(product):
        hidden = torch.sin(z) + 1
        weight = torch.sigmoid(hidden[edges[0]].sum(1)) if dependent_weight else None
        (first,) = torch.autograd.grad((product(hidden, edges, weight) ** 2).sum(), z, create_graph=True)
        return torch.autograd.grad((first**2).sum(), z, create_graph=create_graph)[0]

    ours = second(lambda z, edges, weight: neighbor_product(z, edges, edge_weight=weight))
    torch.testing.assert_close(ours, second(by_torch))


def test_second_derivatives_at_the_ends_of_the_range():
    edges = torch.tensor([[0, 1, 2], [0, 0, 0]])
    for exponent in (340, -340):
        z = torch.full((3, 1), 2.0**exponent, dtype=torch.float64, requires_grad=True)
        (first,) = torch.autograd.grad(neighbor_product(z, edges, size=(3, 1)), z, create_graph=True)
        (second,) = torch.autograd.grad(first[0], z)
        assert second.flatten().tolist() == [0.0, 2.0**exponent, 2.0**exponent]


@pytest.mark.parametrize("what", ["edge_addend", "edge_weight"])
def test_edge_terms_of_a_graph_without_edges(backend, what):
    term = torch.zeros((0, 2) if what == "edge_addend" else (0,), requires_grad=True)
    with use_backend(backend):
        neighbor_product(torch.randn(3, 2), torch.empty(2, 0, dtype=torch.int64), **{what: term}).sum().backward()
    assert term.grad.shape == term.shape


def test_third_derivative():
    z = torch.tensor([[0.5], [0.0], [2.0]], dtype=torch.float64, requires_grad=True)
    edges = torch.tensor([[0, 1, 2], [0, 0, 0]])
    out = neighbor_product(z, edges, size=(3, 1))
    (first,) = torch.autograd.grad(out, z, create_graph=True)
    (second,) = torch.autograd.grad(first[0], z, create_graph=True)  # d/dz of z1 z2
    (third,) = torch.autograd.grad(second[1], z)  # d/dz of z2
    assert third.flatten().tolist() == [0.0, 0.0, 1.0]


def test_only_what_is_asked_for_is_computed():
    z, weight = random_factors(4, 2, torch.float32), torch.rand(9).requires_grad_()
    out = neighbor_product(z, EDGES, edge_weight=weight, size=(4, 4))
    (grad,) = torch.autograd.grad(out.sum(), weight)
    assert grad.shape == (9,)
    with torch.inference_mode():
        torch.testing.assert_close(neighbor_product(z, EDGES.clone(), edge_weight=weight, size=(4, 4)), out.detach())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_opcheck(dtype, weighted):
    z = random_factors(5, 3, dtype).requires_grad_()
    weight = torch.rand(9).requires_grad_() if weighted else None
    graph = (EDGES, None, "edges", 5, 6)
    torch.library.opcheck(torch.ops.tgnn.neighbor_product.default, (z, weight, *graph, True, 0.5, True))
    out, *saved = torch.ops.tgnn.neighbor_product(z, weight, *graph, True, 0.5, True)
    inputs = (torch.randn(out.shape).to(dtype), z.detach(), None if weight is None else weight.detach())
    backward = (*inputs, *graph, True, 0.5, *(t.detach() for t in saved), [True, weighted])
    torch.library.opcheck(torch.ops.tgnn.neighbor_product_backward.default, backward)


@pytest.mark.parametrize("sort_order", [None, "col", "row"])
@pytest.mark.parametrize("kind", ["edge_index", "EdgeIndex"])
def test_compiles_whole(kind, sort_order):
    z, weight = random_factors(6, 3, torch.float32).requires_grad_(), torch.rand(9).requires_grad_()
    edges = EDGES if sort_order is None else EDGES[:, EDGES[0 if sort_order == "row" else 1].argsort(stable=True)]
    if kind == "EdgeIndex":
        edges = EdgeIndex(edges, sort_order=sort_order, sparse_size=(6, 6))

    def layer(z, edges, weight):
        return neighbor_product(torch.sin(z), edges, activation="tanh", edge_weight=weight).square().sum()

    expected = torch.autograd.grad(layer(z, edges, weight), (z, weight))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        for a, b in zip(torch.autograd.grad(compiled(z, edges, weight), (z, weight)), expected):
            torch.testing.assert_close(a, b)


def test_compiles_with_inductor():
    """The default compiler, which generates and builds code; another number of nodes must not break the graph."""
    compiled = torch.compile(
        lambda z, edges: neighbor_product(z + 1, edges, activation="tanh").sum(), fullgraph=True, dynamic=True
    )
    for rows in (6, 11):
        z = random_factors(rows, 3, torch.float32).requires_grad_()
        edges = random_edges(rows, rows, 20, seed=rows)
        (expected,) = torch.autograd.grad(neighbor_product(z + 1, edges, activation="tanh").sum(), z)
        torch.testing.assert_close(torch.autograd.grad(compiled(z, edges), z)[0], expected)


# ---- direct calls and calls through the dispatcher ---------------------------------------------------------------

GRAPH = random_edges(6, 6, 20)


class Watch(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


def product(z):
    return neighbor_product(z, GRAPH, activation="tanh")


def total(z):
    return neighbor_sum(z, GRAPH)


@pytest.mark.parametrize(("operator", "name"), [(product, "neighbor_product"), (total, "neighbor_sum")])
def test_the_same_with_and_without_the_dispatcher(operator, name):
    z = random_factors(6, 3, torch.float32).requires_grad_()
    direct = operator(z)
    (gradient,) = torch.autograd.grad(direct.sum(), z, retain_graph=True)
    assert torch.equal(torch.autograd.grad(direct.sum(), z)[0], gradient)  # the backward pass can run again
    with Watch() as watch:
        seen = operator(z)
        (seen_gradient,) = torch.autograd.grad(seen.sum(), z)
    assert torch.equal(seen, direct)
    assert torch.equal(seen_gradient, gradient)
    assert f"tgnn.{name}.default" in watch.seen
    assert any("backward" in call or call == "tgnn.neighbor_sum.default" for call in watch.seen)


@pytest.mark.parametrize("operator", [product, total])
def test_not_tracked_where_nothing_requires_it(operator):
    z = random_factors(6, 3, torch.float32)
    assert not operator(z).requires_grad
    z.requires_grad_()
    assert operator(z).requires_grad
    with torch.no_grad():
        assert not operator(z).requires_grad
    with torch.inference_mode():
        assert not operator(z).requires_grad


def test_meta_tensors_have_shapes_only():
    z = torch.empty(6, 3, device="meta")
    with pytest.raises(ValueError, match="graph is on cpu, but z is on meta"):
        product(z)
