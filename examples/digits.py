"""High-order pooling from the operator alone: a small network on scikit-learn's digits, which need no download.

1,797 handwritten digits are the nodes; each is linked to its 8 nearest neighbours. Two networks of the same shape learn
to read them: one sums its neighbours, one also multiplies them (Eq. (cp_sum) of the paper). Run: make demo
"""

from __future__ import annotations

import time

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import kneighbors_graph
from torch import Tensor
from torch_geometric.utils import add_self_loops, scatter

from tgnn.ops import available_backends, neighbor_product


class CPSumLayer(torch.nn.Module):
    """relu(M tanh(prod z_u)) + relu(sum W2 x_u) over a node and its neighbours, z = W1 [x; 1]."""

    def __init__(self, in_channels: int, out_channels: int, rank: int, last: bool) -> None:
        super().__init__()
        self.factors = torch.nn.Linear(in_channels, rank)  # W1; its bias is the homogeneous coordinate
        self.mix = torch.nn.Linear(rank, out_channels, bias=False)  # M
        self.linear = torch.nn.Linear(in_channels, out_channels, bias=False)  # W2
        self.act = torch.nn.Identity() if last else torch.nn.ReLU()
        torch.nn.init.normal_(self.factors.weight, std=0.1)
        torch.nn.init.ones_(self.factors.bias)  # a product starts near 1: neither dead nor saturated

    def forward(self, x: Tensor, edges: Tensor, high: bool) -> Tensor:
        low = self.act(scatter(self.linear(x)[edges[0]], edges[1], dim_size=x.size(0), reduce="mean"))
        if not high:
            return low
        return self.act(self.mix(neighbor_product(self.factors(x), edges, activation="tanh"))) + low


def load() -> tuple[Tensor, Tensor, Tensor]:
    """Pixels, edges (both directions and self-loops), labels."""
    pixels, labels = load_digits(return_X_y=True)
    nearest = kneighbors_graph(pixels, 8).tocoo()
    pairs = torch.stack([torch.from_numpy(nearest.row), torch.from_numpy(nearest.col)]).long()
    edges = torch.unique(torch.cat([pairs, pairs.flip(0)], 1), dim=1)
    x = torch.from_numpy(pixels / 16).float()
    return x, add_self_loops(edges, num_nodes=x.size(0))[0], torch.from_numpy(labels)


def train(high: bool, seed: int, data: tuple[Tensor, Tensor, Tensor], tick) -> tuple[float, float]:
    """Test accuracy at the epoch that is best on validation, and seconds an epoch."""
    x, edges, y = data
    torch.manual_seed(seed)
    # Few labels: 5 a class to learn from, 10 % to choose the epoch by, the rest to test, read once.
    rest, learn = train_test_split(range(len(y)), test_size=50, stratify=y, random_state=seed)
    test, choose = train_test_split(rest, test_size=0.1, stratify=y[rest], random_state=seed)
    layers = torch.nn.ModuleList([CPSumLayer(64, 32, 32, last=False), CPSumLayer(32, 10, 32, last=True)])
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.01, weight_decay=5e-4)
    best, chosen, start = -1.0, None, time.perf_counter()
    for epoch in range(EPOCHS):
        layers.train()
        optimizer.zero_grad()
        hidden = torch.nn.functional.dropout(layers[0](x, edges, high), 0.5)
        loss = torch.nn.functional.cross_entropy(layers[1](hidden, edges, high)[learn], y[learn])
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            layers.eval()
            guess = layers[1](layers[0](x, edges, high), edges, high).argmax(1)
        score = (guess[choose] == y[choose]).float().mean().item()
        if score > best:
            best, chosen = score, guess
        tick(epoch, loss.item(), score)
    seconds = (time.perf_counter() - start) / EPOCHS
    return (chosen[test] == y[test]).float().mean().item(), seconds


EPOCHS, SEEDS = 150, range(5)


def main() -> None:
    console = Console()
    data = load()
    console.print(f"digits: {data[0].size(0):,} nodes, {data[1].size(1):,} edges, 10 classes, 50 labels to learn from")
    console.print(f"backends: {', '.join(f'{name} ({why})' for name, why in available_backends().items())}")
    table = Table("network", "test accuracy", "ms an epoch", title=f"{len(SEEDS)} seeds, {EPOCHS} epochs")
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.fields[last]}"))
    with Progress(*columns, console=console, transient=True) as progress:
        for name, high in (("sum pooling", False), ("CP + sum pooling (tGNN)", True)):
            task = progress.add_task(name, total=EPOCHS * len(SEEDS), last="")

            def tick(epoch: int, loss: float, score: float, task=task) -> None:
                progress.update(task, advance=1, last=f"loss {loss:.3f}, validation {score:.3f}")

            results = torch.tensor([train(high, seed, data, tick) for seed in SEEDS])
            mean, spread = results[:, 0].mean().item(), results[:, 0].std(unbiased=False).item()
            table.add_row(name, f"{mean:.4f} ± {spread:.4f}", f"{1e3 * results[:, 1].median().item():.1f}")
    console.print(table)
    console.print("This is the operator in a network of twenty lines; layers, data sets and saved runs are to come.")


if __name__ == "__main__":
    main()
