"""Every registered model compared to the same model written directly in PyG, with dense features."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj, to_dense_batch

from benchmarks.graphs import computers, named
from benchmarks.layers import PyGProducts
from tgnn.models import MODELS, DataShape, build_model
from tgnn.models.dgn import eigenvectors

HIDDEN, LAYERS, GRAPHS, ATOMS, RANK = 64, 2, 128, 28, 8
ON_MANY_EDGES = ("tgnn", "gcn", "graphsage", "appnp", "gprgnn", "mixhop")
Net = Callable[[Data], Tensor]


class Stack(torch.nn.Module):
    """Layers with ReLU between them."""

    def __init__(self, *convs: torch.nn.Module) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(convs)

    def forward(self, data: Data) -> Tensor:
        x = data.x
        for conv in self.convs[:-1]:
            x = conv(x, data.edge_index).relu()
        out: Tensor = self.convs[-1](x, data.edge_index)
        return out


class Calls(torch.nn.Module):
    """Wrapper of a model that is called with features and edges."""

    def __init__(self, gnn: torch.nn.Module) -> None:
        super().__init__()
        self.gnn = gnn

    def forward(self, data: Data) -> Tensor:
        out: Tensor = self.gnn(data.x, data.edge_index)
        return out


class Rows(torch.nn.Module):
    """Wrapper of a model that uses node features only."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, data: Data) -> Tensor:
        out: Tensor = self.module(data.x)
        return out


class ThenSteps(torch.nn.Module):
    """GPRGNN: an MLP, then propagation steps with PyG message passing."""

    def __init__(self, mlp: torch.nn.Module, steps: int) -> None:
        super().__init__()
        self.mlp, self.gamma = mlp, torch.nn.Parameter(torch.ones(steps + 1))
        self.step = pyg.SimpleConv("sum")

    def forward(self, data: Data) -> Tensor:
        x = self.mlp(data.x)
        edges, weight = gcn_norm(data.edge_index, None, data.num_nodes, dtype=x.dtype)
        out: Tensor = self.gamma[0] * x
        for gamma in self.gamma[1:]:
            x = self.step(x, edges, weight)
            out = out + gamma * x
        return out


class Residual(torch.nn.Module):
    """GCNII."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(features, HIDDEN, bias=False)
        self.convs = torch.nn.ModuleList(pyg.GCN2Conv(HIDDEN, 0.1, 0.5, i + 1) for i in range(LAYERS))
        self.last = torch.nn.Linear(HIDDEN, outputs, bias=False)

    def forward(self, data: Data) -> Tensor:
        x = first = self.first(data.x).relu()
        for conv in self.convs:
            x = conv(x, first, data.edge_index).relu()
        out: Tensor = self.last(x)
        return out


class Deep(torch.nn.Module):
    """DeeperGCN as in the example of PyG."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(features, HIDDEN), torch.nn.Linear(HIDDEN, outputs)
        self.layers = torch.nn.ModuleList(
            pyg.DeepGCNLayer(
                pyg.GENConv(HIDDEN, HIDDEN, aggr="softmax", t=1.0, learn_t=True, num_layers=2, norm="layer"),
                torch.nn.LayerNorm(HIDDEN),
                torch.nn.ReLU(),
                block="res+",
            )
            for _ in range(LAYERS)
        )

    def forward(self, data: Data) -> Tensor:
        x = self.layers[0].conv(self.first(data.x), data.edge_index)
        for layer in self.layers[1:]:
            x = layer(x, data.edge_index)
        out: Tensor = self.last(self.layers[0].act(self.layers[0].norm(x)))
        return out


