"""Shared fixtures: available backends, and random graphs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from tgnn.ops import available_backends

ALL = ["reference", "torch", "cpp"]
if available_backends()["triton"] == "available":  # on a GPU, or in Triton's interpreter, see test_triton.py
    ALL.append("triton")


def pytest_configure() -> None:
    """Divide the cores among parallel test workers and the processes that they start."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        threads = max(1, (os.cpu_count() or 1) // workers)
        torch.set_num_threads(threads)
        os.environ["OMP_NUM_THREADS"] = str(threads)


def _available(name: str) -> str:
    reason = available_backends()[name]
    if reason != "available":
        pytest.skip(f"{name}: {reason}")
    return name


@pytest.fixture(autouse=True)
def logger_as_it_was() -> Iterator[None]:
    """Restore the logger after each test: the command line configures it, and searches disable it."""
    yield
    logger = logging.getLogger("tgnn")
    for handler in list(logger.handlers):  # their stream is closed by pytest after the test
        logger.removeHandler(handler)
        handler.close()
    logger.filters.clear()
    logger.setLevel(logging.NOTSET)
    logger.propagate, logger.disabled = True, False


def _parameters(names: list[str]) -> list[object]:
    """Mark the kernels for GPUs with ``gpu``, unless Triton interprets them on the CPU."""
    on_gpu = torch.cuda.is_available()
    return [pytest.param(name, marks=pytest.mark.gpu) if on_gpu and name == "triton" else name for name in names]


@pytest.fixture(params=_parameters(ALL))
def backend(request: pytest.FixtureRequest) -> str:
    """Every backend. A backend that this machine cannot run is skipped with its reason."""
    return _available(request.param)


@pytest.fixture(params=_parameters(ALL[1:]))
def accelerated(request: pytest.FixtureRequest) -> str:
    """Every backend except the reference."""
    return _available(request.param)


def random_edges(num_src: int, num_dst: int, num_edges: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ends = [torch.randint(max(n, 1), (num_edges,), generator=generator) for n in (num_src, num_dst)]
    return torch.stack(ends)


def random_factors(rows: int, rank: int, dtype: torch.dtype, zeros: float = 0.0, seed: int = 1) -> Tensor:
    """Draw normal numbers and set a fraction of them to zero."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(rows, rank, generator=generator, dtype=torch.float64)
    z[torch.rand(rows, rank, generator=generator) < zeros] = 0
    return z.to(dtype)


def to_csr(edges: Tensor, num_dst: int, num_src: int) -> Tensor:
    """Return the transposed adjacency matrix (``adj_t``), whose rows are the destinations."""
    order = edges[1].argsort(stable=True)
    ptr = torch.searchsorted(edges[1][order], torch.arange(num_dst + 1))
    ones = torch.ones(edges.size(1))
    return torch.sparse_csr_tensor(ptr, edges[0][order], ones, (num_dst, num_src), check_invariants=False)
