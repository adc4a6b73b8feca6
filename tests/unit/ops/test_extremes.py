"""Inputs at the ends of the range of a type, NaN beside zeros, mixed types and unusual tensors."""

from __future__ import annotations

import math

import pytest
import torch

from tests.conftest import random_edges, random_factors
from tgnn import CPAggregation, TGNNConv
from tgnn.ops import (
    exclusive_product,
    exclusive_sum,
    gated_sum,
    neighbor_product,
    neighbor_sum,
    segment_product,
    sparse_matmul,
    use_backend,
)

EDGES = random_edges(6, 6, 20)


def star(count: int) -> torch.Tensor:
    """Edges from all nodes to node 0."""
    return torch.stack([torch.arange(count), torch.zeros(count, dtype=torch.int64)])


STAR = torch.cat([star(24), torch.stack([torch.arange(24), torch.ones(24, dtype=torch.int64)])], dim=1)


@pytest.mark.parametrize("activation", ["tanh", None])
def test_second_derivatives_of_a_product_beyond_the_range(backend, activation):
    z = torch.full((8, 1), 1e60, dtype=torch.float64, requires_grad=True)
    with use_backend(backend):
        out = neighbor_product(z, star(8), size=(8, 1), activation=activation)
        (first,) = torch.autograd.grad(out.sum(), z, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), z)
    assert not second.isnan().any()
    if activation == "tanh":
        assert not second.any()


@pytest.mark.parametrize("activation", ["tanh", None])
def test_second_derivatives_of_a_zero_beside_factors_beyond_the_range(backend, activation):
    """The derivative by the zero factor is too large for float64. Times the zero, it must not give NaN."""
    z = torch.full((9, 1), 1e60, dtype=torch.float64)
    z[0] = 0
    z.requires_grad_()
    with use_backend(backend):
        out = neighbor_product(z, star(9), size=(9, 1), activation=activation)
        (first,) = torch.autograd.grad(out.sum(), z, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), z)
    assert second.isfinite().all()
    assert (second[1:] > 0).all()


