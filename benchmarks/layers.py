"""Training of models: time per epoch compared to the GCN of PyG, and stability on graphs with hubs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch_geometric.data import Data
from torch_geometric.nn import GCN, MessagePassing
from torch_geometric.utils import add_self_loops

from tgnn import TGNN


class PyGProducts(torch.nn.Module):
    """The same network built from PyG modules: messages, then ``MulAggregation``."""

    class Layer(MessagePassing):
        def __init__(self, in_channels: int, out_channels: int, rank: int, last: bool) -> None:
            super().__init__(aggr="mul")
            self.factors = torch.nn.Linear(in_channels, rank)
            torch.nn.init.ones_(self.factors.bias)
            self.M = torch.nn.Linear(rank, out_channels, bias=False)
            self.low = torch.nn.Linear(in_channels, out_channels, bias=False)
            self.sum = _Sum()
            self.act = torch.nn.Identity() if last else torch.nn.ReLU()

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            edge_index, _ = add_self_loops(edge_index, num_nodes=x.size(0))
            high = self.M(torch.tanh(self.propagate(edge_index, x=self.factors(x))))
            return self.act(high) + self.act(self.sum(self.low(x), edge_index))

    def __init__(self, in_channels: int, hidden: int, out_channels: int, rank: int) -> None:
        super().__init__()
        self.first = self.Layer(in_channels, hidden, rank, last=False)
        self.second = self.Layer(hidden, out_channels, rank, last=True)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index), edge_index)


class _Sum(MessagePassing):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)


def epoch(model: torch.nn.Module, data: Data, x: Tensor) -> Callable[[], None]:
    """Return a function that runs one full-batch training step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)

    def run() -> None:
        model.train()
        optimizer.zero_grad()
        out = model(x, data.edge_index)
        cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()

    return run


def epochs(data: Data, dropout: float) -> dict[str, Callable[[], None]]:
    dense = data.x.to_dense()
    sizes = (1433, 32, 2, 7)
    contenders = {"PyG GCN": epoch(GCN(*sizes, dropout=dropout), data, dense)}
    for rank in (8, 64, 512):
        contenders[f"tGNN, rank {rank}"] = epoch(TGNN(*sizes, rank=rank, dropout=dropout), data, data.x)
    contenders["built from PyG modules, rank 512"] = epoch(PyGProducts(1433, 32, 7, 512), data, dense)
    return contenders


def train(data: Data, rank: int, seed: int, steps: int = 200) -> tuple[float, float, bool]:
    """Train a model; return the first and the last loss, and whether all outputs and gradients were finite."""
    torch.manual_seed(seed)
    multilabel = data.y.dim() == 2
    classes = data.y.size(1) if multilabel else int(data.y.max()) + 1
    model = TGNN(data.x.size(1), 32, 2, classes, rank=rank, low_order="gcn")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    losses, finite = [], True
    for _ in range(steps):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        loss = binary_cross_entropy_with_logits(out, data.y) if multilabel else cross_entropy(out, data.y)
        loss.backward()
        finite &= bool(out.detach().isfinite().all()) and all(bool(p.grad.isfinite().all()) for p in model.parameters())
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses[0], losses[-1], finite
