"""What the model sees at once: the whole graph, sampled neighbourhoods, or some graphs of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.catalog.entry import LoadedData
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk import DiskGraph
from tgnn.ops.sampling import check_num_neighbors, sample_neighbors
from tgnn.training.config import TrainConfig
from tgnn.training.distributed.world import SINGLE_PROCESS, World
from tgnn.training.neighbor_source import InMemory, OnDisk, Source
from tgnn.training.prefetch import prefetched

GRAPHS_AT_ONCE = 128
NODES_AT_ONCE = 1024


@dataclass(frozen=True)
class TrainingBatch:
    """One step of training, or this process's part of it.

    Args:
        data: For the model.
        rows: Rows of its output that are learned from; ``None``: all.
        y: Their targets.
        size: Examples of the whole step.
        share: Of the known targets of the step, those in ``y``.
        stands_in: Whether there were too few examples for this process: it keeps step with one that counts nothing.
    """

    data: Data | DiskGraph
    rows: Tensor | None
    y: Tensor
    size: int
    share: float = 1.0
    stands_in: bool = False


BatchIterator = Callable[[int], Iterator[TrainingBatch]]
"""The pieces of an epoch, by its number; the same number gives the same pieces."""


def make_loader(
    data: LoadedData,
    examples: Tensor,
    settings: TrainConfig,
    device: torch.device,
    shuffle: bool,
    world: World = SINGLE_PROCESS,
) -> BatchIterator:
    """Pieces that cover some examples once; where there are several processes, each has its part of them.

    Args:
        data: One graph or many.
        examples: Nodes or graphs to learn from or to score.
        settings: Batch size, fan-outs and seed.
        device: Where the model is.
        shuffle: Whether every epoch has an order of its own, as for learning; else all are there to be scored.
        world: The processes. Of what is scored, the pieces of all ranks in turn are what one process would have.
    """
    check_loader(data, settings, world)
    if isinstance(data, GraphDataset):
        size = settings.batch_size or GRAPHS_AT_ONCE
        if shuffle:
            return _graphs(data, examples, size, settings.seed, device, world)
        return _graphs_in_order(data, world.part(examples), size, device)
    if settings.num_neighbors is not None and shuffle:  # what is scored is scored on full neighbourhoods
        source = OnDisk(data) if isinstance(data, DiskGraph) else InMemory(data)
        return _sampled(source, examples, settings, device, world)
    return _whole(data, examples, device) if world.first else lambda epoch: iter(())


def check_loader(data: LoadedData, settings: TrainConfig, world: World = SINGLE_PROCESS) -> None:
    """Raises where data cannot be cut into such batches.

    Args:
        data: One graph or many.
        settings: Batch size and fan-outs.
        world: The processes that share each of them.
    """
    if isinstance(data, GraphDataset) or settings.num_neighbors is not None:
        return
    if isinstance(data, DiskGraph):
        raise ValueError(f"{data.info.name} is on disk, and must be sampled to be learned from, such as --sample 10,10")
    if settings.batch_size is not None:
        raise ValueError(
            "train.batch_size needs train.num_neighbors: a part of one graph is sampled, such as --sample 10,10"
        )
    if world.size > 1:
        raise ValueError(
            f"{world.size} processes cannot share one graph that is learned from as a whole: sample it, such as "
            "--sample 10,10, or train with one process and more threads"
        )


def _whole(data: Data | DiskGraph, examples: Tensor, device: torch.device) -> BatchIterator:
    assert data.y is not None
    whole = data if isinstance(data, DiskGraph) else data.to(device)  # which stays where it is
    piece = TrainingBatch(whole, examples.to(device), data.y[examples].to(device), len(examples))
    return lambda epoch: iter((piece,))


def _graphs(
    graphs: GraphDataset, examples: Tensor, size: int, seed: int, device: torch.device, world: World
) -> BatchIterator:
    def pieces(epoch: int) -> Iterator[TrainingBatch]:
        for numbers in torch.split(_shuffled(examples, seed, epoch), size):
            if len(numbers) == 1 and size > 1:
                continue  # the rest is one graph: batch normalization cannot learn from it
            mine, share, stands_in = _part(numbers, graphs.y, world)
            batch, y = graphs.batch(mine).to(device), graphs.y[mine].to(device)
            yield TrainingBatch(batch, None, y, len(numbers), share, stands_in)

    return pieces


def _graphs_in_order(graphs: GraphDataset, examples: Tensor, size: int, device: torch.device) -> BatchIterator:
    def pieces(epoch: int) -> Iterator[TrainingBatch]:
        for numbers in torch.split(examples, size) if len(examples) else ():
            yield TrainingBatch(graphs.batch(numbers).to(device), None, graphs.y[numbers].to(device), len(numbers))

    return pieces


def _sampled(
    source: Source, examples: Tensor, settings: TrainConfig, device: torch.device, world: World
) -> BatchIterator:
    """What is drawn for a node depends on the epoch and the node, so that parts of a batch are what the whole is."""
    fan_out = check_num_neighbors(settings.num_neighbors, False, False)
    size, workers = settings.batch_size or NODES_AT_ONCE, settings.workers

    def pieces(epoch: int) -> Iterator[TrainingBatch]:
        batches = torch.split(_shuffled(examples, settings.seed, epoch), size)

        def make(number: int) -> TrainingBatch:
            seeds = batches[number]
            mine, share, stands_in = _part(seeds, source.y, world)
            sample = sample_neighbors(source.in_edges, mine, fan_out, by_node=True, seed=settings.seed, epoch=epoch)
            assert sample.edge is not None
            data = Data(
                x=source.rows(sample.node),
                edge_index=torch.stack([sample.row, sample.col]),
                n_id=sample.node,
                num_sampled_nodes=sample.nodes_per_hop,
                num_sampled_edges=sample.edges_per_hop,
                **source.beside(sample.node, sample.edge),
            )
            return TrainingBatch(data, torch.arange(len(mine)), source.y[mine], len(seeds), share, stands_in)

        for piece in prefetched(make, len(batches), workers, ahead=2 * workers):
            assert piece.rows is not None
            assert isinstance(piece.data, Data)
            yield replace(piece, data=piece.data.to(device), rows=piece.rows.to(device), y=piece.y.to(device))

    return pieces


def _part(examples: Tensor, y: Tensor, world: World) -> tuple[Tensor, float, bool]:
    """This process's examples of a step, their share of the known targets, and whether they only stand in."""
    if world.size == 1:
        return examples, 1.0, False
    mine = world.part(examples)
    if not len(mine):
        return examples[:1], 0.0, True
    return mine, _known(y[mine]) / max(_known(y[examples]), 1), False


def _known(y: Tensor) -> int:
    return int((~y.isnan()).sum()) if y.is_floating_point() else y.numel()


def _shuffled(examples: Tensor, seed: int, epoch: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return examples[torch.randperm(len(examples), generator=generator)]
