"""Node classification: which digit is it? scikit-learn's handwritten digits, which need no download.

1,797 digits are the nodes; each is linked to its 8 nearest neighbours, and 5 of each class have a label to learn from.
Two networks of the same shape learn to read the rest: one sums its neighbours, one also multiplies them (Eq. (cp_sum)
of the paper).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.model_selection import train_test_split
from torch import Tensor
from torch_geometric.data import Data

from tgnn import TGNN
from tgnn.data.build.embedded import digits
from tgnn.ops import available_backends

NETWORKS = {"sum (rank 0)": 0, "tGNN: sum and product (rank 32)": 32}


def train(data: Data, rank: int, seed: int, epochs: int, tick: Callable[[int, float, float], None]) -> float:
    """Test accuracy at the epoch that is best on validation; the test labels are read once."""
    torch.manual_seed(seed)
    rest, learn = train_test_split(range(data.num_nodes), test_size=50, stratify=data.y, random_state=seed)
    test, choose = train_test_split(rest, test_size=0.1, stratify=data.y[rest], random_state=seed)
    model = TGNN(64, 32, num_layers=2, out_channels=10, rank=rank, dropout=0.5, low_order="mean")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, chosen = -1.0, Tensor()
    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data.x, data.edge_index)[learn], data.y[learn])
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            guess = model(data.x, data.edge_index).argmax(1)
        score = float((guess[choose] == data.y[choose]).float().mean())
        if score > best:
            best, chosen = score, guess
        tick(epoch, float(loss.detach()), score)
    return float((chosen[test] == data.y[test]).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    console, data = Console(), digits()
    console.print(f"{data.num_nodes} digits, {data.num_edges} edges; backends: {available_backends()}")
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[at]}"), TimeRemainingColumn())
    table = Table("network", "test accuracy", "ms an epoch")
    with Progress(*columns, console=console) as progress:
        for name, rank in NETWORKS.items():
            bar = progress.add_task(name, total=arguments.seeds * arguments.epochs, at="")

            def tick(epoch: int, loss: float, score: float, bar=bar) -> None:
                progress.update(bar, advance=1, at=f"epoch {epoch + 1}, loss {loss:.3f}, validation {score:.3f}")

            start = time.perf_counter()
            found = torch.tensor([train(data, rank, seed, arguments.epochs, tick) for seed in range(arguments.seeds)])
            milliseconds = 1e3 * (time.perf_counter() - start) / (arguments.seeds * arguments.epochs)
            spread = f" ± {found.std():.3f}" if len(found) > 1 else ""
            table.add_row(name, f"{found.mean():.3f}{spread}", f"{milliseconds:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
