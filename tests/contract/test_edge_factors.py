"""Factors that belong to edges: every backend against the reference, and the reference against 50 digits."""

from __future__ import annotations

import functools
import os
from typing import Any

import mpmath
import pytest
import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from tests.conftest import random_edges, random_factors, to_csr
from tgnn.ops import exclusive_product, exclusive_sum, gated_sum, neighbor_product, use_backend

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
TOLERANCE = {torch.float64: 1e-10, torch.float32: 4e-6, torch.bfloat16: 3e-2, torch.float16: 4e-3}
GRAPHS = {  # sources, destinations, edges, columns
    "ordinary": (12, 12, 50, 5),
    "bipartite": (9, 4, 20, 1),
    "many duplicates, wide": (5, 5, 100, 131),
    "most nodes isolated": (30, 30, 8, 3),
    "no edges": (6, 6, 0, 3),
    "no nodes": (0, 0, 0, 3),
}
TERMS = {
    "two ends": ("z", "z_dst"),
    "two ends and edges": ("z", "z_dst", "edge_addend"),
    "types": ("z", "z_dst", "types"),
    "edges only": ("edge_addend",),
    "gate": ("z", "gate"),
    "gate by column": ("z", "edge_addend", "gate by column"),
    "affine": ("z", "scale", "shift"),
    "affine by column, gate": ("z", "z_dst", "scale by column", "shift by column", "gate"),
}
ACTIVATIONS = (None, "tanh", "sigmoid", "bounded")


def operands(terms: tuple[str, ...], graph: str, dtype: torch.dtype, zeros: float = 0.0) -> dict[str, Tensor]:
    """Random operands of a product, by argument name."""
    num_src, num_dst, num_edges, rank = GRAPHS[graph]
    unit = torch.Generator().manual_seed(4)
    made: dict[str, Tensor] = {}
    for name in terms:
        shape = (num_edges, rank) if "by column" in name else (num_edges,)
        if name == "z":
            made["z"] = random_factors(num_src, rank, dtype, zeros, seed=1)
        elif name == "z_dst":
            made["z_dst"] = (random_factors(num_dst, rank, dtype, seed=2) * (0.5 if zeros == 0 else 0)).to(dtype)
        elif name == "edge_addend":
            made["edge_addend"] = (random_factors(num_edges, rank, dtype, seed=3) * (0.5 if zeros == 0 else 0)).to(
                dtype
            )
        elif name == "types":
            made["edge_addend"] = random_factors(4, rank, dtype, seed=3) * 0.5
        elif name.startswith("gate"):
            made["edge_weight"] = torch.rand(shape, generator=unit).to(dtype)
        elif name.startswith("scale"):
            made["edge_scale"] = (torch.rand(shape, generator=unit) + 0.5).to(dtype)
        else:
            made["edge_shift"] = (torch.rand(shape, generator=unit) - 0.5).to(dtype)
    return made


def types_of(terms: tuple[str, ...], num_edges: int) -> dict[str, Tensor]:
    return {"edge_type": torch.arange(num_edges) % 4} if "types" in terms else {}


def value_and_gradients(function: Any, edges: Any, made: dict[str, Tensor], size: tuple[int, int], **options: Any):
    """Result and gradients of all operands."""
    leaves = {name: t.clone().requires_grad_() for name, t in made.items()}
    out = function(leaves.get("z"), edges, size=size, **{n: t for n, t in leaves.items() if n != "z"}, **options)
    seed = random_factors(*out.shape, out.dtype, seed=7)
    return [out.detach(), *torch.autograd.grad(out, list(leaves.values()), seed)]


def assert_same(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        scale = min(float(b.abs().max()), 1e3) if b.numel() else 0.0
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * max(1.0, scale))


CASES = [(graph, torch.float32) for graph in GRAPHS] + [("ordinary", d) for d in TOLERANCE if d != torch.float32]


def solve(backend: str, graph: str, dtype: torch.dtype, terms: str, function: Any, **options: Any) -> list[Tensor]:
    num_src, num_dst, num_edges, _ = GRAPHS[graph]
    edges, made = random_edges(num_src, num_dst, num_edges), operands(TERMS[terms], graph, dtype)
    options |= types_of(TERMS[terms], num_edges)
    with use_backend(backend):
        return value_and_gradients(function, edges, made, (num_src, num_dst), **options)


