"""The promise: products of any length and size, exact zeros, nothing infinite with tanh, no NaN hidden or made."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch

from tgnn.ops import neighbor_product, neighbor_sum, segment_product, use_backend

LARGEST = torch.finfo(torch.float32).max


def exact(factors: list[float], tanh: bool) -> tuple[float, list[float]]:
    """Value and gradients in a hundred digits."""
    with mpmath.workdps(100):
        numbers = [mpmath.mpf(f) for f in factors]
        product = mpmath.fprod(numbers)
        slope = mpmath.sech(product) ** 2 if tanh else mpmath.mpf(1)
        others = [mpmath.fprod(numbers[:i] + numbers[i + 1 :]) for i in range(len(numbers))]
        return float(mpmath.tanh(product) if tanh else product), [float(slope * other) for other in others]


def star(factors, dtype=torch.float32, activation="tanh"):
    """The product of all factors at one node, and its gradient."""
    z = torch.tensor(factors, dtype=dtype).unsqueeze(1).requires_grad_()
    edges = torch.stack([torch.arange(len(factors)), torch.zeros(len(factors), dtype=torch.int64)])
    out = neighbor_product(z, edges, activation=activation, size=(len(factors), 1))
    (grad,) = torch.autograd.grad(out, z)
    return out.item(), grad.squeeze(1)


@pytest.mark.parametrize(
    ("factors", "activation", "grad", "expected"),
    [
        ([1e-5] * 10, None, 1e20, 1e-25),
        ([2.0**-96, 2.0**-96, 1.3 * 2.0**-53], "tanh", 2.0**120, 1.3 * 2.0**-29),
        ([1.4e-45, 2.35e23, 2.35e23], "tanh", 1.0, 1.3395e-20),
        ([2.0**-55, 77 * 2.0**55], "tanh", 2.0**40, 1.6034e-36),
        ([2.0**-46, 76.0625 * 2.0**46], "tanh", 2.0**40, 2.0173e-38),
    ],
)
def test_what_underflows_and_comes_back(backend, factors, activation, grad, expected):
    """A product too small to save, a large gradient or a minute factor, and a result that is neither."""
    z = torch.tensor(factors).unsqueeze(1).requires_grad_()
    edges = torch.stack([torch.arange(len(factors)), torch.zeros(len(factors), dtype=torch.int64)])
    with use_backend(backend):
        out = neighbor_product(z, edges, activation=activation, size=(len(factors), 1))
        (found,) = torch.autograd.grad(out, z, torch.tensor([[grad]]))
    assert found[0].item() == pytest.approx(expected, rel=2e-3, abs=0)


@pytest.mark.parametrize(("dtype", "large"), [(torch.float16, 6e4), (torch.bfloat16, 3e38)], ids=str)
def test_half_precision_saturates(backend, dtype, large):
    with use_backend(backend):
        _, grad = star([0.0, large, large], dtype)
    assert grad.tolist() == [torch.finfo(dtype).max, 0, 0]


CASES = {
    "peers overflow here": [1e20, 1e20, 1.0],
    "comes back into range": [1e30, 1e30, 1e-30, 1e-30, 0.5],
    "underflows on the way": [1e-30, 1e-30, 1e30, 1e30, -0.7],
    "one zero": [2.0, 0.0, -3.0],
    "one zero, huge others": [1e30, 0.0, 1e30],
    "two zeros": [2.0, 0.0, 0.0, 5.0],
    "minus zero": [-0.0, 3.0],
    "saturated": [9.0, -3.0, 1.5],
    "saturated, and a minute factor": [1e-35, 1e35, 4.0, 14.0],
    "minute product, minute factor": [1e-30, 1e-20, 1e-5],
    "denormal factor": [1e-42, 3.0, 5.0],
    "many small": [0.01] * 200,
    "many large": [30.0] * 200,
    "long and balanced": [3.0, 1 / 3] * 300,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("activation", [None, "tanh"])
@pytest.mark.parametrize("case", list(CASES))
def test_against_a_hundred_digits(backend, case, activation, dtype):
    stored = torch.tensor(CASES[case], dtype=dtype).tolist()
    info = torch.finfo(dtype)
    value, slopes = exact(stored, activation == "tanh")
    with use_backend(backend):
        found, grad = star(CASES[case], dtype, activation)
    rtol = 2e-5 if dtype == torch.float32 else 1e-10
    if abs(value) > info.max:
        assert found == math.copysign(math.inf, value)
    else:
        assert found == pytest.approx(value, rel=rtol, abs=info.tiny)
    expected = torch.tensor(slopes, dtype=torch.float64).clamp(-info.max, info.max)
    torch.testing.assert_close(grad.double(), expected, rtol=rtol, atol=2 * info.tiny)


@pytest.mark.parametrize(("exponent", "pairs"), [(1, 250), (1, 251), (19, 25), (19, 26), (99, 5), (99, 6), (120, 4)])
def test_products_at_the_limit_of_separate_exponents(backend, exponent, pairs):
    """Factors 2^k first, then as many 2^-k: a separate exponent is needed only if many factors are large."""
    z = torch.tensor([[2.0**exponent]] * pairs + [[2.0**-exponent]] * pairs, requires_grad=True)
    with use_backend(backend):
        out = segment_product(z, torch.zeros(2 * pairs, dtype=torch.int64))
        out.backward()
    assert out.item() == 1
    assert torch.equal(z.grad, 1 / z.detach())


@pytest.mark.parametrize("name", ["torch", "cpp"])
def test_degree_100_000(name):
    """Factors from 1e-30 to 1e30 whose product is moderate: value and every gradient, against the logarithms."""
    count = 100_000
    generator = torch.Generator().manual_seed(0)
    logs = torch.rand(count // 2, generator=generator, dtype=torch.float64) * 60 - 30
    z = torch.cat([10**logs, 10 ** (-logs)]).float()
    z[torch.rand(count, generator=generator) < 0.5] *= -1
    total = z.double().abs().log2().sum()
    z[0] = (z[0].double() * 2 ** -(total - round(float(total)))).float()  # keep |P| near a power of two
    product = 2.0 ** float(z.double().abs().log2().sum()) * (-1) ** int((z < 0).sum())
    with use_backend(name):
        value, grad = star(z.tolist())
    assert value == pytest.approx(math.tanh(product), rel=1e-4)
    expected = (1 / math.cosh(product)) ** 2 * product / z.double()
    torch.testing.assert_close(grad.double(), expected.clamp(-LARGEST, LARGEST), rtol=1e-4, atol=1e-37)


@pytest.mark.parametrize("name", ["torch", "cpp"])
@pytest.mark.parametrize("seed", range(5))
def test_tanh_is_finite_for_everything_finite(name, seed):
    """Bit patterns drawn at random: every size of number, denormal ones too, and degrees up to a thousand."""
    generator = torch.Generator().manual_seed(seed)
    bits = torch.randint(-(2**31), 2**31, (300, 9), generator=generator).to(torch.int32)
    z = bits.view(torch.float32)
    z = torch.where(torch.isfinite(z), z, torch.zeros(())).requires_grad_()
    dst = (torch.rand(3000, generator=generator) ** 4 * 300).long()
    edges = torch.stack([torch.randint(300, (3000,), generator=generator), dst])
    grad_out = torch.randn(300, 9, generator=generator)
    with use_backend(name):
        out = neighbor_product(z, edges, activation="tanh")
        (grad,) = torch.autograd.grad(out, z, grad_out)
    assert torch.isfinite(out).all()
    assert torch.isfinite(grad).all()
    assert out.abs().max() <= 1


def test_a_nan_is_not_hidden(backend):
    edges = torch.tensor([[0, 1, 2], [1, 1, 0]])
    z = torch.tensor([[math.nan, 1.0], [2.0, 3.0], [5.0, 7.0]], requires_grad=True)
    with use_backend(backend):
        for activation in (None, "tanh"):
            out = neighbor_product(z, edges, activation=activation)
            assert out.isnan().tolist() == [[False, False], [True, False], [False, False]]
            (grad,) = torch.autograd.grad(out, z, torch.ones_like(out))
            assert grad[1].isnan().tolist() == [True, False]
            assert not grad[2].isnan().any()


def test_an_infinite_factor(backend):
    with use_backend(backend):
        x = torch.tensor([math.inf, 2.0, -3.0])
        assert segment_product(x, torch.zeros(3, dtype=torch.int64)).item() == -math.inf
        assert segment_product(x, torch.zeros(3, dtype=torch.int64), activation="tanh").item() == -1


def test_half_precision_is_accumulated_wider(backend):
    """600 factors of 1 + 1/128 in bfloat16: rounding after each would stay far off."""
    factors = torch.full((600,), 1.0078125, dtype=torch.bfloat16)
    with use_backend(backend):
        found = segment_product(factors, torch.zeros(600, dtype=torch.int64))
    assert found.dtype == torch.bfloat16
    assert found.item() == pytest.approx(1.0078125**600, rel=2**-8)


def test_weights_move_a_factor_towards_one(backend):
    z = torch.tensor([[4.0], [0.0], [7.0]])
    edges = torch.tensor([[0, 1, 2], [0, 0, 1]])
    with use_backend(backend):
        whole = neighbor_product(z, edges, edge_weight=torch.tensor([1.0, 0.0, 1.0]))
        assert whole.flatten().tolist() == [4.0, 7.0, 1.0]  # weight 0: as if the edge were not there
        half = neighbor_product(z, edges, edge_weight=torch.tensor([0.5, 1.0, 0.25]))
        assert half.flatten().tolist() == [0.0, 2.5, 1.0]


@pytest.mark.parametrize("term", ["", "z_dst", "edge_addend"])
@pytest.mark.parametrize(
    ("activation", "dtype", "large"),
    [("tanh", torch.float32, 6.79e9), (None, torch.float32, 1.7e38), (None, torch.float64, 1.7e308)],
)
def test_large_gradients_that_cancel(backend, activation, dtype, large, term):
    z = torch.full((1, 8), 0.8, dtype=dtype, requires_grad=True)
    terms = {term: torch.zeros(4, 8, dtype=dtype, requires_grad=True)} if term else {}
    edges, signs = torch.tensor([[0, 0, 0, 0], [0, 1, 2, 3]]), torch.tensor([1, 1, -1, -1], dtype=dtype)
    with use_backend(backend):
        out = neighbor_product(z, edges, size=(1, 4), activation=activation, **terms)
        found, *_ = torch.autograd.grad(out, [z, *terms.values()], (large * signs).view(4, 1).expand(4, 8))
    assert not found.any()


def test_the_gradient_of_a_weight_is_not_rounded_to_the_rows_precision():
    x, weight = torch.full((2, 64), 60.0).half(), torch.ones(1, requires_grad=True)
    neighbor_sum(x, torch.tensor([[0], [1]]), edge_weight=weight).float().sum().mul(100).backward()
    assert float(weight.grad) == 384000
