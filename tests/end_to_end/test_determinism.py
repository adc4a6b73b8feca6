"""Products are bitwise identical in every run, for any number of threads, in worker processes and threads."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from tests.conftest import random_edges, random_factors
from tgnn.ops import neighbor_product, use_backend

EDGES = random_edges(3000, 3000, 40_000)


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Use two threads, although parallel test workers have one."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def bits(name: str, edge_terms: bool = False) -> list[torch.Tensor]:
    z = random_factors(3000, 48, torch.float32, zeros=0.001).requires_grad_()
    leaves, terms = [z], {}
    if edge_terms:
        addend = (random_factors(40_000, 48, torch.float32, seed=2) * 0.1).requires_grad_()
        weight = torch.rand(40_000, generator=torch.Generator().manual_seed(3)).requires_grad_()
        leaves, terms = [z, addend, weight], {"edge_addend": addend, "edge_weight": weight}
    with use_backend(name):
        out = neighbor_product(z, EDGES, activation="tanh", **terms)
        return [out.detach(), *torch.autograd.grad(out, leaves, random_factors(3000, 48, torch.float32, seed=4))]


def assert_identical(a: list[torch.Tensor], b: list[torch.Tensor]) -> None:
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x.view(torch.int32), y.view(torch.int32))


@pytest.mark.slow
@pytest.mark.parametrize("edge_terms", [False, True])
@pytest.mark.parametrize("name", ["cpp", "torch"])
def test_same_bits_for_one_and_two_threads_and_every_run(name, edge_terms):
    expected = bits(name, edge_terms)
    for threads in (2, 1, 5):
        torch.set_num_threads(threads)
        assert_identical(bits(name, edge_terms), expected)


@pytest.mark.parametrize("names", [24 * ["cpp"], 6 * ["cpp", "torch"]], ids=["one backend", "two backends"])
def test_many_python_threads_at_once(names):
    """Each thread has its own choice of backend."""
    expected = {name: bits(name) for name in names}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for name, result in zip(names, pool.map(bits, names)):
            assert_identical(result, expected[name])


class Products(Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.cat([t.flatten()[:500] for t in bits("cpp")])


@pytest.mark.parametrize(
    ("start", "workers"), [("fork", 2), ("spawn", 1)]
)  # a spawned worker imports torch, which takes seconds
def test_loader_workers(start, workers):
    expected = Products()[0]  # the parent has used the kernel and its threads before the workers start
    for batch in DataLoader(Products(), num_workers=workers, multiprocessing_context=start, batch_size=3):
        for row in batch:
            assert torch.equal(row, expected)
