"""Fuzz the products against an oracle with 64 bits of precision and 15 bits of exponent (``numpy.longdouble`` on x86).

``python -m tests.fuzz --count 1000000 --backend cpp`` compares so many products, and all their gradients, with the
oracle. The number of factors is small enough that the oracle neither overflows nor underflows.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

from tgnn.ops import exclusive_product, neighbor_product, use_backend

KINDS = ("plain", "gate", "bounded", "exclusive")
TOLERANCE = {torch.float32: 4e-6, torch.float64: 2e-12}
COLUMNS, MOST = 64, 9  # columns of a product, largest number of factors


def draw(generator: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> np.ndarray[Any, Any]:
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


def oracle(f: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any], tanh: bool, exclusive: bool) -> tuple[Any, Any, Any]:
    """Return the result, d result / d f (inclusive) and the products of the other factors.

    Args:
        f: Factors ``[rows, MOST, columns]`` in ``longdouble``; unused ones are 1.
        sizes: Number of factors of each row.
        tanh: Whether tanh follows.
        exclusive: Whether the result is one product for each factor.
    """
    before, after = np.ones_like(f), np.ones_like(f)
    for k in range(1, MOST):
        before[:, k] = before[:, k - 1] * f[:, k - 1]
        after[:, MOST - 1 - k] = after[:, MOST - k] * f[:, MOST - k]
    others = before * after
    product = others if exclusive else before[:, -1] * f[:, -1]
    decay = np.exp(-2 * np.minimum(np.abs(product), 5000))
    slope = 4 * decay / (1 + decay) ** 2 if tanh else np.ones_like(product)
    value = np.tanh(product) if tanh else product
    return value, slope, others


def difference(found: torch.Tensor, expected: Any, dtype: torch.dtype) -> float:
    """Return the largest relative error. Values beyond the range saturate, and those below it may be 0."""
    info = torch.finfo(dtype)
    expected = np.clip(expected, -info.max, info.max)
    found_wide = np.clip(found.double().numpy().astype(np.longdouble), -info.max, info.max)
    error = np.abs(found_wide - expected) - 2 * info.smallest_normal
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.where(error <= 0, 0, error / np.abs(expected))
    assert not np.isnan(found_wide).any(), "the result contains NaN"
    return float(relative.max()) if relative.size else 0.0


def compare(kind: str, rows: int, dtype: torch.dtype, tanh: bool, seed: int) -> float:
    """Compare products and gradients of ``rows`` destinations, and return the largest relative error."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(0, MOST + 1, rows)
    used = (np.arange(MOST) < sizes[:, None]).reshape(-1)
    edges = torch.from_numpy(np.stack([np.arange(used.sum()), np.repeat(np.arange(rows), sizes)]))
    z = draw(generator, (int(used.sum()), COLUMNS), dtype)
    options: dict[str, Any] = {"activation": "tanh" if tanh else None}
    wide = z.astype(np.longdouble)
    df_dz = np.ones_like(wide)
    if kind == "bounded":
        z = np.clip(z, -30, 30)
        z = torch.from_numpy(z).to(dtype).double().numpy()
        wide = z.astype(np.longdouble)
        options |= {"factor_activation": "bounded", "bound": 0.875}
        df_dz = 0.875 / np.cosh(wide) ** 2
        wide = 1 + 0.875 * np.tanh(wide)
    elif kind == "gate":
        gate = torch.from_numpy(generator.choice([0.0, 1.0, 0.5, 0.25], z.shape[0])).to(dtype)
        options["edge_weight"] = gate
        df_dz = np.broadcast_to(gate.numpy().astype(np.longdouble)[:, None], wide.shape)
        wide = df_dz * wide + (1 - df_dz)
    f = np.ones((rows * MOST, COLUMNS), dtype=np.longdouble)
    f[used] = wide
    exclusive = kind == "exclusive"
    value, slope, others = oracle(f.reshape(rows, MOST, COLUMNS), sizes, tanh, exclusive)
    leaf = torch.from_numpy(z).to(dtype).requires_grad_()
    function = exclusive_product if exclusive else neighbor_product
    out = function(leaf, edges, size=(z.shape[0], rows), **options)
    expected = value.reshape(-1, COLUMNS)[used] if exclusive else value
    errors = [difference(out.detach(), expected, dtype)]
    if not exclusive:
        (grad,) = torch.autograd.grad(out.sum(), leaf)
        exact = (slope[:, None] * others).reshape(-1, COLUMNS)[used] * df_dz
        errors.append(difference(grad, exact, dtype))
    return max(errors)


def run(count: int, seed: int = 0, kinds: tuple[str, ...] = KINDS) -> dict[tuple[str, str, bool], float]:
    """Compare ``count`` products, and return the largest relative error of each kind of product."""
    cases = [(kind, dtype, tanh) for kind in kinds for dtype in TOLERANCE for tanh in (False, True)]
    rows = max(1, count // (COLUMNS * len(cases)))
    worst: dict[tuple[str, str, bool], float] = {}
    for number, (kind, dtype, tanh) in enumerate(cases):
        for first in range(0, rows, 2000):
            part = min(2000, rows - first)
            error = compare(kind, part, dtype, tanh, seed + 1000 * number + first)
            key = (kind, str(dtype).removeprefix("torch."), tanh)
            worst[key] = max(worst.get(key, 0.0), error)
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="Number of products (default: %(default)s).")
    parser.add_argument("--backend", default="cpp", help="Backend to test (default: %(default)s).")
    parser.add_argument("--seed", type=int, default=0, help="Random seed (default: %(default)s).")
    arguments = parser.parse_args()
    start = time.time()
    with use_backend(arguments.backend):
        worst = run(arguments.count, arguments.seed)
    for (kind, dtype, tanh), error in worst.items():
        print(f"{kind:10} {dtype:8} {'tanh' if tanh else '':5} largest relative error {error:.1e}")
    failed = [key for key, error in worst.items() if error > TOLERANCE[getattr(torch, key[1])]]
    seconds = time.time() - start
    print(f"{arguments.count:,} products on {arguments.backend} in {seconds:.0f} s; failed: {failed or 'none'}")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
