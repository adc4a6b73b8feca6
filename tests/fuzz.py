"""Fuzz the products and gated sums against an oracle with 64 bits of precision and 15 bits of exponent.

The oracle computes in ``numpy.longdouble`` (on x86). ``python -m tests.fuzz --count 1000000 --backend cpp`` compares so
many products, and all their gradients, with it. The numbers of factors are small enough that the oracle neither
overflows nor underflows.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

from tgnn.ops import exclusive_product, gated_sum, neighbor_product, use_backend

KINDS = (
    *("plain", "power", "gate", "bounded", "hub", "exclusive", "exclusive power", "exclusive bounded"),
    *("exclusive tanh", "exclusive sigmoid", "gated sum"),
)
TOLERANCE = {torch.float32: 4e-6, torch.float64: 2e-12}
COLUMNS = 64  # columns of a product
MOST, MOST_OF_HUBS = 9, 300  # largest number of factors; hubs have the sizes at which the kernels change their method
BOUND, EXPONENT = 0.875, 0.5
Array = np.ndarray[Any, Any]


def draw(generator: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> Array:
    """Draw factors of every size: near 1, of any exponent, subnormal, zero, and near the largest number."""
    info = torch.finfo(dtype)
    low, high = np.log2(info.smallest_normal), np.log2(info.max)
    exponents = [
        np.zeros(shape),
        generator.uniform(-20, 20, shape),
        generator.uniform(low, high - 1, shape),
        generator.uniform(low - 20, low, shape),
        generator.uniform(high - 4, high - 1, shape),
    ]
    kind = generator.choice(6, shape, p=[0.45, 0.25, 0.15, 0.03, 0.04, 0.08])
    size = np.select([kind == i for i in range(5)], exponents, 0.0)
    numbers = generator.choice([-1.0, 1.0], shape) * generator.uniform(0.5, 1.5, shape) * np.exp2(size)
    numbers[kind == 5] = 0.0
    return torch.from_numpy(numbers).to(dtype).double().numpy()


def oracle(f: Array, sizes: Array, tanh: bool, exponent: float, exclusive: bool) -> tuple[Array, Array, Array]:
    """Return the results, their gradients ``d sum of results / d f``, and the sizes of the summands of the gradients.

    Args:
        f: Factors ``[rows, most, columns]`` in ``longdouble``; unused ones are 1.
        sizes: Number of factors of each row.
        tanh: Whether tanh follows.
        exponent: Degree exponent.
        exclusive: Whether the result is one product for each factor.
    """
    others = _others(f)
    product = others if exclusive else (others[:, :1] * f[:, :1])
    count = np.maximum(sizes - int(exclusive), 1).astype(np.longdouble)[:, None, None]
    power = count**-exponent
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        y = np.where(power == 1, product, np.sign(product) * np.abs(product) ** power)
        slope = np.where(power == 1, 1, np.where(product == 0, 0, power * y / product))
    decay = np.exp(-2 * np.minimum(np.abs(y), 5000))
    slope = slope * (4 * decay / (1 + decay) ** 2 if tanh else 1)
    value = np.tanh(y) if tanh else y
    if not exclusive:
        gradient = slope * others
        return value[:, 0], gradient, np.abs(gradient)
    slope = np.where(np.arange(f.shape[1])[:, None] < sizes[:, None, None], slope, 0)  # unused ones have no result
    gradient, size = np.zeros_like(f), np.zeros_like(f)
    for k in range(f.shape[1]):
        without = f.copy()
        without[:, k] = 1
        summands = slope[:, k : k + 1] * _others(without)
        summands[:, k] = 0
        gradient += summands
        size += np.abs(summands)
    return value, gradient, size


def _others(f: Array) -> Array:
    """Return the product of all factors of a row but one, for each of them."""
    before, after = np.ones_like(f), np.ones_like(f)
    for k in range(1, f.shape[1]):
        before[:, k] = before[:, k - 1] * f[:, k - 1]
        after[:, -1 - k] = after[:, -k] * f[:, -k]
    return before * after


def difference(found: torch.Tensor, expected: Array, dtype: torch.dtype, size: Array | None = None) -> float:
    """Return the largest error relative to ``size``, by default to the expected value.

    Values beyond the range saturate, and those below it may be 0.
    """
    info = torch.finfo(dtype)
    size = np.abs(expected) if size is None else size
    expected = np.clip(expected, -info.max, info.max)
    found_wide = np.clip(found.double().numpy().astype(np.longdouble), -info.max, info.max)
    error = np.abs(found_wide - expected) - 2 * info.smallest_normal
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.where(error <= 0, 0, error / np.minimum(size, info.max))
    assert not np.isnan(found_wide).any(), "the result contains NaN"
    return float(relative.max()) if relative.size else 0.0


def compare(kind: str, rows: int, dtype: torch.dtype, tanh: bool, seed: int) -> tuple[float, int]:
    """Compare the results and gradients of ``rows`` destinations.

    Returns the largest relative error, and the number of results.
    """
    generator = np.random.default_rng(seed)
    most = MOST_OF_HUBS if kind == "hub" else MOST
    sizes = generator.integers(0, most + 1, rows)
    used = (np.arange(most) < sizes[:, None]).reshape(-1)
    edges = torch.from_numpy(np.stack([np.arange(used.sum()), np.repeat(np.arange(rows), sizes)]))
    if kind == "gated sum":
        return _compare_gated_sums(generator, edges, rows, dtype, normalize=tanh), rows * COLUMNS
    exclusive, count = "exclusive" in kind, int(used.sum())
    options: dict[str, Any] = {"activation": "tanh" if tanh else None}
    options["degree_exponent"] = exponent = EXPONENT if "power" in kind else 0.0
    z = draw(generator, (count, COLUMNS), dtype)
    leaves = {"z": torch.from_numpy(z).to(dtype)}
    wide = z.astype(np.longdouble)
    df_da = np.ones_like(wide)
    if "bounded" in kind or kind == "hub":  # terms of both ends and, except for hubs, of the edge; their sum is exact
        options |= {"factor_activation": "bounded", "bound": BOUND}
        shapes = {"z": count, "z_dst": rows} | ({} if kind == "hub" else {"edge_addend": count})
        terms = {name: _fractions(generator, (n, COLUMNS), 10) for name, n in shapes.items()}
        leaves = {name: torch.from_numpy(x).to(dtype) for name, x in terms.items()}
        a = (terms["z"] + terms["z_dst"][edges[1].numpy()] + terms.get("edge_addend", 0.0)).astype(np.longdouble)
        wide, df_da = 1 + BOUND * np.tanh(a), BOUND / np.cosh(a) ** 2
    elif kind in ("exclusive tanh", "exclusive sigmoid"):
        options["factor_activation"] = kind.split()[-1]
        with np.errstate(over="ignore"):
            wide, df_da = _squash(wide, options["factor_activation"])
    elif kind == "gate":
        gate = torch.from_numpy(generator.choice([0.0, 1.0, 0.5, 0.25], count)).to(dtype)
        options["edge_weight"] = gate
        df_da = np.broadcast_to(gate.numpy().astype(np.longdouble)[:, None], wide.shape)
        wide = df_da * wide + (1 - df_da)
    f = np.ones((rows * most, COLUMNS), dtype=np.longdouble)
    f[used] = wide
    value, gradient, size = oracle(f.reshape(rows, most, COLUMNS), sizes, tanh, exponent, exclusive)
    function = exclusive_product if exclusive else neighbor_product
    given = {name: x.requires_grad_() for name, x in leaves.items()}
    out = function(given.pop("z"), edges, size=(count, rows), **given, **options)
    expected = value.reshape(-1, COLUMNS)[used] if exclusive else value
    errors = [difference(out.detach(), expected, dtype)]
    of_edges, size = (x.reshape(-1, COLUMNS)[used] * df_da for x in (gradient, size))
    for name, grad in zip(leaves, torch.autograd.grad(out.sum(), list(leaves.values()))):
        if name == "z_dst":
            errors.append(difference(grad, _sum_rows(of_edges, edges, rows), dtype, _sum_rows(size, edges, rows)))
        else:
            errors.append(difference(grad, of_edges, dtype, size))
    return max(errors), out.numel()


def _squash(a: Array, activation: str) -> tuple[Array, Array]:
    """Return the tanh or the sigmoid of the numbers, and its derivatives."""
    if activation == "tanh":
        return np.tanh(a), 1 / np.cosh(a) ** 2
    decay = np.exp(-np.abs(a))
    return np.where(a < 0, decay, 1) / (1 + decay), decay / (1 + decay) ** 2


def _fractions(generator: np.random.Generator, shape: tuple[int, ...], largest: int) -> Array:
    """Draw multiples of 1/64, so that float32 adds some of them exactly."""
    return generator.integers(-64 * largest, 64 * largest + 1, shape) / 64


def _sum_rows(x: Array, edges: torch.Tensor, rows: int) -> Array:
    total = np.zeros((rows, x.shape[1]), dtype=np.longdouble)
    np.add.at(total, edges[1].numpy(), x)
    return total


def _compare_gated_sums(
    generator: np.random.Generator, edges: torch.Tensor, rows: int, dtype: torch.dtype, normalize: bool
) -> float:
    count, dst, eps = edges.size(1), edges[1].numpy(), 1e-6
    shapes = {"x": count, "gate_src": count, "gate_dst": rows, "gate_edge": count}
    drawn = {name: _fractions(generator, (n, COLUMNS), 6) for name, n in shapes.items()}
    leaves = {name: torch.from_numpy(value).to(dtype).requires_grad_() for name, value in drawn.items()}
    x, a = drawn["x"].astype(np.longdouble), drawn["gate_src"] + drawn["gate_dst"][dst] + drawn["gate_edge"]
    eta, closed = (1 / (1 + np.exp(sign * a.astype(np.longdouble))) for sign in (-1, 1))
    divisor = (_sum_rows(eta, edges, rows) + eps) if normalize else np.ones((rows, COLUMNS), dtype=np.longdouble)
    out = _sum_rows(eta * x, edges, rows) / divisor
    size = _sum_rows(eta * np.abs(x), edges, rows) / divisor
    of_x = eta / divisor[dst]
    of_a = of_x * closed * (x - (out[dst] if normalize else 0))
    size_of_a = of_x * closed * (np.abs(x) + (size[dst] if normalize else 0))
    given = dict(leaves)
    found = gated_sum(given.pop("x"), edges, size=(count, rows), normalize=normalize, eps=eps, **given)
    grads = dict(zip(leaves, torch.autograd.grad(found.sum(), list(leaves.values()))))
    return max(
        difference(found.detach(), out, dtype, size),
        difference(grads["x"], of_x, dtype),
        difference(grads["gate_src"], of_a, dtype, size_of_a),
        difference(grads["gate_edge"], of_a, dtype, size_of_a),
        difference(grads["gate_dst"], _sum_rows(of_a, edges, rows), dtype, _sum_rows(size_of_a, edges, rows)),
    )


def run(count: int, seed: int = 0, kinds: tuple[str, ...] = KINDS) -> tuple[dict[tuple[str, str, bool], float], int]:
    """Compare at least ``count`` results. Return the largest relative error of each kind, and the number of results.

    ``tanh`` of a gated sum means that it is normalized. There are a tenth as many hubs as rows of each other kind.
    """
    cases = [(kind, dtype, tanh) for kind in kinds for dtype in TOLERANCE for tanh in (False, True)]
    results_of_rows = sum(MOST / 2 if "exclusive" in kind else 0.1 if kind == "hub" else 1.0 for kind, *_ in cases)
    rows = 1 + int(1.02 * count / (COLUMNS * results_of_rows))
    worst: dict[tuple[str, str, bool], float] = {}
    compared = 0
    for number, (kind, dtype, tanh) in enumerate(cases):
        total, step = (1 + rows // 10, 20) if kind == "hub" else (rows, 1000)
        for first in range(0, total, step):
            error, results = compare(kind, min(step, total - first), dtype, tanh, seed + 1000 * number + first)
            key = (kind, str(dtype).removeprefix("torch."), tanh)
            worst[key] = max(worst.get(key, 0.0), error)
            compared += results
    return worst, compared


def failures(worst: dict[tuple[str, str, bool], float]) -> dict[tuple[str, str, bool], float]:
    """Return the errors above the tolerance. In float64, those of the multiplications of a hub add up."""
    many = {("hub", "float64"): MOST_OF_HUBS / MOST}
    return {
        key: error for key, error in worst.items() if error > TOLERANCE[getattr(torch, key[1])] * many.get(key[:2], 1.0)
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="Number of products (default: %(default)s).")
    parser.add_argument("--backend", default="cpp", help="Backend to test (default: %(default)s).")
    parser.add_argument("--seed", type=int, default=0, help="Random seed (default: %(default)s).")
    arguments = parser.parse_args()
    start = time.time()
    with use_backend(arguments.backend):
        worst, compared = run(arguments.count, arguments.seed)
    for (kind, dtype, tanh), error in worst.items():
        print(f"{kind:18} {dtype:8} {'tanh' if tanh else '':5} largest relative error {error:.1e}")
    failed = list(failures(worst))
    seconds = time.time() - start
    print(f"{compared:,} products on {arguments.backend} in {seconds:.0f} s; failed: {failed or 'none'}")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
