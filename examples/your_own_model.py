"""Three ways to use high-order pooling in your own PyG model.

1. ``CPAggregation`` as the ``aggr`` of a ``MessagePassing`` layer.
2. ``TGNNConv`` as a layer.
3. ``with_cp(model)``, which adds a product branch to an existing, trained model.

The data are those of node_classification.py: 1,797 handwritten digits, 5 labeled nodes of each class.
Run: python examples/your_own_model.py
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GAT, MessagePassing

from tgnn import CPAggregation, TGNNConv, with_cp
from tgnn.data.catalog.embedded import digits


class YourLayer(MessagePassing):
    """A PyG layer like GraphSAGE. ``aggr="mean"`` is replaced by ``CPAggregation``, and nothing else changes."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(aggr=CPAggregation(out_channels, out_channels, rank=16))
        self.lin = torch.nn.Linear(in_channels, out_channels)
        self.root = torch.nn.Linear(in_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.root(x) + self.propagate(edge_index, x=self.lin(x))

    def message(self, x_j: Tensor) -> Tensor:
        return x_j


class YourModel(torch.nn.Module):
    """A model with both kinds of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = YourLayer(64, 32)
        self.conv2 = TGNNConv(32, 10, rank=16, low_order="gcn")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.conv1(x, edge_index).relu()
        return self.conv2(x, edge_index)


def train_and_test(model: torch.nn.Module, epochs: int) -> float:
    """Train on 5 nodes of each class and return the accuracy on all other nodes."""
    data = digits()
    train_nodes = torch.cat([(data.y == digit).nonzero()[:5, 0] for digit in range(10)])
    test_mask = torch.ones(data.num_nodes, dtype=torch.bool)
    test_mask[train_nodes] = False
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        F.cross_entropy(out[train_nodes], data.y[train_nodes]).backward()
        optimizer.step()
    predictions = model(data.x, data.edge_index).argmax(dim=1)
    return float((predictions == data.y)[test_mask].float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60, help="Number of epochs.")
    epochs = parser.parse_args().epochs

    torch.manual_seed(0)
    print(f"your model with CPAggregation and TGNNConv, test accuracy: {train_and_test(YourModel(), epochs):.2f}")

    gat = GAT(64, 16, num_layers=2, out_channels=10)  # in place of your trained model
    data = digits()
    high_order_gat = with_cp(gat, rank=16)  # keeps the trained weights and prints the changed layers
    difference = (high_order_gat(data.x, data.edge_index) - gat(data.x, data.edge_index)).abs().max()
    print(f"with_cp changes the outputs by {difference:.1f} before further training")


if __name__ == "__main__":
    main()
