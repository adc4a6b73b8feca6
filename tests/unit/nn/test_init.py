"""The product is alive at the start, for leaves and for hubs, and its gradient reaches W1."""

from __future__ import annotations

import pytest
import torch

from tgnn import TGNNConv
from tgnn.nn.init import log_spaced_normal_
from tgnn.ops import neighbor_product

DEGREES = [1, 2, 10, 100, 1000, 10000]


def star(degree: int) -> torch.Tensor:
    """Node 0 has ``degree`` neighbors."""
    return torch.stack([torch.arange(1, degree + 1), torch.zeros(degree, dtype=torch.int64)])


def at_the_start(degree: int, rank: int, features: str) -> tuple[torch.Tensor, float]:
    """tanh(product) at the center of some stars, ``[stars, rank]``, and the size of W1's gradient for each star."""
    torch.manual_seed(degree + rank)
    hub, size = [], []
    conv = TGNNConv(16, 8, rank, act_high=None)
    for _ in range(10):
        x = torch.randn(degree + 1, 16) if features == "normal" else (torch.rand(degree + 1, 16) < 0.1).float()
        product = conv.cp.factors(x)
        value = neighbor_product(product, star(degree), activation="tanh", self_loops=True)[0]
        conv.zero_grad()
        conv.cp.update(value).sum().backward()
        hub.append(value.detach())
        size.append(float(conv.cp.lin.weight.grad.norm()))
    return torch.stack(hub), sum(size) / len(size)


@pytest.mark.parametrize("features", ["normal", "bag of words"])
@pytest.mark.parametrize("rank", [8, 64, 512])
@pytest.mark.parametrize("degree", DEGREES)
def test_alive_at_every_degree(degree, rank, features):
    value, gradient = at_the_start(degree, rank, features)
    assert value.isfinite().all()
    assert value.std() > 0.02, "all products are alike"
    assert (value.abs() > 0.999).float().mean() < 0.5, "most products are saturated"
    assert (value.abs() < 1e-3).float().mean() < 0.75, "most products are dead"
    assert 1e-2 < gradient < 1e6, "no gradient for W1, or too much"


def test_scales():
    weight = log_spaced_normal_(torch.empty(2000, 9))
    torch.testing.assert_close(
        weight.std(0) * 2000**0.5, torch.logspace(0, -4, 9), rtol=0.15, atol=0, msg="each column has its own size"
    )
    assert 0.005 < float(log_spaced_normal_(torch.empty(5000, 1)).std() * 5000**0.5) < 0.02
    alike = log_spaced_normal_(torch.empty(2000, 9), smallest=1.0).std(0) * 2000**0.5
    torch.testing.assert_close(alike, torch.ones(9), rtol=0.15, atol=0)