@functools.cache
def reference(*case: Any, **options: Any) -> list[Tensor]:
    """The reference, which is slow, computes each case once for all backends."""
    return solve("reference", *case, **options)


@pytest.mark.parametrize("terms", list(TERMS))
@pytest.mark.parametrize(("graph", "dtype"), CASES, ids=str)
def test_products_equal_the_reference(accelerated, graph, dtype, terms):
    activations = ACTIVATIONS if (graph, dtype) == ("ordinary", torch.float32) and not INTERPRETED else ("bounded",)
    for factor_activation in activations:
        for function, more in (
            (neighbor_product, {"degree_exponent": 0.5, "activation": None}),
            (neighbor_product, {"activation": "tanh"}),
            (exclusive_product, {}),
            (exclusive_product, {"activation": "tanh"}),
            (exclusive_product, {"degree_exponent": 0.5}),
        ):
            case, options = (graph, dtype, terms, function), {"factor_activation": factor_activation, "bound": 0.9}
            found = solve(accelerated, *case, **options, **more)
            assert_same(found, reference(*case, **options, **more), TOLERANCE[dtype])


@pytest.mark.parametrize("options", [{}, {"activation": "tanh"}, {"degree_exponent": 0.5}, {"bound": 0.999}], ids=str)
@pytest.mark.parametrize("terms", ["two ends", "two ends and edges", "types"])
def test_hubs_of_bounded_factors(accelerated, terms, options):
    """Rows of 70, 140 and 300 edges: their products leave the range of float, and one has a NaN among its factors."""
    unit = torch.Generator().manual_seed(5)
    dst = torch.arange(4).repeat_interleave(torch.tensor([3, 70, 140, 300]))
    order = torch.randperm(dst.numel(), generator=unit)
    edges = torch.stack([torch.randint(40, dst.shape, generator=unit), dst])[:, order]
    sizes = {"z": 40, "z_dst": 4, "edge_addend": 4 if terms == "types" else dst.numel()}
    used = [name for name in sizes if name in TERMS[terms] or (terms == "types" and name == "edge_addend")]
    made = {name: torch.randn(sizes[name], 75, generator=unit) for name in used}
    made["z"][0, 3] = torch.nan  # a source of some rows
    types = types_of(TERMS[terms], dst.numel())
    for function in (neighbor_product, exclusive_product):
        if function is exclusive_product and "bound" in options:
            continue
        arguments = {**types, "factor_activation": "bounded", "bound": 0.9, **options}
        with use_backend("reference"):
            expected = value_and_gradients(function, edges, made, (40, 4), **arguments)
        with use_backend(accelerated):
            found = value_and_gradients(function, edges, made, (40, 4), **arguments)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=4e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
@pytest.mark.parametrize("terms", ["edges", "two ends", "types"])
def test_other_edges_of_rows_of_squashed_factors(accelerated, name, terms):
    """Rows of 1 to 140 edges. The factors are near 1 or -1, so that products do not vanish, except for some zeros."""
    unit = torch.Generator().manual_seed(8)
    dst = torch.arange(5).repeat_interleave(torch.tensor([1, 3, 24, 128, 140]))
    order = torch.randperm(dst.numel(), generator=unit)
    edges = torch.stack([torch.randint(30, dst.shape, generator=unit), dst])[:, order]
    sizes = {
        "edges": {"edge_addend": dst.numel()},
        "two ends": {"z": 30, "z_dst": 5},
        "types": {"edge_addend": 4, "z": 30},
    }
    made = {n: torch.randn(size, 45, generator=unit) / 4 for n, size in sizes[terms].items()}
    large = made.get("z", made["edge_addend"] if terms == "edges" else None)
    large += 4 if name == "sigmoid" else 4 * large.sign()
    if terms == "edges":
        large[edges[0] == 1, :9] = 0 if name == "tanh" else -60
        large[5, 20] = torch.nan
    types = {"edge_type": torch.arange(dst.numel()) % 4} if terms == "types" else {}
    with use_backend("reference"):
        expected = value_and_gradients(exclusive_product, edges, made, (30, 5), factor_activation=name, **types)
    with use_backend(accelerated):
        found = value_and_gradients(exclusive_product, edges, made, (30, 5), factor_activation=name, **types)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=4e-6, atol=1e-8, equal_nan=True)
    assert expected[0].isnan().any() == (terms == "edges")


