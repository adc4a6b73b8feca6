"""Factors of edges and gated sums compared to the same operations written in eager PyG.

``python -m benchmarks.edge_factors NAME`` prints the extra memory of one candidate as a JSON object.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric.utils import scatter

from benchmarks.measure import print_extra_memory
from tgnn.ops import exclusive_product, gated_sum, neighbor_product

GRAPHS, NODES, EDGES, WIDTH = 64, 117, 941, 64  # a batch of CIFAR10 superpixel graphs


def batch_of_graphs(graphs: int, nodes: int, edges: int) -> Tensor:
    """Return the edges of random graphs of the same size, numbered one after the other."""
    generator = torch.Generator().manual_seed(0)
    first = (torch.arange(graphs) * nodes).repeat_interleave(edges)
    return torch.randint(nodes, (2, graphs * edges), generator=generator) + first


def _inputs(edges: Tensor, nodes: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = [(nodes, WIDTH)] * 3 + [(edges.size(1), WIDTH)]
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


def _eager_product(src: Tensor, dst: Tensor, edge: Tensor, edges: Tensor, degree: Tensor) -> Tensor:
    """Return two-ended bounded factors as a sum of logarithms: they are positive."""
    factors = 1 + 0.9 * torch.tanh(src[edges[0]] + dst[edges[1]] + edge)
    logs = scatter(factors.log(), edges[1], dim=0, dim_size=src.size(0), reduce="sum")
    return (logs * degree.clamp(min=1).rsqrt().unsqueeze(1)).exp()


def _eager_exclusive(src: Tensor, dst: Tensor, edge: Tensor, edges: Tensor) -> Tensor:
    factors = 1 + 0.9 * torch.tanh(src[edges[0]] + dst[edges[1]] + edge)
    logs = factors.log()
    return (scatter(logs, edges[1], dim=0, dim_size=src.size(0), reduce="sum")[edges[1]] - logs).exp()


def _eager_leave_one_out(src: Tensor, dst: Tensor, edge: Tensor, edges: Tensor) -> Tensor:
    """Divide the product by each factor, which is not exact at zeros, as in belief propagation."""
    factors = torch.tanh(src[edges[0]] + dst[edges[1]] + edge)
    return scatter(factors, edges[1], dim=0, dim_size=src.size(0), reduce="mul")[edges[1]] / factors


def _eager_gated(x: Tensor, src: Tensor, dst: Tensor, edge: Tensor, edges: Tensor) -> Tensor:
    """Return the gated mean as ``GatedGCN`` of benchmarking-gnns computes it."""
    eta = torch.sigmoid(src[edges[0]] + dst[edges[1]] + edge)
    total = scatter(eta * x[edges[0]], edges[1], dim=0, dim_size=src.size(0), reduce="sum")
    return total / (scatter(eta, edges[1], dim=0, dim_size=src.size(0), reduce="sum") + 1e-6)


def contenders() -> dict[str, Callable[[], None]]:
    """Return the forward and backward passes of all candidates; an eager one precedes ours."""
    edges, nodes = batch_of_graphs(GRAPHS, NODES, EDGES), GRAPHS * NODES
    src, dst, x, edge = inputs = _inputs(edges, nodes)
    degree = torch.bincount(edges[1], minlength=nodes).float()
    terms = {"z_dst": dst, "edge_addend": edge, "factor_activation": "bounded", "bound": 0.9}
    squashed = {"z_dst": dst, "edge_addend": edge, "factor_activation": "tanh"}
    gates = {"gate_src": src, "gate_dst": dst, "gate_edge": edge}

    def step(forward: Callable[[], Tensor]) -> Callable[[], None]:
        grad = torch.ones_like(forward())

        def run() -> None:
            forward().backward(grad)
            for tensor in inputs:  # at the end, so that gradients count as memory of one run
                tensor.grad = None

        return run

    return {
        "bounded product, eager": step(lambda: _eager_product(src, dst, edge, edges, degree)),
        "bounded product, tgnn": step(lambda: neighbor_product(src, edges, degree_exponent=0.5, **terms)),
        "exclusive product, eager": step(lambda: _eager_exclusive(src, dst, edge, edges)),
        "exclusive product, tgnn": step(lambda: exclusive_product(src, edges, **terms)),
        "exclusive product of tanh, eager": step(lambda: _eager_leave_one_out(src, dst, edge, edges)),
        "exclusive product of tanh, tgnn": step(lambda: exclusive_product(src, edges, **squashed)),
        "gated mean, eager": step(lambda: _eager_gated(x, src, dst, edge, edges)),
        "gated mean, tgnn": step(lambda: gated_sum(x, edges, normalize=True, **gates)),
    }


def small_calls() -> dict[str, Callable[[], None]]:
    """Return the forward and backward passes of a layer on 60 edges, with old and with new edges."""
    from torch_geometric.nn import MessagePassing

    class SumLayer(MessagePassing):
        """PyG's message passing with a sum and nothing else."""

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return torch.tanh(self.propagate(edge_index, x=x))

    edges, layer = batch_of_graphs(1, 30, 60), SumLayer(aggr="sum")
    z, grad = torch.randn(30, 32, requires_grad=True), torch.ones(30, 32)

    def step(forward: Callable[[Tensor], Tensor], new: bool) -> Callable[[], None]:
        def run() -> None:
            z.grad = None
            forward(edges.clone() if new else edges).backward(grad)

        return run

    found = {}
    for new in (False, True):
        name = "new edges" if new else "same edges"
        found[f"{name}, PyG sum"] = step(lambda e: layer(z, e), new)
        found[f"{name}, tgnn product"] = step(lambda e: neighbor_product(z, e, activation="tanh"), new)
    return found


