r"""Epidemics on real networks: networks predict the probability that a node is infected within a few steps.

This experiment goes beyond the paper. An infected node infects each of its neighbors :math:`v` once, independently and
with the probability :math:`p_{uv}` of the edge, and then recovers (SIR). A susceptible node stays susceptible with the
probability :math:`\prod_u (1 - p_{uv})` over its infected neighbors :math:`u`. The networks are trained on epidemics on
one graph and tested on epidemics on other graphs, which have larger degrees.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric.nn import GATv2Conv, GINEConv, MessagePassing, PNAConv
from torch_geometric.nn.models import MLP
from torch_geometric.utils import degree

from tgnn.data.load import load
from tgnn.experiments.results import CellResult, RunResult
from tgnn.experiments.stored_training import SEARCH_SEED, select_learning_rate, train_once
from tgnn.nn import TGNNConv
from tgnn.training.checkpoint import read_tensors
from tgnn.training.config import OptimizerConfig
from tgnn.training.optim import LearningRateSchedule
from tgnn.utils.io import hash_json, hash_tensor, write_tensors

METRIC = "mae"
ROWS = ("cp", "gated", "sum", "mean", "gat", "pna")
TRAINED_ON = "cora"
COLUMNS = (TRAINED_ON, "amazon-computers", "blogcatalog")
LEARNING_RATES = (0.001, 0.003, 0.01, 0.03)
STEPS, SEARCH_STEPS = 1000, 200
ROUNDS = 4
"""Steps of an epidemic, and rounds of a network."""

_EPIDEMICS = {"train": (24, 200), "val": (6, 1000), "test": (4, 1000)}
"""Number of epidemics, and of simulations of each, for every purpose."""
_WEIGHTS = 2000
_FORMAT = 1
NOTES = (
    "Each cell is the mean absolute error of the probability that a node is infected within 4 steps. The true "
    "probability is the frequency in 1,000 simulations. Its sampling error is part of each value.",
    "From 1% to 5% of the nodes are infected at the start. The probability of an edge is uniform from 0 to 2 R / d, "
    "with the mean degree d of the graph and R from 0.5 to 2. The inputs are the infected nodes and the probabilities "
    "of the edges.",
    "All networks have 4 rounds with shared weights and about 2,000 weights. They are trained for 1,000 steps on 24 "
    "epidemics on Cora. Each has its own learning rate out of 0.001, 0.003, 0.01 and 0.03, the one with the lowest "
    "validation error on Cora after 200 steps.",
    "cp is `TGNNConv` with sigmoid factors, `affine=(-1.0, 1.0)` and edge gates. gated is `TGNNConv` with "
    '`low_order="gated_sum"` and no product. sum and mean are `GINEConv`, gat is `GATv2Conv` and pna is `PNAConv`.',
)


class Epidemic(NamedTuple):
    """Infected nodes ``[N, 1]``, edges ``[2, E]``, their probabilities ``[E, 1]``, and infections ``[rounds, N]``."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    y: Tensor


