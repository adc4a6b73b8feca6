"""Direct calls and calls through the dispatcher give the same results; dispatch modes see the operators."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.conftest import random_edges, random_factors
from tgnn.ops import neighbor_product, neighbor_sum

EDGES = random_edges(6, 6, 20)


class Watch(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


def product(z):
    return neighbor_product(z, EDGES, activation="tanh")


def total(z):
    return neighbor_sum(z, EDGES)


@pytest.mark.parametrize(("operator", "name"), [(product, "neighbor_product"), (total, "neighbor_sum")])
def test_the_same_with_and_without_the_dispatcher(operator, name):
    z = random_factors(6, 3, torch.float32).requires_grad_()
    direct = operator(z)
    (gradient,) = torch.autograd.grad(direct.sum(), z)
    with Watch() as watch:
        seen = operator(z)
        (seen_gradient,) = torch.autograd.grad(seen.sum(), z)
    assert torch.equal(seen, direct)
    assert torch.equal(seen_gradient, gradient)
    assert f"tgnn.{name}.default" in watch.seen
    assert any("backward" in call or call == "tgnn.neighbor_sum.default" for call in watch.seen)


@pytest.mark.parametrize("operator", [product, total])
def test_the_backward_pass_can_run_again(operator):
    z = random_factors(6, 3, torch.float32).requires_grad_()
    out = operator(z).sum()
    (first,) = torch.autograd.grad(out, z, retain_graph=True)
    (second,) = torch.autograd.grad(out, z)
    assert torch.equal(first, second)


@pytest.mark.parametrize("operator", [product, total])
def test_not_tracked_where_nothing_requires_it(operator):
    z = random_factors(6, 3, torch.float32)
    assert not operator(z).requires_grad
    z.requires_grad_()
    assert operator(z).requires_grad
    with torch.no_grad():
        assert not operator(z).requires_grad
    with torch.inference_mode():
        assert not operator(z).requires_grad


def test_meta_tensors_have_shapes_only():
    z = torch.empty(6, 3, device="meta")
    with pytest.raises(ValueError, match="graph is on cpu, but z is on meta"):
        product(z)


def test_in_many_threads():
    z = random_factors(6, 3, torch.float32)
    expected, found = product(z), []
    threads = [threading.Thread(target=lambda: found.append(product(z))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(torch.equal(f, expected) for f in found)
