"""Graph regression with a target that is a product, which sum pooling cannot express.

Every node has one feature between -1.5 and 1.5. The target of a graph is the mean over its nodes of the product of all
features in the closed neighborhood of the node, an interaction of order degree + 1. GraphTGNN with rank 16 learns it.
The same network with rank 0 has sum pooling only. Run: python examples/graph_regression.py
"""

from __future__ import annotations

import argparse

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import erdos_renyi_graph

from tgnn import GraphTGNN
from tgnn.ops import neighbor_product


def random_graphs(count: int, seed: int) -> list[Data]:
    """Return random graphs of 8 to 15 nodes with their targets."""
    torch.manual_seed(seed)
    graphs = []
    for _ in range(count):
        num_nodes = int(torch.randint(8, 16, ()))
        edge_index = erdos_renyi_graph(num_nodes, 2.5 / num_nodes)
        x = 3 * torch.rand(num_nodes, 1) - 1.5
        y = neighbor_product(x, edge_index, self_loops=True).mean().view(1)
        graphs.append(Data(x=x, edge_index=edge_index, y=y))
    return graphs


def train(rank: int, epochs: int, train_graphs: list[Data], test_batch: Data) -> float:
    """Train a GraphTGNN and return its mean absolute error on the test graphs."""
    torch.manual_seed(0)
    readout = "mean+cp" if rank else "mean"
    model = GraphTGNN(1, 32, num_layers=2, out_channels=1, rank=rank, root_weight=True, readout=readout)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        model.train()
        total_error = 0.0
        for batch in DataLoader(train_graphs, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            loss = (model(batch.x, batch.edge_index, batch.batch).squeeze(1) - batch.y).abs().mean()
            loss.backward()
            optimizer.step()
            total_error += float(loss.detach()) * batch.num_graphs
        scheduler.step()
        if (epoch + 1) % 10 == 0:
            error = total_error / len(train_graphs)
            print(f"  rank {rank}, epoch {epoch + 1}: training error {error:.3f}", flush=True)
    model.eval()
    with torch.no_grad():
        out = model(test_batch.x, test_batch.edge_index, test_batch.batch).squeeze(1)
    return float((out - test_batch.y).abs().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40, help="Number of epochs.")
    parser.add_argument("--graphs", type=int, default=1000, help="Number of training graphs.")
    args = parser.parse_args()

    train_graphs = random_graphs(args.graphs, seed=1)
    test_batch = Batch.from_data_list(random_graphs(500, seed=2))
    baseline = float((test_batch.y - test_batch.y.median()).abs().mean())
    print(f"baseline that predicts the median: error {baseline:.3f}")
    for rank, pooling in ((0, "sum pooling"), (16, "sum and product pooling")):
        error = train(rank, args.epochs, train_graphs, test_batch)
        print(f"{pooling} (rank {rank}): test error {error:.3f}")


if __name__ == "__main__":
    main()
