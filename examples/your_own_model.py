"""High-order pooling inside a PyG model of your own: three ways, the smallest change first.

The data are those of node_classification.py: handwritten digits, five of each class with a label to learn from.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor
from torch_geometric.nn import GAT, MessagePassing

from tgnn import CPAggregation, TGNNConv, with_cp
from tgnn.data.build.embedded import digits


class YourLayer(MessagePassing):
    """A layer as one writes them for PyG. Only ``aggr`` is new: it could have been "mean"."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(aggr=CPAggregation(out_channels, out_channels, rank=16))
        self.lin = torch.nn.Linear(in_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=self.lin(x))

    def message(self, x_j: Tensor) -> Tensor:
        return x_j


class YourModel(torch.nn.Module):
    """Two kinds of layer side by side: yours, and the fused layer of this library."""

    def __init__(self) -> None:
        super().__init__()
        self.first = YourLayer(64, 16)
        self.second = TGNNConv(16, 10, rank=16, act_high=None, act_low=None)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index), edge_index)


def accuracy(model: torch.nn.Module, epochs: int) -> float:
    """On the digits without a label, after training."""
    data = digits()
    known = torch.cat([(data.y == digit).nonzero()[:5, 0] for digit in range(10)])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        torch.nn.functional.cross_entropy(out[known], data.y[known]).backward()
        optimizer.step()
    right = model(data.x, data.edge_index).argmax(1) == data.y
    right[known] = False
    return int(right.sum()) / (len(right) - len(known))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60)
    epochs = parser.parse_args().epochs
    torch.manual_seed(0)
    print(f"1. a model of your own, with CPAggregation and TGNNConv: {accuracy(YourModel(), epochs):.2f}")
    gat = GAT(64, 16, num_layers=2, out_channels=10)
    print(f"2. PyG's GAT as it is: {accuracy(gat, epochs):.2f}")
    changed = with_cp(gat, rank=16)  # keeps what it has learned, and starts from there
    print(f"3. the same, made high-order and trained on: {accuracy(changed, epochs):.2f}")


if __name__ == "__main__":
    main()
