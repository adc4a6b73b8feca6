"""The neighborhood product compared to message passing in PyG and to a plain memory copy."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from benchmarks.measure import side_by_side
from tgnn.ops import neighbor_product, use_backend


def step(product: Callable[[Tensor], Tensor], z: Tensor, grad: Tensor) -> Callable[[], None]:
    """Return a function that runs the forward and the backward pass."""

    def run() -> None:
        z.grad = None
        product(z).backward(grad)

    return run


def tgnn(edges: Tensor, backend: str) -> Callable[[Tensor], Tensor]:
    def run(z: Tensor) -> Tensor:
        with use_backend(backend):
            return neighbor_product(z, edges, activation="tanh")

    return run


def pyg(edges: Tensor, reduce: str) -> Callable[[Tensor], Tensor]:
    """Return gather and scatter, as in a ``MessagePassing`` layer."""
    src, dst = edges
    return lambda z: torch.tanh(scatter(z[src], dst, dim=0, dim_size=z.size(0), reduce=reduce))


def bytes_touched(nodes: int, edges: int, rank: int) -> int:
    """Return the minimum memory traffic of both passes in float32.

    Each pass reads one row per edge. z, its gradient, the result and its gradient are read or written once.
    """
    return 4 * rank * (2 * edges + 4 * nodes)


def copy(size: int) -> Callable[[], object]:
    """Return a function that copies half of ``size`` bytes, so that reads and writes sum to ``size``."""
    source, target = (torch.empty(size // 2, dtype=torch.uint8) for _ in range(2))
    return lambda: target.copy_(source)


def compare(edges: Tensor, nodes: int, rank: int, rounds: int) -> dict[str, float]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(nodes, rank, generator=generator).requires_grad_()
    grad = torch.randn(nodes, rank, generator=generator)

    contenders = {
        "PyG gather + scatter mul": step(pyg(edges, "mul"), z, grad),
        "PyG gather + scatter sum": step(pyg(edges, "sum"), z, grad),
        "tgnn, cpp": step(tgnn(edges, "cpp"), z, grad),
        "tgnn, torch": step(tgnn(edges, "torch"), z, grad),
        "memory copy": copy(bytes_touched(nodes, edges.size(1), rank)),
    }
    return side_by_side(contenders, rounds)


def only_ours(edges: Tensor, nodes: int, rank: int) -> Callable[[], None]:
    z = torch.randn(nodes, rank, generator=torch.Generator().manual_seed(0)).requires_grad_()
    return step(tgnn(edges, "cpp"), z, torch.randn(nodes, rank))
