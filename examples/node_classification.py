"""Node classification with TGNN in a plain PyTorch training loop. No download needed.

The nodes are 1,797 handwritten digits, each connected to its 8 nearest neighbors. 5 nodes of each class are labeled.
Two networks of the same size are compared: one sums its neighbors, the other also multiplies them (Eq. (5) of the
paper). Run: python examples/node_classification.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.model_selection import train_test_split
from torch import Tensor
from torch_geometric.data import Data

from tgnn import TGNN
from tgnn.data.catalog.embedded import digits
from tgnn.ops import available_backends

RANKS = {"sum pooling (rank 0)": 0, "tGNN: sum and product pooling (rank 32)": 32}


def train(data: Data, rank: int, seed: int, epochs: int, on_epoch: Callable[[int, float, float], None]) -> float:
    """Train a TGNN and return the test accuracy of the epoch with the best validation accuracy."""
    torch.manual_seed(seed)
    rest, train_nodes = train_test_split(range(data.num_nodes), test_size=50, stratify=data.y, random_state=seed)
    test_nodes, val_nodes = train_test_split(rest, test_size=0.1, stratify=data.y[rest], random_state=seed)
    model = TGNN(64, 32, num_layers=2, out_channels=10, rank=rank, dropout=0.5, low_order="mean")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best_accuracy, best_predictions = -1.0, Tensor()
    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        loss = F.cross_entropy(out[train_nodes], data.y[train_nodes])
        loss.backward()
        optimizer.step()

        model.eval()
        with torch.no_grad():
            predictions = model(data.x, data.edge_index).argmax(dim=1)
        val_accuracy = accuracy(predictions, data.y, val_nodes)
        if val_accuracy > best_accuracy:
            best_accuracy, best_predictions = val_accuracy, predictions
        on_epoch(epoch, float(loss.detach()), val_accuracy)
    return accuracy(best_predictions, data.y, test_nodes)


def accuracy(predictions: Tensor, y: Tensor, nodes: list[int]) -> float:
    return float((predictions[nodes] == y[nodes]).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=150, help="Number of epochs.")
    parser.add_argument("--seeds", type=int, default=5, help="Number of random seeds to average over.")
    args = parser.parse_args()

    console, data = Console(), digits()
    console.print(f"{data.num_nodes} nodes, {data.num_edges} edges, backends: {available_backends()}")
    table = Table("network", "test accuracy", "ms per epoch")
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        for name, rank in RANKS.items():
            bar = progress.add_task(name, total=args.seeds * args.epochs, state="")

            def on_epoch(epoch: int, loss: float, val_accuracy: float, bar=bar) -> None:
                state = f"epoch {epoch + 1}, loss {loss:.3f}, validation accuracy {val_accuracy:.3f}"
                progress.update(bar, advance=1, state=state)

            start = time.perf_counter()
            scores = torch.tensor([train(data, rank, seed, args.epochs, on_epoch) for seed in range(args.seeds)])
            milliseconds = 1e3 * (time.perf_counter() - start) / (args.seeds * args.epochs)
            std = f" ± {scores.std():.3f}" if len(scores) > 1 else ""
            table.add_row(name, f"{scores.mean():.3f}{std}", f"{milliseconds:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
