"""Numbers with a separate exponent, in torch: products and sums of them neither overflow nor underflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_NO_EXPONENT = -(2**40)  # exponent of 0 in a comparison


def clamp_to_finite(x: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """Replace values that overflow ``dtype`` by its largest finite number; NaN stays NaN."""
    largest = min(torch.finfo(dtype).max, torch.finfo(x.dtype).max)
    return x.clamp(-largest, largest)


@dataclass(frozen=True)
class Scaled:
    """A number ``mantissa * 2 ** exponent`` with a mantissa in float64. The exponent is a constant for autograd."""

    mantissa: Tensor
    exponent: Tensor

    @staticmethod
    def of(x: Tensor, exponent: Tensor | int = 0) -> Scaled:
        """Return ``x * 2 ** exponent``. Zero, inf and NaN keep their mantissa."""
        x = x.double()
        own = torch.frexp(x.detach()).exponent.to(torch.int64)
        return Scaled(_times_power_of_two(x, -own), own + exponent)

    def __mul__(self, other: object) -> Scaled:
        assert isinstance(other, Scaled)
        return Scaled.of(self.mantissa * other.mantissa, self.exponent + other.exponent)

    def plus(self, other: Scaled) -> Scaled:
        top = torch.maximum(self._size(), other._size())
        top = torch.where(top == _NO_EXPONENT, torch.maximum(self.exponent, other.exponent), top)
        total = sum(_times_power_of_two(x.mantissa, x.exponent - top) for x in (self, other))
        assert isinstance(total, Tensor)
        return Scaled.of(total, top)

    def _size(self) -> Tensor:
        return torch.where(self.mantissa == 0, _NO_EXPONENT, self.exponent)

    def __getitem__(self, index: Any) -> Scaled:
        return Scaled(self.mantissa[index], self.exponent[index])

    def or_one(self, mask: Tensor) -> Scaled:
        """Return 1 where the mask is false."""
        return Scaled(torch.where(mask, self.mantissa, 1.0), torch.where(mask, self.exponent, 0))

    def signed_power(self, power: Tensor) -> Scaled:
        """Return ``sign(x) |x| ** power`` for a positive power; 0 stays 0."""
        is_zero = self.mantissa == 0
        logs = power * (pointwise(torch.log2, self.mantissa.abs().masked_fill(is_zero, 1)) + self.exponent)
        whole = logs.detach().round()
        value = pointwise(torch.exp2, logs - whole) * self.mantissa.detach().sign()
        value = torch.where(is_zero, self.mantissa.detach(), value)
        exponent = torch.where(is_zero, 0, whole.nan_to_num()).to(torch.int64)
        is_one = (power == 1) & torch.ones_like(is_zero)
        return Scaled(torch.where(is_one, self.mantissa, value), torch.where(is_one, self.exponent, exponent))

    def to_float(self) -> Tensor:
        return _times_power_of_two(self.mantissa, self.exponent)


@dataclass(frozen=True)
class Dual:
    """A number ``value + slope * epsilon`` with ``epsilon ** 2 = 0``: a product of them also holds its derivative."""

    value: Scaled
    slope: Scaled

    def __mul__(self, other: object) -> Dual:
        assert isinstance(other, Dual)
        return Dual(self.value * other.value, (self.slope * other.value).plus(self.value * other.slope))

    def __getitem__(self, index: Any) -> Dual:
        return Dual(self.value[index], self.slope[index])

    def or_one(self, mask: Tensor) -> Dual:
        """Return 1 where the mask is false."""
        zero = torch.where(mask, self.slope.mantissa, 0.0)
        return Dual(self.value.or_one(mask), Scaled(zero, self.slope.exponent))


def finite_sum(x: Tensor, dim: int) -> Tensor:
    """Sum finite numbers in float64 such that large ones of both signs do not give ``inf - inf``."""
    total = x.sum(dim)
    if x.numel() == 0 or bool(total.isfinite().all()):
        return total
    down, up = 2.0**-64, 2.0**64
    return torch.where(total.isfinite(), total, clamp_to_finite((x * down).sum(dim) * up))


def tanh_slope(x: Tensor) -> Scaled:
    """Return ``1 - tanh(x)**2 = 4 E / (1 + E)**2`` with ``E = exp(-2 |x|)``, beyond the range of float64."""
    beyond = x.abs() > 1100.0  # the slope times the product of all factors but one is 0 in float64
    y = -2 * x.abs().masked_fill(beyond, 0)
    whole = (y / math.log(2)).round()
    high, low = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")  # ln 2
    decay = Scaled.of(pointwise(torch.exp, (y - whole * high) - whole * low), whole.nan_to_num().to(torch.int64))
    slope = Scaled.of(4 / (1 + decay.to_float()).square()) * decay
    return Scaled(slope.mantissa.masked_fill(beyond, 0), slope.exponent)


def _times_power_of_two(x: Tensor, exponent: Tensor) -> Tensor:
    if torch.is_grad_enabled() and x.requires_grad:
        out: Tensor = _TimesPowerOfTwo.apply(x, exponent)  # type: ignore[no-untyped-call]
        return out
    exponent = exponent.clamp(-2000, 2000)
    half = exponent >> 1
    return x * _power_of_two(half) * _power_of_two(exponent - half)


def _power_of_two(exponent: Tensor) -> Tensor:
    return ((exponent + 1023) << 52).view(torch.float64)  # the bits of 2 ** exponent


_CHUNK = 2**14


def pointwise(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a function such that its bits do not depend on the number of threads.

    On the CPU, torch divides large tensors among its threads. The last bits of functions like ``exp`` differ between
    the vectorized body and the rest of a part. Parts of constant size are computed by one thread each.
    """
    if x.device.type != "cpu" or x.numel() <= _CHUNK:
        return function(x)
    return torch.cat([function(part) for part in torch.split(x.flatten(), _CHUNK)]).view(x.shape)


class _TimesPowerOfTwo(torch.autograd.Function):
    """``x * 2 ** exponent`` whose derivative is finite: an infinite one would turn a factor 0 after it into NaN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, exponent: Tensor) -> Tensor:
        ctx.save_for_backward(exponent)
        return _times_power_of_two(x, exponent)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return clamp_to_finite(_times_power_of_two(grad, ctx.saved_tensors[0])), None
