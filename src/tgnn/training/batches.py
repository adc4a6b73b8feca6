"""What the model sees at once: the whole graph, sampled neighbourhoods, or some graphs of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

from tgnn.data.formats.packed import PackedGraphs
from tgnn.data.sampler import NeighborSampler
from tgnn.training.config import TrainConfig

GRAPHS_AT_ONCE = 128
NODES_AT_ONCE = 1024


@dataclass(frozen=True)
class Piece:
    """One step of training.

    Args:
        data: For the model.
        rows: Rows of its output that are learned from; ``None``: all.
        y: Their targets.
    """

    data: Data
    rows: Tensor | None
    y: Tensor


Batches = Callable[[int], Iterator[Piece]]
"""The pieces of an epoch, by its number; the same number gives the same pieces."""


def make_batches(
    data: Data | PackedGraphs, examples: Tensor, settings: TrainConfig, device: torch.device, shuffle: bool
) -> Batches:
    """Pieces that cover some examples once.

    Args:
        data: One graph or many.
        examples: Nodes or graphs to learn from or to score.
        settings: Batch size, fan-outs and seed.
        device: Where the model is.
        shuffle: Whether every epoch has an order of its own.
    """
    check_batches(data, settings)
    if isinstance(data, PackedGraphs):
        return _graphs(data, examples, settings.batch_size or GRAPHS_AT_ONCE, settings.seed, device, shuffle)
    if settings.sample is not None and shuffle:  # what is scored is scored on full neighbourhoods
        return _sampled(data, examples, settings, device)
    return _whole(data, examples, device)


def check_batches(data: Data | PackedGraphs, settings: TrainConfig) -> None:
    """Raises where data cannot be cut into such batches.

    Args:
        data: One graph or many.
        settings: Batch size and fan-outs.
    """
    if not isinstance(data, PackedGraphs) and settings.batch_size is not None and settings.sample is None:
        raise ValueError("train.batch_size needs train.sample: a part of one graph is sampled, such as --sample 10,10")


def _whole(data: Data, examples: Tensor, device: torch.device) -> Batches:
    piece = Piece(data.to(device), examples.to(device), data.y[examples].to(device))
    return lambda epoch: iter((piece,))


def _graphs(
    graphs: PackedGraphs, examples: Tensor, size: int, seed: int, device: torch.device, shuffle: bool
) -> Batches:
    def pieces(epoch: int) -> Iterator[Piece]:
        order = examples
        if shuffle:
            order = examples[torch.randperm(len(examples), generator=_generator(seed, epoch))]
        for numbers in torch.split(order, size):
            if shuffle and len(numbers) == 1 and size > 1:
                continue  # the rest is one graph: batch normalization cannot learn from it
            batch = graphs.batch(numbers).to(device)
            yield Piece(batch, None, graphs.y[numbers].to(device))

    return pieces


def _sampled(data: Data, examples: Tensor, settings: TrainConfig, device: torch.device) -> Batches:
    assert settings.sample is not None
    sampler = NeighborSampler(data.edge_index, settings.sample, num_nodes=data.num_nodes, seed=settings.seed)
    size = settings.batch_size or NODES_AT_ONCE
    if data.x is not None and data.x.layout == torch.sparse_csr:
        dense = data.x.to_dense() if data.x.numel() < 2**28 else None
        if dense is None:
            raise ValueError("sampled training needs dense features, and these are too wide to be made dense")
        data = data.clone()
        data.x = dense
    plain = Data(**{key: value for key, value in data.to_dict().items() if isinstance(value, Tensor)})
    plain.num_nodes = data.num_nodes

    def pieces(epoch: int) -> Iterator[Piece]:
        order = examples[torch.randperm(len(examples), generator=_generator(settings.seed, epoch))]
        loader = NeighborLoader(
            plain, sampler.num_neighbors, input_nodes=order, neighbor_sampler=sampler, batch_size=size, shuffle=False
        )
        for batch in loader:
            batch = batch.to(device)
            yield Piece(batch, torch.arange(batch.batch_size, device=device), batch.y[: batch.batch_size])

    return pieces


def _generator(seed: int, epoch: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed * 1_000_003 + epoch)