OVERFLOWING = [(None, terms) for terms in ("two ends", "two ends and edges", "types", "gate", "affine")]
OVERFLOWING += [("bounded", terms) for terms in ("two ends", "two ends and edges", "types")]


@pytest.mark.parametrize(("factor_activation", "terms"), OVERFLOWING)
@pytest.mark.parametrize("function", [neighbor_product, exclusive_product])
def test_sums_of_gradients_that_overflow(accelerated, function, terms, factor_activation):
    """The gradients of most edges exceed float32 in both directions. Only their sums are rounded to it."""
    num_edges = 40 if factor_activation is None else 320
    edges = random_edges(6, 2, num_edges)
    sizes = {"z": (6, 4), "z_dst": (2, 4), "edge_addend": (num_edges, 4), "types": (4, 4)}
    unit = torch.Generator().manual_seed(6)
    made = {n: torch.randn(sizes[n], generator=unit) for n in TERMS[terms] if n in sizes}
    if "types" in made:
        made["edge_addend"] = made.pop("types")
    made["z"] = made["z"] * 1e4 if factor_activation is None else made["z"] + 2
    for name, used in (("edge_weight", "gate"), ("edge_scale", "scale"), ("edge_shift", "shift")):
        if used in TERMS[terms]:
            made[name] = torch.rand(num_edges, generator=unit)
    options = {**types_of(TERMS[terms], num_edges), "factor_activation": factor_activation, "bound": 0.9}
    with use_backend("reference"):
        expected = value_and_gradients(function, edges, made, (6, 2), **options)
    with use_backend(accelerated):
        found = value_and_gradients(function, edges, made, (6, 2), **options)
    assert any((gradient.abs() == torch.finfo(torch.float32).max).any() for gradient in expected[1:])
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=4e-6, atol=1e-6)


@pytest.mark.parametrize("terms", ["two ends and edges", "gate", "affine"])
@pytest.mark.parametrize("function", [neighbor_product, exclusive_product])
def test_zeros_equal_the_reference(accelerated, function, terms):
    edges, size = random_edges(12, 12, 50), (12, 12)
    made = operands(TERMS[terms], "ordinary", torch.float32, zeros=0.15)
    if "edge_weight" in made:
        made["edge_weight"].fill_(1)
    if "edge_shift" in made:
        made["edge_shift"].zero_()
    for options in ({}, {"activation": "tanh"}, {"degree_exponent": 0.5}):
        with use_backend("reference"):
            expected = value_and_gradients(function, edges, made, size, **options)
        with use_backend(accelerated):
            found = value_and_gradients(function, edges, made, size, **options)
        assert_same(found, expected, 4e-6)


# ---- the reference against mpmath ------------------------------------------------------------------------------


def phi(name: str | None, a: mpmath.mpf, bound: float) -> mpmath.mpf:
    if name is None:
        return a
    if name == "sigmoid":
        return 1 / (1 + mpmath.exp(-a))
    return mpmath.tanh(a) if name == "tanh" else 1 + bound * mpmath.tanh(a)