@pytest.mark.parametrize(("dtype", "edges", "largest"), [(torch.float64, EDGES, 300), (torch.float32, STAR, 38)])
def test_gradients_with_saturated_columns(backend, dtype, edges, largest):
    """Columns of both signs whose gradients are too large for float64."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        nodes, count = int(edges.max()) + 1, edges.size(1)
        sign = torch.where(torch.rand(nodes, 64, generator=generator) < 0.5, -1.0, 1.0)
        sizes = 10.0 ** (torch.rand(nodes, 64, generator=generator, dtype=torch.float64) * largest)
        z = (sign * sizes).to(dtype).requires_grad_()
        weight = torch.rand(count, generator=generator).to(dtype).requires_grad_()
        with use_backend(backend):
            gradients = torch.autograd.grad(neighbor_product(z, edges, edge_weight=weight).sum(), (z, weight))
        assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("operands", ["weight", "weight, two-ended"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_saturated_columns_that_cancel(backend, dtype, operands):
    """The gradient of a weight is a sum over columns: two are the largest number of float64, two are minus it."""
    z = torch.full((24, 4), 1e38, dtype=dtype)
    z[0, 2:] *= -1
    weight = torch.ones(24, dtype=dtype, requires_grad=True)
    more = {"z_dst": torch.zeros(1, 4, dtype=dtype)} if "two-ended" in operands else {}
    with use_backend(backend):
        out = neighbor_product(z, star(24), size=(24, 1), edge_weight=weight, **more)
        (grad,) = torch.autograd.grad(out, weight, torch.ones_like(out))
    assert not grad.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_edge_operands_wider_than_the_factors(backend, dtype):
    z = random_factors(6, 3, dtype).requires_grad_()
    weight = torch.rand(20, dtype=torch.float64).requires_grad_()
    addend = random_factors(20, 3, torch.float64).requires_grad_()
    with use_backend(backend):
        out = neighbor_product(z, EDGES, edge_weight=weight, edge_addend=addend)
        total = neighbor_sum(z, EDGES, edge_weight=weight)
        assert out.dtype == total.dtype == dtype
        for result in (out, total, gated_sum(z, EDGES, gate_edge=addend, edge_weight=weight)):
            result.float().sum().backward()
    assert (z.grad.dtype, weight.grad.dtype, addend.grad.dtype) == (dtype, torch.float64, torch.float64)


def test_wider_edge_operands_are_not_rounded(backend):
    """Weights and terms in float64 that float32 cannot hold, with factors in float32."""
    z, x, edges, size = torch.tensor([[3.0], [-1.0]]), torch.tensor([[1.0], [-1.0]]), star(2), (2, 1)
    small = torch.tensor([0.0, 1e-10], dtype=torch.float64)
    addend = torch.tensor([[0.0], [1.0]]) + small.unsqueeze(1)
    with use_backend(backend):
        for found, expected in (
            (neighbor_product(z, edges, size=size, edge_weight=torch.tensor([1.0, 0.5]) + small), -6e-10),
            (neighbor_product(z, edges, size=size, edge_addend=addend), 3e-10),
            (exclusive_product(z, edges, size=size, edge_addend=addend)[0], 1e-10),
            (neighbor_sum(x, edges, size=size, edge_weight=1 + small), -1e-10),
            (gated_sum(x, edges, size=size, gate_edge=small.unsqueeze(1)), -2.5e-11),
        ):
            assert found.item() == pytest.approx(expected, rel=1e-6, abs=0)


@pytest.mark.parametrize("options", [{"edge_dim": 4}, {"factors": "weighted"}, {"factors": "tempered", "edge_dim": 4}])
def test_layers_under_another_default_type(options):
    x, attr = torch.randn(6, 5), torch.randn(20, 4) if "edge_dim" in options else None
    conv = TGNNConv(5, 3, 2, **options)
    expected = conv(x, EDGES, edge_attr=attr)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        found = conv(x, EDGES.clone(), edge_attr=attr)
        found.sum().backward()
        wide = TGNNConv(5, 3, 2, **options)
        wide(x.double(), EDGES.clone(), edge_attr=None if attr is None else attr.double()).sum().backward()
    finally:
        torch.set_default_dtype(before)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("activation", [None, "tanh"])
@pytest.mark.parametrize("operands", ["plain", "weight", "two-ended"])
def test_a_nan_beside_zeros_is_not_hidden(backend, operands, activation, dtype):
    z = torch.tensor([[math.nan, 1.0], [0.0, 0.0], [0.0, 5.0], [3.0, 4.0]], dtype=dtype, requires_grad=True)
    edges = torch.tensor([[0, 1, 2, 3, 3], [0, 0, 0, 0, 1]])
    more = {"plain": {}, "weight": {"edge_weight": torch.ones(5, dtype=dtype)}}.get(
        operands, {"z_dst": torch.zeros(2, 2, dtype=dtype)}
    )
    with use_backend(backend):
        out = neighbor_product(z, edges, size=(4, 2), activation=activation, **more)
        (grad,) = torch.autograd.grad(out[0].sum(), z)
    assert out.isnan().tolist() == [[True, False], [False, False]]
    assert grad.isnan().tolist() == [[True, False]] * 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("activation", [None, "tanh"])
def test_a_nan_beside_zeros_is_not_hidden_in_products_of_the_others(backend, activation, dtype):
    """The first product leaves the NaN out. The gradients depend on the other two products."""
    z = torch.tensor([[math.nan, 1.0], [0.0, 0.0], [3.0, 4.0]], dtype=dtype, requires_grad=True)
    with use_backend(backend):
        out = exclusive_product(z, star(3), size=(3, 1), activation=activation)
        (grad,) = torch.autograd.grad(out.sum(), z)
    assert out.isnan().tolist() == [[False, False], [True, False], [True, False]]
    assert grad.isnan().tolist() == [[True, False]] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rank", [3, 32])
def test_a_nan_that_no_product_contains_has_gradient_zero(backend, rank, dtype):
    z = torch.ones(3, rank, dtype=dtype)
    z[2] = math.nan
    z.requires_grad_()
    with use_backend(backend):
        out = neighbor_product(z, torch.tensor([[0, 1], [0, 0]]), activation="tanh")
        (grad,) = torch.autograd.grad(out.sum(), z)
    assert grad[:2].all()
    assert not grad[2].any()


def test_sums_of_float64_terms_beyond_the_range(backend):
    z = torch.tensor([[1.5e308], [1e-307]], dtype=torch.float64, requires_grad=True)
    addend = torch.tensor([[1.5e308], [0.0]], dtype=torch.float64, requires_grad=True)
    with use_backend(backend):
        out = neighbor_product(z, star(2), size=(2, 1), edge_addend=addend)
        grad_z, grad_addend = torch.autograd.grad(out, (z, addend))
    assert out.item() == pytest.approx(30.0, rel=1e-15)
    assert grad_z.flatten().tolist() == pytest.approx([1e-307, torch.finfo(torch.float64).max], rel=1e-14, abs=0)
    assert grad_addend.flatten().tolist() == grad_z.flatten().tolist()


@pytest.mark.parametrize("product", [300.0, 360.0, 400.0, 600.0])
def test_slopes_of_tanh_that_underflow(backend, product):
    """The slope is below the smallest number, but the product of the other factors is large."""
    z = torch.tensor([[1e-300], [product * 1e300 / 1e10], [1e10]], dtype=torch.float64, requires_grad=True)
    with use_backend(backend):
        for operands in ({}, {"z_dst": torch.zeros(1, 1, dtype=torch.float64)}):
            out = neighbor_product(z, star(3), size=(3, 1), activation="tanh", **operands)
            (grad,) = torch.autograd.grad(out, z)
            expected = math.exp(math.log(4) - 2 * product + math.log(product) - math.log(1e-300))
            assert grad[0].item() == pytest.approx(expected, rel=1e-10, abs=0)


def test_negative_views_and_zero_tensors(backend):
    positive = random_factors(6, 3, torch.float32)
    negative, zero = torch._neg_view(positive), torch._efficientzerotensor((6, 3))
    gates = torch._efficientzerotensor((20, 3))
    with use_backend(backend):
        torch.testing.assert_close(neighbor_product(negative, EDGES), neighbor_product(-positive, EDGES))
        torch.testing.assert_close(neighbor_sum(negative, EDGES), neighbor_sum(-positive, EDGES))
        assert neighbor_product(zero, EDGES)[EDGES[1]].eq(0).all()
        total = gated_sum(positive, EDGES, gate_edge=gates)
        torch.testing.assert_close(total, 0.5 * neighbor_sum(positive, EDGES))
        z = positive.clone().requires_grad_()
        out = neighbor_product(z, EDGES)
        (found,) = torch.autograd.grad(out, z, torch._neg_view(torch.ones(6, 3)), retain_graph=True)
        torch.testing.assert_close(found, torch.autograd.grad(out, z, -torch.ones(6, 3))[0])
        index = torch._neg_view(-EDGES)
        torch.testing.assert_close(neighbor_product(positive, index), neighbor_product(positive, EDGES))


def test_scaled_sets_of_70_000_rows_in_half_precision():
    layer = CPAggregation(2, 2, rank=3, scaled=True, bias_init=-2.0).half()  # 1 + (z - 1) / sqrt(k) is not rounded to 1
    x = torch.ones(70_000, 2, dtype=torch.float16)
    ptr, index = torch.tensor([0, 70_000]), torch.zeros(70_000, dtype=torch.int64)
    found = layer(x, ptr=ptr)
    torch.testing.assert_close(found, layer(x, index))
    assert not found.any()  # 0.989 ** 70_000


# ---- transformations of functions ------------------------------------------------------------------------------

Z, SPARSE = random_factors(6, 3, torch.float32), torch.eye(6).to_sparse_csr()
FUNCTIONS = {
    "neighbor_product": lambda z: neighbor_product(z, EDGES),
    "edge factors": lambda z: neighbor_product(z, EDGES, z_dst=z),
    "exclusive_product": lambda z: exclusive_product(z, EDGES),
    "exclusive_sum": lambda z: exclusive_sum(z, EDGES),
    "gated_sum": lambda z: gated_sum(z, EDGES, gate_src=z),
    "neighbor_sum": lambda z: neighbor_sum(z, EDGES),
    "segment_product": lambda z: segment_product(z, EDGES[0, :6]),
    "sparse_matmul": lambda z: sparse_matmul(SPARSE, z),
}


@pytest.mark.filterwarnings("ignore")  # tracing warns that it does not record the checks of shapes
@pytest.mark.parametrize("function", list(FUNCTIONS))
def test_jit_trace(function):
    call = FUNCTIONS[function]
    if function == "sparse_matmul":  # torch cannot record a sparse constant

        def call(z):
            return sparse_matmul(torch.eye(6).to_sparse_csr(), z)

    traced = torch.jit.trace(call, (Z,), check_trace=False)
    torch.testing.assert_close(traced(Z + 1), call(Z + 1))


@pytest.mark.parametrize("function", list(FUNCTIONS))
def test_torch_func_and_forward_mode_say_why_not(function):
    call = FUNCTIONS[function]
    for transformed in (
        lambda: torch.func.jvp(call, (Z,), (Z,)),
        lambda: torch.func.vmap(call)(torch.stack([Z, Z])),
        lambda: torch.func.grad(lambda z: call(z).sum())(Z),
    ):
        with pytest.raises(RuntimeError, match="use torch.autograd.grad"):
            transformed()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(Z, torch.ones_like(Z))
        with pytest.raises(RuntimeError, match="forward-mode"):
            call(dual)


@pytest.mark.parametrize("factors", ["weighted", "tempered"])
def test_compiled_layers_check_their_weights(factors):
    conv = TGNNConv(3, 2, 2, factors=factors)
    compiled = torch.compile(conv, fullgraph=True, backend="aot_eager")
    with pytest.raises(ValueError, match=r"200.0, but must lie in \[0, 1\]"):
        compiled(Z, EDGES, edge_weight=torch.full((20,), 200.0))
