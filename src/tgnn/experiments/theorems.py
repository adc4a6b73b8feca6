"""Numerical checks of the three theorems of the paper, on CP layers built for each case."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tgnn.experiments.results import CellResult
from tgnn.nn import CPAggregation
from tgnn.theory import cp_from_polynomial, cp_mean, cp_sum, equal_sums_differ

_POLYNOMIALS = ((2, 3), (3, 4), (4, 5), (10, 3))
_SETS = (3, 8, 20, 100)
_LAYERS = 100

Terms = dict[tuple[int, ...], Tensor]
Check = tuple[bool, str]
"""Whether the theorem holds, and a description of the check."""


def measure_theorem(row: str, column: str, seed: int, store: Path, options: Mapping[str, Any]) -> CellResult:
    """Run one check. It trains nothing, so ``seed`` and ``store`` are ignored."""
    holds, description = CHECKS[row, column]()
    return CellResult(row, column, "holds", failed="" if holds else "the theorem does not hold", note=description)


def random_polynomial(features: int, k: int) -> tuple[Terms, Tensor, Tensor]:
    """Draw a polynomial that is symmetric in k vectors, and evaluate it on 20 random sets of k vectors."""
    generator = torch.Generator().manual_seed(0)
    keys = [key for n in range(k + 1) for key in itertools.combinations_with_replacement(range(features), n)]
    terms = {key: torch.randn(2, generator=generator, dtype=torch.float64) for key in keys}
    sets = torch.randn(20, k, features, generator=generator, dtype=torch.float64)
    return terms, sets, torch.stack([_evaluate(terms, one) for one in sets])


def _evaluate(terms: Terms, x: Tensor) -> Tensor:
    """Evaluate the polynomial one vector at a time. Each vector contributes one of the remaining factors, or none."""
    left = dict(terms)
    for row in x:
        after: Terms = {}
        for key, value in left.items():
            after[key] = after.get(key, 0) + value
            for position in range(len(key)):
                if position == 0 or key[position] != key[position - 1]:
                    rest = key[:position] + key[position + 1 :]
                    after[rest] = after.get(rest, 0) + value * row[key[position]]
        left = after
    return left[()]


def _theorem_1(features: int, k: int) -> Check:
    terms, sets, truth = random_polynomial(features, k)
    layer = cp_from_polynomial(terms, in_channels=features, k=k)
    error = float((_on_sets(layer, sets) - truth).abs().max() / truth.abs().max())
    equality = f"a random permutation-invariant multilinear polynomial of {k} vectors in R^{features} equals a CP layer"
    return error < 1e-6, f"{equality} of rank {layer.rank} (relative error {error:.0e})"


def _theorem_2(k: int) -> Check:
    x = torch.randn(20, k, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    layers = cp_sum(3, k), cp_mean(3, k)
    errors = [float((_on_sets(layer, x) - truth).abs().max()) for layer, truth in zip(layers, (x.sum(1), x.mean(1)))]
    equality = f"sum and mean of {k} vectors in R^3 equal CP layers of rank {layers[0].rank}, at most F k = {3 * k}"
    holds = max(errors) < 1e-6 and layers[0].rank <= 3 * k
    return holds, f"{equality} (errors {errors[0]:.0e} and {errors[1]:.0e})"


def _theorem_3() -> Check:
    count = 0
    for seed in range(_LAYERS):
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(seed)
            layer = CPAggregation(3, 4, rank=5, act_out="relu")
        pair = equal_sums_differ(layer, k=3, seed=seed)
        same = torch.equal(pair.first.sum(0), pair.second.sum(0))
        count += same and not math.isclose(float((pair.first_output - pair.second_output).abs().max()), 0, abs_tol=1e-6)
    return count == _LAYERS, f"{count} of {_LAYERS} layers have different outputs for two sets with the same sum"


@torch.no_grad()
def _on_sets(layer: CPAggregation, sets: Tensor) -> Tensor:
    out: Tensor = layer(sets.reshape(-1, sets.size(2)), torch.arange(len(sets)).repeat_interleave(sets.size(1)))
    return out


CHECKS: dict[tuple[str, str], Callable[[], Check]] = {
    **{("Theorem 1", f"F={features}, k={k}"): partial(_theorem_1, features, k) for features, k in _POLYNOMIALS},
    **{("Theorem 2", f"k={k}"): partial(_theorem_2, k) for k in _SETS},
    ("Theorem 3", f"{_LAYERS} random layers"): _theorem_3,
}