def oracle(rows: list[dict[str, float]], name: str | None, power: float, tanh: bool, without: int | None) -> mpmath.mpf:
    """One column of one destination, straight from the equation."""
    product = mpmath.mpf(1)
    for k, row in enumerate(rows):
        if k == without:
            continue
        a = mpmath.mpf(row["z"]) + row["z_dst"] + row["edge_addend"]
        affine = row["edge_scale"] * phi(name, a, 0.9) + row["edge_shift"]
        product *= 1 + mpmath.mpf(row["edge_weight"]) * (affine - 1)
    y = mpmath.sign(product) * abs(product) ** power
    return mpmath.tanh(y) if tanh else y


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("tanh", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_against_fifty_digits(backend, name, tanh, exclusive):
    """One destination with six edges: values, and derivatives by differences of 50 digits."""
    names = ("z", "z_dst", "edge_addend", "edge_scale", "edge_shift", "edge_weight")
    generator = torch.Generator().manual_seed(0)
    made = {n: torch.randn(6, 1, generator=generator, dtype=torch.float64) for n in names}
    made["z_dst"] = made["z_dst"][:1]
    made["edge_weight"] = made["edge_weight"].sigmoid()
    edges = torch.stack([torch.arange(6), torch.zeros(6, dtype=torch.int64)])
    power = (5 if exclusive else 6) ** -0.5
    options = {"factor_activation": name, "bound": 0.9, "activation": "tanh" if tanh else None, "degree_exponent": 0.5}
    leaves = {n: t.clone().requires_grad_() for n, t in made.items()}
    function = exclusive_product if exclusive else neighbor_product
    with use_backend(backend):
        out = function(leaves["z"], edges, size=(6, 1), **{n: t for n, t in leaves.items() if n != "z"}, **options)
        gradients = dict(zip(names, torch.autograd.grad(out.sum(), list(leaves.values()))))
    with mpmath.workdps(50):
        rows = [{n: float(made[n][0 if n == "z_dst" else k]) for n in names} for k in range(6)]
        outputs = range(6) if exclusive else [None]
        values = [oracle(rows, name, power, tanh, k) for k in outputs]
        assert out.flatten().tolist() == pytest.approx([float(v) for v in values], rel=1e-13)
        step = mpmath.mpf(10) ** -20
        for n in names:
            for k in range(made[n].size(0)):
                moved = [dict(row) for row in rows]
                for row in moved if n == "z_dst" else [moved[k]]:
                    row[n] = mpmath.mpf(row[n]) + step
                slope = sum(oracle(moved, name, power, tanh, k) - v for k, v in zip(outputs, values)) / step
                assert float(gradients[n][k]) == pytest.approx(float(slope), rel=1e-12, abs=1e-15)


# ---- derivatives -----------------------------------------------------------------------------------------------

SMALL = random_edges(4, 4, 9)


@pytest.mark.parametrize("factor_activation", ACTIVATIONS)
@pytest.mark.parametrize("function", ["product", "power", "exclusive", "exclusive power"])
def test_first_and_second_derivatives(backend, function, factor_activation):
    generator = torch.Generator().manual_seed(0)
    shapes = ((4, 2), (4, 2), (3, 2), (9,), (9, 2), (9, 2))
    inputs = [torch.rand(shape, generator=generator, dtype=torch.float64) * 0.8 + 0.1 for shape in shapes]
    types = torch.arange(9) % 3

    def product(z, z_dst, table, scale, shift, weight):
        more = {"degree_exponent": 0.5} if "power" in function else {}
        more |= {"factor_activation": factor_activation, "bound": 0.7, "activation": "tanh"}
        terms = {"z_dst": z_dst, "edge_addend": table, "edge_type": types, "edge_scale": scale, "edge_shift": shift}
        operator = exclusive_product if "exclusive" in function else neighbor_product
        return operator(z, SMALL, **terms, edge_weight=weight, **more)

    with use_backend(backend):
        assert torch.autograd.gradcheck(product, [t.requires_grad_() for t in inputs], fast_mode=True)
        assert torch.autograd.gradgradcheck(product, inputs, fast_mode=True)


@pytest.mark.parametrize("activation", [None, "tanh"])
def test_derivatives_of_exclusive_products_at_zeros(backend, activation):
    z = random_factors(4, 3, torch.float64)
    z[0, 0] = z[1, 1] = z[2, 1] = z[:, 2] = 0
    with use_backend(backend):

        def function(z):
            return exclusive_product(z, SMALL, size=(4, 4), activation=activation)

        assert torch.autograd.gradcheck(function, z.requires_grad_())
        assert torch.autograd.gradgradcheck(function, z)


# ---- sums ------------------------------------------------------------------------------------------------------


def eager_gated(x, edges, num_dst, b=None, a=None, c=None, weight=None, normalize=False, eps=1e-6):
    src, dst = edges
    total = sum(t for t in (None if b is None else b[src], None if a is None else a[dst], c) if t is not None)
    eta = torch.sigmoid(total) if weight is None else torch.sigmoid(total) * weight.unsqueeze(1)
    out = x.new_zeros(num_dst, x.size(1)).index_add(0, dst, eta * x[src])
    return out / (x.new_zeros(num_dst, x.size(1)).index_add(0, dst, eta) + eps) if normalize else out


@pytest.mark.parametrize(("graph", "dtype"), CASES, ids=str)
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("terms", ["all", "all, weights", "types", "source", "edges"])
def test_gated_sums(backend, graph, dtype, normalize, terms):
    num_src, num_dst, num_edges, rank = GRAPHS[graph]
    edges = random_edges(num_src, num_dst, num_edges)
    types = torch.arange(num_edges) % 4
    made = {"x": random_factors(num_src, rank, dtype, seed=1)}
    if terms != "edges":
        made["gate_src"] = random_factors(num_src, rank, dtype, seed=2)
    if terms.startswith(("all", "types")):
        made["gate_dst"] = random_factors(num_dst, rank, dtype, seed=3)
    if terms != "source":
        made["gate_edge"] = random_factors(4 if terms == "types" else num_edges, rank, dtype, seed=4)
    if "weights" in terms:
        made["edge_weight"] = torch.rand(num_edges, generator=torch.Generator().manual_seed(5)).to(dtype)
    leaves = {n: t.clone().requires_grad_() for n, t in made.items()}
    more = {"edge_type": types} if terms == "types" else {}
    gates = {n: t for n, t in leaves.items() if n != "x"}
    with use_backend(backend):
        out = gated_sum(leaves["x"], edges, size=(num_src, num_dst), normalize=normalize, **gates, **more)
        seed = random_factors(num_dst, rank, dtype, seed=9)
        found = torch.autograd.grad(out, list(leaves.values()), seed)
    wide = {n: t.double().requires_grad_() for n, t in made.items()}
    c = wide["gate_edge"][types] if terms == "types" else wide.get("gate_edge")
    expected = eager_gated(
        wide["x"], edges, num_dst, wide.get("gate_src"), wide.get("gate_dst"), c, wide.get("edge_weight"), normalize
    )
    gradients = torch.autograd.grad(expected, list(wide.values()), seed.double())
    assert out.dtype == dtype
    tolerance = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 0.1, torch.float16: 0.02}[dtype]
    for a, b in zip([out, *found], [expected, *gradients], strict=True):
        scale = max(1.0, float(b.detach().abs().max())) if b.numel() else 1.0
        torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=tolerance * scale)


