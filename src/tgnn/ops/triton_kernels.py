# mypy: ignore-errors
# Annotations in this file are those of the Triton language, not Python types.
"""Triton kernels of the product. The algorithm is the one of the C++ kernels in ``kernels/``."""

import triton
import triton.language as tl

_LARGEST = tl.constexpr(1.7976931348623157e308)
_DOWN = tl.constexpr(2.0**-64)


@triton.jit
def _normalize(m, e):
    """Move the exponent of m into e. Zero, inf and NaN do not change."""
    bits = m.to(tl.int64, bitcast=True)
    shift = tl.minimum(((bits >> 52) & 0x7FF) - 1023, 1000)
    return m * ((1023 - shift) << 52).to(tl.float64, bitcast=True), e + shift


@triton.jit
def _join(m, e):
    e = tl.minimum(tl.maximum(e, -2000), 2000)
    half = e >> 1
    first = ((1023 + half) << 52).to(tl.float64, bitcast=True)
    second = ((1023 + e - half) << 52).to(tl.float64, bitcast=True)
    return m * first * second


@triton.jit
def _finite(x):
    x = tl.where(x > _LARGEST, _LARGEST, x)
    return tl.where(x < -_LARGEST, -_LARGEST, x)


@triton.jit
def _factors(z, addend, weight, u, e, columns, mask, rank, HAS_ADDEND: tl.constexpr, HAS_WEIGHT: tl.constexpr):
    """Return the factors f of one edge, z + y, and w."""
    z_plus_y = tl.load(z + u * rank + columns, mask=mask, other=1.0).to(tl.float64)
    w = 1.0
    f = z_plus_y
    if HAS_ADDEND:
        z_plus_y += tl.load(addend + e * rank + columns, mask=mask, other=0.0).to(tl.float64)
        f = z_plus_y
    if HAS_WEIGHT:
        w = tl.load(weight + e).to(tl.float64)
        f = w * z_plus_y + (1.0 - w)
    return f, z_plus_y, w


@triton.jit
def multiply(
    z,
    addend,
    weight,
    rank,
    ptr,
    other,
    edge,
    grad,
    out,
    code,
    TANH: tl.constexpr,
    HAS_ADDEND: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    HAS_EDGE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute the products of one row.

    Forward (grad is None): out = act(P). Backward: out and code hold g act'(P) prod f = mantissa * 2^exponent over the
    nonzero factors, with code = 2 * exponent + (1 if exactly one factor is zero). With two or more zeros out is 0.
    """
    v = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < rank
    m = tl.full([BLOCK], 1.0, tl.float64)
    x = tl.zeros([BLOCK], tl.int64)
    zeros = tl.zeros([BLOCK], tl.int32)
    for k in range(tl.load(ptr + v), tl.load(ptr + v + 1)):
        u = tl.load(other + k).to(tl.int64)
        e = k
        if HAS_EDGE:
            e = tl.load(edge + k)
        f, _, _ = _factors(z, addend, weight, u, e, columns, mask, rank, HAS_ADDEND, HAS_WEIGHT)
        is_zero = f == 0.0
        zeros += is_zero.to(tl.int32)
        f, x = _normalize(tl.where(is_zero, 1.0, f), x)
        m, x = _normalize(m * f, x)
    p = _join(m, x)
    p = tl.where(zeros > 0, m * 0.0, p)  # NaN stays NaN
    a = tl.abs(p)
    decay = tl.exp(-2.0 * tl.where(a > 350.0, 350.0, a))
    if grad is None:
        if TANH:
            value = (1.0 - decay) / (1.0 + decay)
            small = a * (1.0 - a * a * (1.0 / 3.0 - a * a * (2.0 / 15.0)))
            value = tl.where(a < 1e-3, small, value)
            p = tl.where(p < 0.0, -value, value)
        tl.store(out + v * rank + columns, p, mask=mask)
    else:
        g = tl.load(grad + v * rank + columns, mask=mask, other=0.0).to(tl.float64)
        g, x = _normalize(g, x)
        m = m * g
        if TANH:
            # exp(-2 a) = root ** 4 underflows in float64, but not with a separate exponent.
            root, shift = _normalize(tl.exp(-0.5 * tl.where(a > 1100.0, 1100.0, a)), tl.zeros([BLOCK], tl.int64))
            root *= root
            slope = tl.where(a > 1100.0, 0.0, 4.0 * root * root / ((1.0 + decay) * (1.0 + decay)))
            slope, x = _normalize(slope, x + 4 * shift)
            m = m * slope
        tl.store(out + v * rank + columns, tl.where(zeros > 1, m * 0.0, m), mask=mask)
        x = tl.minimum(tl.maximum(x, -100000), 100000)
        tl.store(code + v * rank + columns, (2 * x + (zeros == 1).to(tl.int64)).to(tl.int32), mask=mask)


@triton.jit
def distribute(
    z,
    addend,
    weight,
    rank,
    ptr,
    other,
    edge,
    mantissa,
    code,
    grad_z,
    grad_addend,
    grad_weight,
    num_edges,
    TANH: tl.constexpr,
    HAS_ADDEND: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    HAS_EDGE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute the gradients of one source and of the edges out of it.

    grad_weight has one row per block of columns. A single zero factor gets the product of the other factors.
    """
    u = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < rank
    total = tl.zeros([BLOCK], tl.float64)
    scaled_down = tl.zeros([BLOCK], tl.float64)
    for k in range(tl.load(ptr + u), tl.load(ptr + u + 1)):
        v = tl.load(other + k).to(tl.int64)
        e = k
        if HAS_EDGE:
            e = tl.load(edge + k)
        f, z_plus_y, w = _factors(z, addend, weight, u, e, columns, mask, rank, HAS_ADDEND, HAS_WEIGHT)
        c = tl.load(code + v * rank + columns, mask=mask, other=0).to(tl.int64)
        m = tl.load(mantissa + v * rank + columns, mask=mask, other=0.0)
        is_zero = f == 0.0
        m = tl.where((c & 1) == is_zero.to(tl.int64), m, m * 0.0)
        f, x = _normalize(tl.where(is_zero, 1.0, f), tl.zeros([BLOCK], tl.int64))
        d = _finite(_join(m / f, (c >> 1) - x))
        if HAS_WEIGHT:
            terms = tl.where(mask, _finite(d * (z_plus_y - 1.0)), 0.0)
            part = _sum_or_rescaled(tl.sum(terms, 0), tl.sum(terms * _DOWN, 0))
            tl.store(grad_weight + tl.program_id(1).to(tl.int64) * num_edges + e, part)
            d = d * w
        if HAS_ADDEND:
            _store_finite(grad_addend + e * rank + columns, d, mask)
        total += d
        scaled_down += d * _DOWN
    _store_finite(grad_z + u * rank + columns, _sum_or_rescaled(total, scaled_down), mask)


@triton.jit
def _sum_or_rescaled(total, scaled_down):
    """Return a sum, or the sum of the same numbers times 2^-64 if large numbers of both signs gave inf or NaN."""
    return tl.where(tl.abs(total) <= _LARGEST, total, _finite(scaled_down * 18446744073709551616.0))


@triton.jit
def _store_finite(pointer, x, mask):
    largest = 3.4028234663852886e38 if pointer.dtype.element_ty == tl.float32 else _LARGEST
    x = tl.where(x > largest, largest, x)
    tl.store(pointer, tl.where(x < -largest, -largest, x), mask=mask)
