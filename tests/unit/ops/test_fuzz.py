"""A short run of the fuzz program; ``python -m tests.fuzz`` runs a long one."""

from __future__ import annotations

import platform

import pytest

from tests.fuzz import failures, run
from tgnn.ops import use_backend


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the oracle needs the 80-bit numbers of x86")
def test_products_and_gradients_against_wide_exponents(backend):
    count = 4_000 if backend in ("reference", "triton") else 60_000
    with use_backend(backend):
        worst, compared = run(count, seed=7)
    assert compared > 0.9 * count
    assert failures(worst) == {}