def test_the_edge_state_of_a_gated_sum(backend):
    x, a, b = (random_factors(20, 5, torch.float64, seed=s).requires_grad_() for s in (1, 2, 3))
    edges, c = random_edges(20, 20, 90), random_factors(90, 5, torch.float64, seed=4).requires_grad_()
    with use_backend(backend):
        out, state = gated_sum(x, edges, gate_src=b, gate_dst=a, gate_edge=c, normalize=True, return_edge_state=True)
        found = torch.autograd.grad((out.square().sum() + state.sin().sum()), (x, a, b, c))
    expected = eager_gated(x, edges, 20, b, a, c, normalize=True)
    rows = b[edges[0]] + a[edges[1]] + c
    gradients = torch.autograd.grad((expected.square().sum() + rows.sin().sum()), (x, a, b, c))
    torch.testing.assert_close([out, state, *found], [expected, rows, *gradients])


def test_derivatives_of_gated_sums(backend):
    x, a, b = (random_factors(4, 2, torch.float64, seed=s).requires_grad_() for s in (1, 2, 3))
    table = random_factors(3, 2, torch.float64, seed=4).requires_grad_()
    weight, types = (torch.rand(9, dtype=torch.float64) + 0.5).requires_grad_(), torch.arange(9) % 3

    def function(x, a, b, table, weight):
        gates = {"gate_src": b, "gate_dst": a, "gate_edge": table, "edge_type": types, "edge_weight": weight}
        return gated_sum(x, SMALL, **gates, normalize=True, return_edge_state=True)

    def direct(x, a, b, table, weight):
        return gated_sum(x, SMALL, gate_src=b, gate_dst=a, gate_edge=table, edge_type=types)

    with use_backend(backend):
        for f in (function, direct):
            assert torch.autograd.gradcheck(f, (x, a, b, table, weight), fast_mode=True)
            assert torch.autograd.gradgradcheck(f, (x, a, b, table, weight), fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("graph", list(GRAPHS))
def test_exclusive_sums(backend, graph, dtype):
    num_src, num_dst, num_edges, rank = GRAPHS[graph]
    edges = random_edges(num_src, num_dst, num_edges)
    x = random_factors(num_src, rank, dtype, seed=1).requires_grad_()
    y = random_factors(num_edges, rank, dtype, seed=2).requires_grad_()
    weight = random_factors(num_edges, 1, dtype, seed=3).flatten().requires_grad_()
    with use_backend(backend):
        out = exclusive_sum(x, edges, size=(num_src, num_dst), edge_addend=y, edge_weight=weight)
        seed = random_factors(num_edges, rank, dtype, seed=9)
        found = torch.autograd.grad(out, (x, y, weight), seed)
    leaves = [t.detach().double().requires_grad_() for t in (x, y, weight)]
    rows = leaves[2].unsqueeze(1) * (leaves[0][edges[0]] + leaves[1])
    expected = rows.new_zeros(num_dst, rank).index_add(0, edges[1], rows)[edges[1]] - rows
    gradients = torch.autograd.grad(expected, leaves, seed.double())
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 0.1}[dtype]
    for a, b in zip([out, *found], [expected, *gradients], strict=True):
        scale = max(1.0, float(b.detach().abs().max())) if b.numel() else 1.0
        torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=tolerance * scale)


