"""The neighbourhood product against PyG's message passing and against the memory bus."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from benchmarks.measure import side_by_side
from tgnn.ops import neighbor_product, use_backend


def step(product: Callable[[Tensor], Tensor], z: Tensor, grad: Tensor) -> Callable[[], None]:
    """Forward and backward."""

    def run() -> None:
        z.grad = None
        product(z).backward(grad)

    return run


def tgnn(edges: Tensor, backend: str) -> Callable[[Tensor], Tensor]:
    def run(z: Tensor) -> Tensor:
        return neighbor_product(z, edges, activation="tanh")

    def forced(z: Tensor) -> Tensor:
        with use_backend(backend):
            return run(z)

    return forced


def pyg(edges: Tensor, reduce: str) -> Callable[[Tensor], Tensor]:
    """Gather, then scatter: what a ``MessagePassing`` layer does."""
    src, dst = edges
    return lambda z: torch.tanh(scatter(z[src], dst, dim=0, dim_size=z.size(0), reduce=reduce))


def bytes_touched(nodes: int, edges: int, rank: int) -> int:
    """What both passes must read and write in float32: a row per edge each way, and z, its gradient, the result and
    its gradient once.
    """
    return 4 * rank * (2 * edges + 4 * nodes)


def copy(size: int) -> Callable[[], object]:
    """Copies half of ``size`` bytes: reads and writes together touch all of them."""
    source, target = (torch.empty(size // 2, dtype=torch.uint8) for _ in range(2))
    return lambda: target.copy_(source)


def compare(edges: Tensor, nodes: int, rank: int, rounds: int) -> dict[str, float]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(nodes, rank, generator=generator).requires_grad_()
    grad = torch.randn(nodes, rank, generator=generator)

    def backward_too(product: Callable[[Tensor], Tensor], backend: str | None = None) -> Callable[[], None]:
        run = step(product, z, grad)
        if backend is None:
            return run

        def forced() -> None:
            with use_backend(backend):
                run()

        return forced

    return side_by_side(
        {
            "PyG gather + scatter mul": backward_too(pyg(edges, "mul")),
            "PyG gather + scatter sum": backward_too(pyg(edges, "sum")),
            "tgnn, cpp": backward_too(tgnn(edges, "cpp"), "cpp"),
            "tgnn, torch": backward_too(tgnn(edges, "torch"), "torch"),
            "copy of the bytes touched": copy(bytes_touched(nodes, edges.size(1), rank)),
        },
        rounds,
    )


def only_ours(edges: Tensor, nodes: int, rank: int) -> Callable[[], None]:
    z = torch.randn(nodes, rank, generator=torch.Generator().manual_seed(0)).requires_grad_()
    return step(tgnn(edges, "cpp"), z, torch.randn(nodes, rank))