class Graphs(torch.nn.Module):
    """Graph model as in the examples of PyG: embedding, layers, batch norm, residuals, pooling, MLP."""

    def __init__(self, convs: list[torch.nn.Module], pool: Callable[..., Tensor], width: int = HIDDEN) -> None:
        super().__init__()
        self.atoms = torch.nn.Embedding(ATOMS, HIDDEN)
        self.convs = torch.nn.ModuleList(convs)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(HIDDEN) for _ in convs)
        self.pool = pool
        self.head = pyg.MLP([width, HIDDEN // 2, HIDDEN // 4, 1], norm=None)

    def forward(self, data: Data) -> Tensor:
        x = self.atoms(data.x.squeeze(1))
        for conv, norm in zip(self.convs, self.norms):
            x = x + norm(conv(x, data.edge_index)).relu()
        out: Tensor = self.head(self.pool(x, data.batch))
        return out


class GaussianGraphs(Graphs):
    """MoNet: layers with pseudo-coordinates of edges."""

    def forward(self, data: Data) -> Tensor:
        x = self.atoms(data.x.squeeze(1))
        degree = torch.bincount(data.edge_index[1], minlength=data.num_nodes).float().add(1).rsqrt()
        pseudo = degree[data.edge_index].t()
        for conv, norm in zip(self.convs, self.norms):
            x = x + norm(conv(x, data.edge_index, pseudo)).relu()
        out: Tensor = self.head(self.pool(x, data.batch))
        return out


class DiffPoolGraphs(torch.nn.Module):
    """One level of PyG's ``dense_diff_pool``."""

    def __init__(self) -> None:
        super().__init__()
        self.atoms = torch.nn.Embedding(ATOMS, HIDDEN)
        dense = pyg.DenseSAGEConv
        self.embed = torch.nn.ModuleList(dense(HIDDEN, HIDDEN) for _ in range(LAYERS))
        self.assign = torch.nn.ModuleList(dense(HIDDEN, HIDDEN) for _ in range(LAYERS))
        self.clusters = torch.nn.Linear(HIDDEN, 8)
        self.after = torch.nn.ModuleList(dense(HIDDEN, HIDDEN) for _ in range(LAYERS))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(HIDDEN) for _ in range(3 * LAYERS))
        self.head = pyg.MLP([HIDDEN, HIDDEN // 2, HIDDEN // 4, 1], norm=None)

    def forward(self, data: Data) -> Tensor:
        x, mask = to_dense_batch(self.atoms(data.x.squeeze(1)), data.batch)
        adj = to_dense_adj(data.edge_index, data.batch)
        inner, assignment = self._layers(self.embed, 0, x, adj, mask), self._layers(self.assign, 1, x, adj, mask)
        x, adj, link, entropy = pyg.dense_diff_pool(inner, adj, self.clusters(assignment), mask)
        out: Tensor = self.head(self._layers(self.after, 2, x, adj, None).sum(1))
        return out + 0 * (link + entropy)

    def _layers(self, convs: torch.nn.ModuleList, which: int, x: Tensor, adj: Tensor, mask: Tensor | None) -> Tensor:
        for number, conv in enumerate(convs):
            norm = self.norms[which * LAYERS + number]
            x = norm(conv(x, adj, mask).flatten(0, 1)).view(*x.shape).relu()
        return x


def direct_node(name: str, features: int, outputs: int, degrees: Tensor) -> torch.nn.Module | None:
    """Build the model in PyG only; return ``None`` if PyG has no such model."""

    def mlp() -> torch.nn.Module:
        return pyg.MLP([features, HIDDEN, outputs], norm=None)

    kinds = {"aggregators": ["mean", "min", "max", "std"], "scalers": ["identity", "amplification", "attenuation"]}
    hops = [0, 1, 2]
    make: dict[str, Callable[[], torch.nn.Module]] = {
        "mlp": lambda: Rows(mlp()),
        "gcn": lambda: Calls(pyg.GCN(features, HIDDEN, LAYERS, outputs, bias=False)),
        "gat": lambda: Stack(
            pyg.GATConv(features, HIDDEN, heads=8, bias=False),
            pyg.GATConv(8 * HIDDEN, outputs, heads=8, concat=False, bias=False),
        ),
        "graphsage": lambda: Calls(pyg.GraphSAGE(features, HIDDEN, LAYERS, outputs)),
        "gin": lambda: Calls(pyg.GIN(features, HIDDEN, LAYERS, outputs, train_eps=True, norm="batch_norm")),
        "pna": lambda: Calls(
            pyg.Sequential(
                "x, edges",
                [
                    (torch.nn.Linear(features, HIDDEN), "x -> x"),
                    (pyg.PNA(HIDDEN, HIDDEN, LAYERS, outputs, deg=degrees, **kinds), "x, edges -> x"),
                ],
            )
        ),
        "appnp": lambda: AppnpDirect(mlp()),
        "gprgnn": lambda: ThenSteps(mlp(), 10),
        "gcn2": lambda: Residual(features, outputs),
        "deepergcn": lambda: Deep(features, outputs),
        "mixhop": lambda: Stack(
            pyg.MixHopConv(features, HIDDEN, hops, bias=False), pyg.MixHopConv(3 * HIDDEN, outputs, hops, bias=False)
        ),
        "tgnn": lambda: Calls(PyGProducts(features, HIDDEN, outputs, RANK)),
        **{
            pool: lambda pool=pool: PooledDirect(features, outputs, pool)  # type: ignore[misc]
            for pool in ("sum", "mean", "max")
        },
    }
    return make[name]() if name in make else None


class AppnpDirect(torch.nn.Module):
    """APPNP."""

    def __init__(self, mlp: torch.nn.Module) -> None:
        super().__init__()
        self.mlp, self.steps = mlp, pyg.APPNP(10, 0.1)

    def forward(self, data: Data) -> Tensor:
        out: Tensor = self.steps(self.mlp(data.x), data.edge_index)
        return out


class PooledDirect(torch.nn.Module):
    """Two layers, each a linear map and a pooling."""

    def __init__(self, features: int, outputs: int, pool: str) -> None:
        super().__init__()
        self.maps = torch.nn.ModuleList(
            torch.nn.Linear(i, o, bias=False) for i, o in ((features, HIDDEN), (HIDDEN, outputs))
        )
        self.pool = pyg.SimpleConv(pool, combine_root="self_loop")

    def forward(self, data: Data) -> Tensor:
        x = self.pool(self.maps[0](data.x), data.edge_index).relu()
        out: Tensor = self.pool(self.maps[1](x), data.edge_index)
        return out


def direct_graph(name: str, degrees: Tensor) -> torch.nn.Module | None:
    """Build the graph model in PyG only; return ``None`` if PyG has no such model."""

    def stack(conv: Callable[[], torch.nn.Module]) -> list[torch.nn.Module]:
        return [conv() for _ in range(LAYERS)]

    def gin() -> torch.nn.Module:
        return pyg.GINConv(pyg.MLP([HIDDEN, HIDDEN, HIDDEN], norm="batch_norm"), train_eps=True)

    def pna() -> torch.nn.Module:
        poolings, scalers = ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"]
        return pyg.PNAConv(HIDDEN, HIDDEN, poolings, scalers, degrees, towers=4, divide_input=True)

    mean, total = pyg.global_mean_pool, pyg.global_add_pool
    make: dict[str, Callable[[], torch.nn.Module]] = {
        "gcn": lambda: Graphs(stack(lambda: pyg.GCNConv(HIDDEN, HIDDEN)), mean),
        "gat": lambda: Graphs(stack(lambda: pyg.GATConv(HIDDEN, HIDDEN // 8, heads=8)), mean),
        "graphsage": lambda: Graphs(stack(lambda: pyg.SAGEConv(HIDDEN, HIDDEN)), mean),
        "gin": lambda: Graphs(stack(gin), total),
        "pna": lambda: Graphs(stack(pna), total),
        "gatedgcn": lambda: Graphs(stack(lambda: pyg.ResGatedGraphConv(HIDDEN, HIDDEN)), mean),
        "monet": lambda: GaussianGraphs(stack(lambda: pyg.GMMConv(HIDDEN, HIDDEN, 2, 3, aggr="sum")), mean),
        "gmt": lambda: Graphs(
            stack(lambda: pyg.GCNConv(HIDDEN, HIDDEN)), pyg.aggr.GraphMultisetTransformer(HIDDEN, 8, heads=4)
        ),
        "diffpool": DiffPoolGraphs,
    }
    return make[name]() if name in make else None


def molecules() -> Batch:
    """Create graphs of the size of those in ZINC: rings of 23 atoms with two chords."""
    generator = torch.Generator().manual_seed(0)
    parts = []
    for _ in range(GRAPHS):
        ring = torch.stack([torch.arange(23), torch.arange(23).roll(1)])
        edges = torch.cat([ring, torch.randint(23, (2, 2), generator=generator)], 1)
        x = torch.randint(ATOMS, (23, 1), generator=generator)
        parts.append(Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], 1)))
    batch = Batch.from_data_list(parts)
    batch.eigenvector = eigenvectors(batch)
    return batch


def step_of(model: torch.nn.Module, data: Data) -> Callable[[], None]:
    """Return a function that runs one training step, with a loss over all outputs."""
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        out = model(data)
        loss = out.pow(2).mean()
        extra = getattr(model, "extra_loss", None)
        (loss if extra is None else loss + 0 * extra).backward()
        optimizer.step()

    return step


def contenders(folder: Path) -> dict[str, tuple[Callable[[], None] | None, Callable[[], None]]]:
    """Return, for every model and task level, the training step in PyG (if it has the model) and in tgnn."""
    found: dict[str, tuple[Callable[[], None] | None, Callable[[], None]]] = {}
    networks = {"Cora": named("cora", folder), "Amazon Computers": computers(folder)}
    batch = molecules()
    degrees = torch.bincount(torch.bincount(batch.edge_index[1], minlength=batch.num_nodes))
    for name, model in MODELS.items():
        for place, data in networks.items():
            if model.node is None or data is None or (place != "Cora" and name not in ON_MANY_EDGES):
                continue
            dense = Data(x=data.x.to_dense(), edge_index=data.edge_index, num_nodes=data.num_nodes)
            counts = torch.bincount(torch.bincount(data.edge_index[1], minlength=data.num_nodes))
            width, classes = data.x.size(1), int(data.y.max()) + 1
            shape = DataShape("node", width, None, classes, nodes=data.num_nodes, degrees=tuple(counts.tolist()))
            hyperparameters = {"rank": RANK} if name == "tgnn" else {}
            theirs = direct_node(name, width, classes, counts)
            ours = build_model(name, shape, HIDDEN, LAYERS, 0.0, hyperparameters)
            found[f"{name}, {place}"] = (None if theirs is None else step_of(theirs, dense), step_of(ours, data))
        if model.graph is not None:
            shape = DataShape("graph", (ATOMS,), None, 1, degrees=tuple(degrees.tolist()))
            hyperparameters = (
                {"towers": 4} if name.startswith("pna") else {"jk": None} if name.startswith("gin") else {}
            )
            theirs = direct_graph(name, degrees)
            ours = build_model(name, shape, HIDDEN, LAYERS, 0.0, hyperparameters)
            found[f"{name}, molecules"] = (None if theirs is None else step_of(theirs, batch), step_of(ours, batch))
    return found