def test_a_large_row_does_not_disturb_the_sums_without_it(backend):
    rows = torch.tensor([[1.0], [1e30], [2.0]], requires_grad=True)
    with use_backend(backend):
        out = exclusive_sum(None, torch.tensor([[0, 0, 0], [0, 0, 0]]), size=(1, 1), edge_addend=rows)
        assert out.flatten().tolist() == [torch.tensor(1e30).item(), 3.0, torch.tensor(1e30).item()]
        assert torch.autograd.gradgradcheck(
            lambda y: exclusive_sum(None, SMALL, size=(4, 4), edge_addend=y).square(),
            random_factors(9, 2, torch.float64).requires_grad_(),
        )


# ---- graphs and compilers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["EdgeIndex", "adj_t", "int32"])
def test_forms_of_graphs(backend, form):
    edges = random_edges(8, 5, 30)
    place = edges[1].argsort(stable=True) if form != "int32" else torch.arange(30)
    graph = {
        "EdgeIndex": EdgeIndex(edges[:, place], sort_order="col", sparse_size=(8, 5)),
        "adj_t": to_csr(edges, 5, 8),
        "int32": edges.int(),
    }[form]
    z, z_dst = random_factors(8, 3, torch.float64), random_factors(5, 3, torch.float64)
    y = random_factors(30, 3, torch.float64, seed=5)
    with use_backend(backend):
        for operator in (neighbor_product, exclusive_product):
            found = operator(z, graph, size=(8, 5), z_dst=z_dst, edge_addend=y[place], factor_activation="tanh")
            expected = operator(z, edges, size=(8, 5), z_dst=z_dst, edge_addend=y, factor_activation="tanh")
            torch.testing.assert_close(found, expected[place] if operator is exclusive_product else expected)
        found = gated_sum(z, graph, size=(8, 5), gate_dst=z_dst, gate_edge=y[place])
        torch.testing.assert_close(found, gated_sum(z, edges, size=(8, 5), gate_dst=z_dst, gate_edge=y))
        torch.testing.assert_close(exclusive_sum(z, graph, size=(8, 5)), exclusive_sum(z, edges, size=(8, 5))[place])


