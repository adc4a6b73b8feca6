"""Graph regression where the target is a product: a planted task that sums cannot express.

Every node carries a number between -1.5 and 1.5. The target of a graph is the mean over its nodes of the product of all
numbers in the node's closed neighbourhood: an interaction of order degree + 1. GraphTGNN learns it; the same network
with its products switched off (rank 0) sees only sums.
"""

from __future__ import annotations

import argparse

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import erdos_renyi_graph

from tgnn import GraphTGNN
from tgnn.ops import neighbor_product


def graphs(count: int, seed: int) -> list[Data]:
    torch.manual_seed(seed)
    made = []
    for _ in range(count):
        nodes = int(torch.randint(8, 16, ()))
        edge_index = erdos_renyi_graph(nodes, 2.5 / nodes)
        x = 3 * torch.rand(nodes, 1) - 1.5
        y = neighbor_product(x, edge_index, self_loops=True).mean().view(1)
        made.append(Data(x=x, edge_index=edge_index, y=y))
    return made


def train(rank: int, epochs: int, learn: list[Data], test: Data) -> float:
    """Mean absolute error on graphs that were not learned from."""
    torch.manual_seed(0)
    readout = "mean+cp" if rank else "mean"
    model = GraphTGNN(1, 32, num_layers=2, out_channels=1, rank=rank, root_weight=True, readout=readout)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for batch in DataLoader(learn, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            loss = (model(batch.x, batch.edge_index, batch.batch).squeeze(1) - batch.y).abs().mean()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * batch.num_graphs
        schedule.step()
        if (epoch + 1) % 10 == 0:
            print(f"  rank {rank}, epoch {epoch + 1}: training error {total / len(learn):.3f}", flush=True)
    with torch.no_grad():
        return float((model.eval()(test.x, test.edge_index, test.batch).squeeze(1) - test.y).abs().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--graphs", type=int, default=1000)
    arguments = parser.parse_args()
    learn, test = graphs(arguments.graphs, seed=1), Batch.from_data_list(graphs(500, seed=2))
    print(f"guessing the median: error {float((test.y - test.y.median()).abs().mean()):.3f}")
    for rank in (0, 16):
        error = train(rank, arguments.epochs, learn, test)
        print(f"{'sums and products' if rank else 'sums only'} (rank {rank}): test error {error:.3f}")


if __name__ == "__main__":
    main()
