"""``tgnn bench``: time the backends of the product on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from tgnn.cli.console import print_json, print_rows
from tgnn.cli.options import Json

if TYPE_CHECKING:
    from torch import Tensor


def bench(
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes of the random graph.")] = 20_000,
    edges: Annotated[int, typer.Option(min=1, help="Number of edges of the random graph.")] = 200_000,
    rank: Annotated[int, typer.Option(min=1, help="Number of columns of the product (CP rank).")] = 64,
    repeat: Annotated[int, typer.Option(min=1, help="Number of repetitions. The fastest one is reported.")] = 5,
    json: Json = False,
) -> None:
    """Time the product over neighborhoods on each backend.

    The time is that of a forward and a backward pass. It is compared with the sum over neighborhoods by PyG's scatter.
    """
    import torch
    from torch_geometric.utils import scatter

    from tgnn.ops import available_backends, neighbor_product, use_backend

    generator = torch.Generator().manual_seed(0)
    z = torch.randn(nodes, rank, generator=generator).requires_grad_()
    edge_index = torch.randint(nodes, (2, edges), generator=generator)
    source, target = edge_index
    sum_time = _time(lambda: scatter(z[source], target, dim_size=nodes, reduce="sum"), z, repeat)
    times = {"sum, PyG": sum_time}
    for name, state in available_backends().items():
        if state == "available" and name != "reference":  # the reference is a definition, and slow
            with use_backend(name):
                times[f"product, {name}"] = _time(lambda: neighbor_product(z, edge_index, activation="tanh"), z, repeat)
    if json:
        print_json({name: round(1000 * seconds, 3) for name, seconds in times.items()})
        return
    rows = [(name, f"{1000 * seconds:.2f}", f"{seconds / sum_time:.2f}") for name, seconds in times.items()]
    print_rows(("operator", "milliseconds", "relative"), rows)


def _time(operator: Callable[[], Tensor], z: Tensor, repeat: int) -> float:
    """Return the time of the fastest forward and backward pass, in seconds, after one pass to warm up."""
    import torch

    seconds = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        torch.autograd.grad(operator().sum(), z)
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])