@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
def test_compiles_whole(compiler):
    z, z_dst = (random_factors(6, 3, torch.float32, seed=s).requires_grad_() for s in (1, 2))
    table, weight = random_factors(2, 3, torch.float32).requires_grad_(), torch.rand(9).requires_grad_()
    edges, types = random_edges(6, 6, 9), torch.arange(9) % 2

    def layer(z, z_dst, table, weight, edges):
        terms = {"z_dst": z_dst, "edge_addend": table, "edge_type": types, "edge_weight": weight}
        product = neighbor_product(z, edges, factor_activation="bounded", bound=0.9, degree_exponent=0.5, **terms)
        others = exclusive_product(z, edges, factor_activation="tanh", **terms)
        gates = {"gate_src": z, "gate_dst": z_dst, "gate_edge": table, "edge_type": types}
        total, state = gated_sum(product, edges, normalize=True, return_edge_state=True, **gates)
        return (total.square().sum() + (others * state).sum() + exclusive_sum(z, edges, edge_addend=others).sum()).sin()

    leaves = (z, z_dst, table, weight)
    expected = torch.autograd.grad(layer(*leaves, edges), leaves)
    compiled = torch.compile(layer, fullgraph=True, backend=compiler)
    for a, b in zip(torch.autograd.grad(compiled(*leaves, edges), leaves), expected):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_opcheck():
    z, table = random_factors(5, 3, torch.float32).requires_grad_(), random_factors(2, 3, torch.float32)
    gate = torch.rand(9).requires_grad_()
    graph = (random_edges(5, 5, 9), None, "edges", 5, 5)
    types = torch.arange(9) % 2
    product = (z, None, table, None, None, gate, types, *graph, "bounded", 0.9, 0.5, True)
    for exclusive in (False, True):
        torch.library.opcheck(torch.ops.tgnn.edge_product.default, (*product, exclusive))
    torch.library.opcheck(torch.ops.tgnn.gated_sum.default, (z, None, table, z, gate, types, *graph, True, 1e-6))
    torch.library.opcheck(torch.ops.tgnn.edge_rows.default, (z, z, table, types, *graph))
    torch.library.opcheck(torch.ops.tgnn.exclusive_sum.default, (torch.randn(9, 3).requires_grad_(), None, *graph))
    torch.library.opcheck(torch.ops.tgnn.check_edge_weight.default, (gate,))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_number_of_threads_does_not_change_the_bits(accelerated, dtype):
    if accelerated == "triton":
        pytest.skip("runs on a GPU")
    if accelerated == "torch" and dtype == torch.float32:
        pytest.skip("the last bit of torch's exp2 and tanh in float32 can depend on the number of threads")
    before = torch.get_num_threads()
    edges, size = random_edges(300, 300, 4000), (300, 300)
    types = torch.arange(4000) % 4
    results = []
    try:
        for count in (4, 1, 2, 3, 5):
            torch.set_num_threads(count)
            made = {
                n: random_factors(r, 33, dtype, seed=1) for n, r in (("z", 300), ("z_dst", 300), ("edge_addend", 4))
            }
            if dtype == torch.float64:  # without weights, float32 has a kernel of its own
                made["edge_weight"] = torch.rand(4000, generator=torch.Generator().manual_seed(0)).double()
            found = []
            with use_backend(accelerated):
                for function in (neighbor_product, exclusive_product):
                    options = {"factor_activation": "bounded", "bound": 0.5, "edge_type": types, "activation": "tanh"}
                    found += value_and_gradients(function, edges, made, size, **options)
                z = made["z"].clone().requires_grad_()
                out = neighbor_product(z, edges) + gated_sum(
                    z, edges, gate_src=z, gate_edge=made["edge_addend"], edge_type=types, normalize=True
                )
                found += [out.detach(), *torch.autograd.grad(out.tanh().sum(), z)]
            results.append(found)
    finally:
        torch.set_num_threads(before)
    for found in results[1:]:
        assert [i for i, pair in enumerate(zip(found, results[0])) if not torch.equal(*pair)] == []
