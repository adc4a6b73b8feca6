"""Construction of BCH codes, and of LDPC codes by progressive edge growth."""

from __future__ import annotations

import numpy as np
import torch

from tgnn.data.codes.code import ParityCheckCode

_PRIMITIVE = {3: 0b1011, 4: 0b10011, 5: 0b100101, 6: 0b1000011, 7: 0b10001001, 8: 0b100011101}
"""A primitive polynomial over GF(2) of each degree m. Bit i is the coefficient of x^i."""


def bch_code(n: int, k: int) -> ParityCheckCode:
    r"""Construct the narrow-sense primitive BCH code with ``n`` bits and ``k`` information bits.

    Its generator polynomial :math:`g` is the product of the minimal polynomials of :math:`\alpha, \alpha^3, \dots`. The
    rows of the parity-check matrix are shifts of :math:`h = (x^n - 1) / g`, highest power first.

    Args:
        n: Number of bits, :math:`2^m - 1` with m from 3 to 8.
        k: Number of information bits.

    Example:
        >>> bch_code(7, 4).parity_check.tolist()
        [[1, 0, 1, 1, 1, 0, 0], [0, 1, 0, 1, 1, 1, 0], [0, 0, 1, 0, 1, 1, 1]]
    """
    degree = n.bit_length()
    if degree not in _PRIMITIVE or n != 2**degree - 1:
        raise ValueError(f"n is {n}, but must be 7, 15, 31, 63, 127 or 255.")
    generator, dimensions, roots = 1, [], set[int]()
    for power in range(1, n, 2):
        if power not in roots:
            polynomial, conjugates = _minimal_polynomial(power, degree)
            generator, roots = _multiply(generator, polynomial), roots | conjugates
            dimensions.append(n - generator.bit_length() + 1)
        if dimensions[-1] <= k:
            break
    if dimensions[-1] != k or k < 1:
        smaller = ", ".join(str(dimension) for dimension in dimensions if dimension > 0)
        raise ValueError(f"There is no BCH code with n = {n} and k = {k}. Possible values of k include {smaller}.")
    check_polynomial = _divide((1 << n) | 1, generator)
    bits = [check_polynomial >> power & 1 for power in range(k, -1, -1)]
    matrix = np.zeros((n - k, n), dtype=np.int64)
    for row in range(n - k):
        matrix[row, row : row + k + 1] = bits
    return ParityCheckCode(f"BCH({n},{k})", torch.from_numpy(matrix))


def peg_code(n: int, num_checks: int, degree: int = 3, seed: int = 0) -> ParityCheckCode:
    """Construct an LDPC code by progressive edge growth (Hu et al., 2005), which avoids short cycles.

    The edges are added one by one. Each new edge connects a variable with one of the checks that are farthest from it
    in the current graph. Among these checks, one with the fewest edges is drawn at random.

    Args:
        n: Number of variables (bits).
        num_checks: Number of checks.
        degree: Number of checks of each variable.
        seed: Random seed.

    Example:
        >>> code = peg_code(96, 48)
        >>> code, code.parity_check.sum(0).unique().tolist()
        (ParityCheckCode('PEG(96,48)', n=96, k=48, checks=48), [3])
    """
    if not 1 <= degree <= num_checks:
        raise ValueError(f"degree is {degree}, but must be between 1 and num_checks, {num_checks}.")
    random = np.random.default_rng(seed)
    matrix = np.zeros((num_checks, n), dtype=bool)
    for variable in range(n):
        for _ in range(degree):
            candidates = _farthest_checks(matrix, variable)
            degrees = matrix[candidates].sum(1)
            matrix[random.choice(candidates[degrees == degrees.min()]), variable] = True
    return ParityCheckCode(f"PEG({n},{n - num_checks})", torch.from_numpy(matrix.astype(np.int64)))


def _farthest_checks(matrix: np.ndarray, variable: int) -> np.ndarray:
    """Return the checks that are farthest from a variable: unreachable ones if there are any."""
    reached = matrix[:, variable].copy()
    if not reached.any():
        return np.arange(len(matrix))
    while True:
        neighbors = matrix[reached].any(0)
        grown = reached | matrix[:, neighbors].any(1)
        if grown.all() or (grown == reached).all():
            return np.flatnonzero(~reached)
        reached = grown


def _minimal_polynomial(power: int, degree: int) -> tuple[int, set[int]]:
    """Return the minimal polynomial over GF(2) of alpha^power, and the powers of alpha that are its roots."""
    order = 2**degree - 1
    powers = [1]  # powers of alpha in GF(2^degree)
    for _ in range(order - 1):
        value = powers[-1] << 1
        powers.append(value ^ _PRIMITIVE[degree] if value >> degree else value)
    logarithm = {value: exponent for exponent, value in enumerate(powers)}
    roots = {power * 2**i % order for i in range(degree)}
    coefficients = [1]
    for root in roots:  # multiply by (x - alpha^root); subtraction is XOR
        shifted = [0, *coefficients]
        scaled = [powers[(logarithm[value] + root) % order] if value else 0 for value in coefficients] + [0]
        coefficients = [a ^ b for a, b in zip(shifted, scaled)]
    return sum(bit << i for i, bit in enumerate(coefficients)), roots


def _multiply(a: int, b: int) -> int:
    """Multiply two polynomials over GF(2)."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a, b = a << 1, b >> 1
    return product


def _divide(a: int, b: int) -> int:
    """Divide two polynomials over GF(2), without the remainder."""
    quotient = 0
    while a.bit_length() >= b.bit_length():
        shift = a.bit_length() - b.bit_length()
        quotient, a = quotient | 1 << shift, a ^ b << shift
    return quotient