def molecules() -> dict[str, Callable[[], None]]:
    """Return a training step of ``GraphTGNN`` and of PyG's ``GIN`` on 64 molecules, with new edges each time."""
    from torch_geometric.nn import GIN, global_add_pool

    from tgnn import GraphTGNN

    edges, nodes = batch_of_graphs(64, 23, 50), 64 * 23
    x, batch = torch.randn(nodes, 28), torch.arange(64).repeat_interleave(23)
    ours, theirs = GraphTGNN(28, 64, 4, 1, rank=64), GIN(28, 64, 4, 1)

    def step(model: torch.nn.Module, forward: Callable[[Tensor], Tensor]) -> Callable[[], None]:
        optimizer = torch.optim.Adam(model.parameters(), fused=True)

        def run() -> None:
            optimizer.zero_grad()
            forward(pad(edges, (0, 0))).square().mean().backward()
            optimizer.step()

        return run

    return {
        "64 molecules, PyG GIN": step(theirs, lambda e: global_add_pool(theirs(x, e), batch, 64)),
        "64 molecules, GraphTGNN": step(ours, lambda e: ours(x, e.clone(), batch, batch_size=64)),
    }


def molecule_profile(steps: int = 30) -> dict[str, float]:
    """Return the shares of kernels, torch and Python in a training step of ``GraphTGNN`` on 64 molecules.

    The share of Python is an upper bound, because the profiler slows it down.
    """
    run = molecules()["64 molecules, GraphTGNN"]
    run()
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(steps):
        run()
    profile.disable()
    seconds = {"kernels of tgnn": 0.0, "operations and autograd of torch": 0.0, "Python": 0.0}
    for (file, _, name), (_, _, own_time, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        is_kernel = file.endswith("cpp_build.py") and name == "call"
        kind = 0 if is_kernel else 1 if file == "~" else 2  # built-in functions have no file
        seconds[list(seconds)[kind]] += own_time
    return {kind: s / sum(seconds.values()) for kind, s in seconds.items()}


if __name__ == "__main__":
    print_extra_memory(contenders())