def simulate_sir(
    infected: Tensor, edge_index: Tensor, probability: Tensor, simulations: int, generator: torch.Generator
) -> Tensor:
    """Estimate the probability that each node is infected within 1, 2, 3 and 4 steps, ``[4, N]``.

    Args:
        infected: Whether a node is infected at the start, ``[N]``.
        edge_index: Edges, from the infecting to the infected node.
        probability: Probability of an infection along each edge, ``[E]``.
        simulations: Number of simulations.
        generator: Random generator.

    Example:
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> start = torch.tensor([True, False, False])
        >>> simulate_sir(start, path, torch.tensor([1.0, 1.0]), 10, torch.Generator())[:2].tolist()
        [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    (source, target), total, chunk = edge_index, torch.zeros(ROUNDS, infected.size(0)), 20
    for first in range(0, simulations, chunk):
        count = min(chunk, simulations - first)
        transmits = (torch.rand(source.numel(), count, generator=generator) < probability[:, None]).float()
        front = infected.float()[:, None].expand(-1, count)
        reached = front
        for step in range(ROUNDS):
            hits = torch.zeros_like(reached).index_add_(0, target, transmits * front[source])
            front = ((hits > 0) & (reached == 0)).float()
            reached = reached + front
            total[step] += reached.sum(1)
    return total / simulations


class SpreadingNetwork(torch.nn.Module):
    r"""Rounds :math:`h_v \leftarrow h_v + \mathrm{MLP}(h_v, \mathrm{aggregation}(h, e))` with shared weights.

    The logits after each round, ``[rounds, N]``, predict the infections within as many steps.

    Args:
        aggr: Row of the table.
        channels: Number of hidden channels.
        degrees: Number of nodes of each degree in the training graph, for PNA.
    """

    def __init__(self, aggr: str, channels: int, degrees: Tensor) -> None:
        super().__init__()
        self.lin_in = torch.nn.Linear(1, channels)
        self.conv = _make_conv(aggr, channels, degrees)
        self.update = MLP([2 * channels, 2 * channels, channels], norm=None, act="silu")
        self.lin_out = torch.nn.Linear(channels, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        state, outputs = self.lin_in(x), []
        for _ in range(ROUNDS):
            message = self.conv(state, edge_index, edge_attr=edge_attr)
            state = state + self.update(torch.cat([state, message], dim=1))
            outputs.append(self.lin_out(state).squeeze(1))
        return torch.stack(outputs)


def _make_conv(aggr: str, channels: int, degrees: Tensor) -> MessagePassing:
    if aggr == "cp":
        factors: dict[str, Any] = {"edge_gate": True, "factor_act": "sigmoid", "affine": (-1.0, 1.0), "bias_init": 0.0}
        acts: dict[str, Any] = {"act": None, "act_high": None, "smallest_start": 1.0}
        return TGNNConv(
            channels, channels, channels, low_order=None, edge_dim=1, add_self_loops=False, **factors, **acts
        )
    if aggr == "gated":
        return TGNNConv(channels, channels, 0, low_order="gated_sum", edge_dim=1, add_self_loops=False, act_low=None)
    if aggr == "gat":
        return GATv2Conv(channels, channels, edge_dim=1, add_self_loops=False)
    if aggr == "pna":
        aggregations, scalers = ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"]
        return PNAConv(channels, channels, aggregations, scalers, degrees, edge_dim=1)
    mlp = MLP([channels, 2 * channels, channels], norm=None, act="silu")
    return GINEConv(mlp, edge_dim=1, aggr=aggr)


def make_network(aggr: str, degrees: Tensor, seed: int) -> SpreadingNetwork:
    """Build the network of a row, with the number of hidden channels whose number of weights is closest to 2,000."""
    with torch.random.fork_rng([]):
        sizes = range(4, 40)
        channels = min(sizes, key=lambda size: abs(_num_weights(SpreadingNetwork(aggr, size, degrees)) - _WEIGHTS))
        torch.default_generator.manual_seed(seed)
        return SpreadingNetwork(aggr, channels, degrees)


def _num_weights(net: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


def describe_spreading(row: str, column: str) -> dict[str, Any]:
    """Return the options of a cell that can change its result."""
    train = {"graph": TRAINED_ON, "aggr": row, "weights": _WEIGHTS, "steps": STEPS, "search_steps": SEARCH_STEPS}
    train |= {"learning_rates": list(LEARNING_RATES), "rounds": ROUNDS}
    return {"format": _FORMAT, "train": train, "epidemics": {k: list(v) for k, v in _EPIDEMICS.items()}, "test": column}


def measure_spreading(row: str, column: str, seed: int, store: Path, options: Mapping[str, Any]) -> CellResult:
    """Train one network and test it on epidemics on one graph. Networks and epidemics in ``store`` are reused."""
    source, config = (options.get("data.root"), bool(options.get("data.offline"))), describe_spreading(row, column)
    store.mkdir(parents=True, exist_ok=True)
    train, val = (_epidemics(TRAINED_ON, purpose, store, source) for purpose in ("train", "val"))
    test = _epidemics(column, "test", store, source)
    degrees = torch.bincount(degree(train[0].edge_index[1], train[0].x.size(0), dtype=torch.long))
    net, key = make_network(row, degrees, seed), hash_json([config["train"], _FORMAT, seed])

    def train_and_validate() -> dict[str, Any]:
        lr = _select_learning_rate(row, degrees, train, val, store, config)
        start = time.monotonic()
        train_network(net, train, STEPS, lr, seed)
        return {"lr": lr, "seconds": round(time.monotonic() - start, 3), "val": mean_error(net, val)}

    stored = train_once(net, store / f"spreading-{key}.safetensors", train_and_validate)
    data, size = hash_tensor(test[0].y), _num_weights(net)
    val_error, seconds = stored["val"], stored["seconds"]
    run = RunResult(seed, mean_error(net, test), val_error, STEPS, STEPS, seconds, size, data, data, key)
    return CellResult(row, column, METRIC, config=config, runs=(run,))


def train_network(net: torch.nn.Module, epidemics: list[Epidemic], steps: int, lr: float, seed: int) -> None:
    """Train a network with one epidemic per step and the cross-entropy of all nodes and rounds."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr)
    schedule = LearningRateSchedule(optimizer, OptimizerConfig(lr=lr, schedule="cosine", warmup=steps // 20), steps)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        schedule.set_learning_rate(step)
        x, edge_index, edge_attr, y = epidemics[int(torch.randint(len(epidemics), (), generator=generator))]
        optimizer.zero_grad()
        binary_cross_entropy_with_logits(net(x, edge_index, edge_attr), y).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def mean_error(net: torch.nn.Module, epidemics: list[Epidemic]) -> float:
    """Compute the mean absolute error of the predicted probabilities over all nodes, after the last round."""
    errors = [(net(x, edges, attr).sigmoid() - y)[-1].abs().mean() for x, edges, attr, y in epidemics]
    return float(torch.stack(errors).mean())


def _select_learning_rate(
    row: str, degrees: Tensor, train: list[Epidemic], val: list[Epidemic], store: Path, config: Mapping[str, Any]
) -> float:
    """Return the learning rate with the lowest validation error after ``SEARCH_STEPS``."""

    def error(lr: float) -> float:
        net = make_network(row, degrees, SEARCH_SEED)
        train_network(net, train, SEARCH_STEPS, lr, SEARCH_SEED)
        return mean_error(net, val)

    path = store / f"spreading-lr-{hash_json([config['train'], _FORMAT])}.json"
    return select_learning_rate(path, LEARNING_RATES, error)


def _epidemics(name: str, purpose: str, store: Path, source: tuple[Any, bool]) -> list[Epidemic]:
    """Draw and simulate the epidemics of a purpose on a graph, or read them from ``store``."""
    number, simulations = _EPIDEMICS[purpose]
    edge_index: Tensor = load(name, root=source[0], offline=source[1]).edge_index  # type: ignore[assignment]
    nodes, edges = int(edge_index.max()) + 1, edge_index.size(1)
    path = store / f"epidemics-{hash_json([_FORMAT, name, purpose, number, simulations])}.safetensors"
    with FileLock(path.with_suffix(".lock")):
        if not path.exists():
            seed = 10 * COLUMNS.index(name) + list(_EPIDEMICS).index(purpose)
            generator = torch.Generator().manual_seed(seed)
            drawn: dict[str, Tensor] = {}
            for index in range(number):
                share = 0.01 + 0.04 * torch.rand(1, generator=generator)
                reproduction = 0.5 + 1.5 * torch.rand(1, generator=generator)
                infected = torch.rand(nodes, generator=generator) < share
                highest = 2 * reproduction * nodes / edges
                probability = (highest * torch.rand(edges, generator=generator)).clamp(max=1.0)
                found = simulate_sir(infected, edge_index, probability, simulations, generator)
                drawn |= {f"x{index}": infected.float()[:, None], f"p{index}": probability[:, None], f"y{index}": found}
            write_tensors(path, drawn, {})
    tensors = read_tensors(path).tensors
    return [Epidemic(tensors[f"x{i}"], edge_index, tensors[f"p{i}"], tensors[f"y{i}"]) for i in range(number)]
