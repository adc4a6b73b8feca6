"""A training step of gated layers and of blocks, compared to PyG's ``ResGatedGraphConv`` and ``PNAConv``.

``python -m benchmarks.blocks NAME`` prints the extra memory of one candidate as a JSON object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import PNAConv, ResGatedGraphConv

from benchmarks.edge_factors import EDGES, GRAPHS, NODES, WIDTH, batch_of_graphs
from benchmarks.measure import print_extra_memory
from tgnn.nn import TGNNBlock, TGNNConv

RANK = 24
GATED = {"low_order": "gated_mean", "add_self_loops": False, "root_weight": True, "edge_dim": WIDTH}
BOUNDED = {"factors": "bounded", "degree_exponent": 0.5, "high_scale": 0.01}


class PyGBlock(torch.nn.Module):
    """A layer of PyG in the skeleton of ``TGNNBlock``: normalization, residual and feed-forward sublayer."""

    def __init__(self, conv: torch.nn.Module) -> None:
        super().__init__()
        self.conv = conv
        self.norm, self.norm_ffn = torch.nn.BatchNorm1d(WIDTH), torch.nn.BatchNorm1d(WIDTH)
        hidden = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.ffn = torch.nn.Sequential(hidden, torch.nn.ReLU(), torch.nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        h = x + self.norm(self.conv(x, edge_index, edge_attr=edge_attr)).relu()
        out: Tensor = self.norm_ffn(h + self.ffn(h))
        return out


def contenders() -> dict[str, Callable[[], None]]:
    """Return a training step of each candidate, with new edges each time, as in batches of graphs."""
    edges, nodes = batch_of_graphs(GRAPHS, NODES, EDGES), GRAPHS * NODES
    x, edge_attr = torch.randn(nodes, WIDTH), torch.randn(edges.size(1), WIDTH)

    def step(make: Callable[[], torch.nn.Module]) -> Callable[[], None]:
        model: list[Any] = []  # made at the first call, so that memory of other candidates is not measured

        def run() -> None:
            if not model:
                module = make()
                model.extend([module, torch.optim.Adam(module.parameters(), fused=True)])
            module, optimizer = model
            out = module(x, edges.clone(), edge_attr=edge_attr)
            sum(part.square().mean() for part in (out if isinstance(out, tuple) else (out,))).backward()
            optimizer.step()
            optimizer.zero_grad()  # at the end, so that gradients count as memory of one step

        return run

    def gated() -> torch.nn.Module:
        return ResGatedGraphConv(WIDTH, WIDTH, edge_dim=WIDTH)

    def pna() -> torch.nn.Module:
        degrees = torch.bincount(torch.bincount(edges[1], minlength=nodes))
        scalers = ["identity", "amplification", "attenuation"]
        return PNAConv(WIDTH, WIDTH, ["mean", "min", "max", "std"], scalers, degrees, edge_dim=WIDTH)

    return {
        "PyG ResGatedGraphConv": step(gated),
        "PyG PNAConv": step(pna),
        "TGNNConv, gated mean": step(lambda: TGNNConv(WIDTH, WIDTH, 0, **GATED)),
        "TGNNConv, gated mean and product": step(lambda: TGNNConv(WIDTH, WIDTH, RANK, **GATED, **BOUNDED)),
        "block of PyG ResGatedGraphConv": step(lambda: PyGBlock(gated())),
        "block of PyG PNAConv": step(lambda: PyGBlock(pna())),
        "TGNNBlock, without products": step(lambda: TGNNBlock(WIDTH, WIDTH, 0, **GATED)),
        "TGNNBlock": step(lambda: TGNNBlock(WIDTH, WIDTH, RANK, **GATED, **BOUNDED)),
        "TGNNBlock, edge states": step(lambda: TGNNBlock(WIDTH, WIDTH, RANK, update_edges=True, **GATED, **BOUNDED)),
    }


if __name__ == "__main__":
    print_extra_memory(contenders())
