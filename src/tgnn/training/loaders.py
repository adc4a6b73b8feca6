"""Batches for training and inference: the whole graph, sampled neighborhoods, or batches of graphs.

PyG's ``NeighborLoader`` is not used, although it gives the same samples with
:class:`tgnn.data.sampler.NeighborSampler`. On a graph of 200,000 nodes, 10 million edges and 100 features (1,024 seeds,
10 + 10 neighbors, 2 busy cores), the two threads of this module make 75 batches per second in memory and 54 on disk.
Two persistent processes of ``NeighborLoader`` make 35 and 25. For a graph on disk, ``NeighborLoader`` also needs a
``FeatureStore`` and a ``GraphStore``.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.dataset_info import LoadedData
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk import DiskGraph
from tgnn.data.sampler import get_in_edges
from tgnn.ops.sampling import check_num_neighbors, sample_neighbors
from tgnn.training.config import TrainConfig
from tgnn.training.distributed.world import SINGLE_PROCESS, World

T = TypeVar("T")

DEFAULT_GRAPH_BATCH = 128
"""Graphs per batch where ``train.batch_size`` is not set."""
DEFAULT_NODE_BATCH = 1024
"""Seed nodes per batch of sampled neighborhoods where ``train.batch_size`` is not set."""


@dataclass(frozen=True)
class TrainingBatch:
    """One optimizer step, or this rank's part of it.

    Args:
        data: Input of the model.
        rows: Rows of the model's output that have a target. ``None``: all rows.
        y: Targets of these rows.
        size: Number of examples in the step, over all ranks.
        weight: Fraction of the step's known targets that are in ``y``.
        is_idle: Whether this rank has no examples in the step. It takes part with one example of weight 0, so
            that collectives match.
        sample_weight: Weights of these rows in the loss. ``None``: equal weights.
    """

    data: Data | DiskGraph
    rows: Tensor | None
    y: Tensor
    size: int
    weight: float = 1.0
    is_idle: bool = False
    sample_weight: Tensor | None = None


InferenceBatch = tuple[Data | DiskGraph, Tensor | None]
"""Input of the model, and the rows of the model's output to return. ``None``: all rows."""

TrainingLoader = Callable[[int], Iterator[TrainingBatch]]
"""The batches of an epoch, by its number. The same number gives the same batches."""


# ---- training --------------------------------------------------------------------------------------------------


def make_training_loader(
    data: LoadedData,
    examples: Tensor,
    config: TrainConfig,
    device: torch.device,
    world: World = SINGLE_PROCESS,
    sample_weight: Tensor | None = None,
) -> TrainingLoader:
    """Create the batches of the training set. Every epoch visits each example once, in a new order.

    With several processes, each rank gets its part of every batch. ``sample_weight`` holds a weight for each node or
    graph of the data.
    """
    check_batching(data, config, world)
    if isinstance(data, GraphDataset):
        return _graph_batches(data, examples, config, device, world, sample_weight)
    if config.num_neighbors is not None:
        return _sampled_batches(data, examples, config, device, world, sample_weight)
    assert isinstance(data, Data)
    assert data.y is not None
    weight = _select(sample_weight, examples, device)
    y = data.y[examples].to(device)
    batch = TrainingBatch(data.to(device), examples.to(device), y, len(examples), sample_weight=weight)
    return lambda epoch: iter((batch,))


def _select(sample_weight: Tensor | None, examples: Tensor, device: torch.device) -> Tensor | None:
    return None if sample_weight is None else sample_weight[examples].to(device)


def check_batching(data: LoadedData, config: TrainConfig, world: World = SINGLE_PROCESS) -> None:
    """Raise ``ValueError`` if the data cannot be split into the configured batches."""
    if isinstance(data, GraphDataset) or config.num_neighbors is not None:
        return
    if isinstance(data, DiskGraph):
        raise ValueError(
            f"{data.info.name} is stored on disk and can be trained with sampled neighborhoods only. "
            "Set train.num_neighbors, for example --sample 10,10."
        )
    if config.batch_size is not None:
        raise ValueError(
            "train.batch_size needs train.num_neighbors, because batches of one graph are sampled neighborhoods. "
            "Set it, for example --sample 10,10."
        )
    if world.size > 1:
        raise ValueError(
            f"{world.size} processes cannot share the full batch of one graph. Sample neighborhoods, for example "
            "--sample 10,10, or train with one process and more threads."
        )


def _graph_batches(
    graphs: GraphDataset,
    examples: Tensor,
    config: TrainConfig,
    device: torch.device,
    world: World,
    sample_weight: Tensor | None,
) -> TrainingLoader:
    size = config.batch_size or DEFAULT_GRAPH_BATCH

    def batches(epoch: int) -> Iterator[TrainingBatch]:
        signs = _draw_signs(graphs, config.seed, epoch)
        for indices in torch.split(_shuffle(examples, config.seed, epoch), size):
            if len(indices) == 1 and size > 1:
                continue  # batch normalization needs at least two graphs
            own, weight, is_idle = _shard(indices, graphs.y, world)
            batch, y = graphs.batch(own), graphs.y[own].to(device)
            if signs is not None:
                batch.x = batch.x * signs[own].repeat_interleave(graphs.num_nodes[own], dim=0)
            own_weight = _select(sample_weight, own, device)
            yield TrainingBatch(batch.to(device), None, y, len(indices), weight, is_idle, own_weight)

    return batches


def _draw_signs(graphs: GraphDataset, seed: int, epoch: int) -> Tensor | None:
    """Draw 1 or -1 for each graph and eigenvector, and return factors of the columns of ``x``, ``[G, F]``."""
    if not graphs.random_signs or graphs.x is None:
        return None
    signs = torch.ones(len(graphs), graphs.x.size(1))
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    drawn = torch.randint(2, (len(graphs), graphs.num_encodings), generator=generator)
    signs[:, -graphs.num_encodings :] -= 2 * drawn
    return signs


def _sampled_batches(
    graph: Data | DiskGraph,
    examples: Tensor,
    config: TrainConfig,
    device: torch.device,
    world: World,
    sample_weight: Tensor | None,
) -> TrainingLoader:
    """Sample neighbors by epoch and node, so that the parts of a batch on several ranks equal the whole batch."""
    num_neighbors = check_num_neighbors(config.num_neighbors, False, False)
    size, workers = config.batch_size or DEFAULT_NODE_BATCH, config.workers
    in_edges = graph.in_edges if isinstance(graph, DiskGraph) else get_in_edges(graph.edge_index, graph.num_nodes)
    attributes_of, y = _attribute_reader(graph), graph.y
    assert y is not None

    def batches(epoch: int) -> Iterator[TrainingBatch]:
        seeds_of = torch.split(_shuffle(examples, config.seed, epoch), size)

        def make(number: int) -> TrainingBatch:
            seeds = seeds_of[number]
            own, weight, is_idle = _shard(seeds, y, world)
            sample = sample_neighbors(in_edges, own, num_neighbors, by_node=True, seed=config.seed, epoch=epoch)
            assert sample.edge is not None
            data = Data(
                edge_index=torch.stack([sample.row, sample.col]),
                n_id=sample.node,
                num_sampled_nodes=sample.nodes_per_hop,
                num_sampled_edges=sample.edges_per_hop,
                **attributes_of(sample.node, sample.edge),
            )
            own_weight = _select(sample_weight, own, device)
            rows = torch.arange(len(own))
            return TrainingBatch(data, rows, y[own], len(seeds), weight, is_idle, own_weight)

        for batch in prefetched(make, len(seeds_of), workers, ahead=2 * workers):
            assert batch.rows is not None
            assert isinstance(batch.data, Data)
            yield replace(batch, data=batch.data.to(device), rows=batch.rows.to(device), y=batch.y.to(device))

    return batches


def _attribute_reader(graph: Data | DiskGraph) -> Callable[[Tensor, Tensor], dict[str, Tensor]]:
    """Return a thread-safe function that reads the attributes of some nodes and edges, without targets, by name."""
    if isinstance(graph, DiskGraph):
        return lambda nodes, edges: {"x": graph.rows(nodes)}
    of_nodes, of_edges = {"x": _dense_features(graph)}, {}
    for key, value in graph.to_dict().items():
        if key in ("x", "y", "edge_index") or not isinstance(value, Tensor):
            continue
        if graph.is_node_attr(key):
            of_nodes[key] = value
        elif graph.is_edge_attr(key):
            of_edges[key] = value

    def read(nodes: Tensor, edges: Tensor) -> dict[str, Tensor]:  # on one thread, 8 times as fast as value[nodes]
        selected = {key: value.index_select(0, nodes) for key, value in of_nodes.items()}
        return selected | {key: value.index_select(0, edges) for key, value in of_edges.items()}

    return read


def _dense_features(data: Data) -> Tensor:
    if data.x is None:
        raise ValueError("Sampled training needs node features.")
    x: Tensor = data.x
    if x.layout != torch.sparse_csr:
        return x
    if x.numel() >= 2**28:
        raise ValueError(
            "Sampled training needs dense features, and these sparse features are too large to be made dense."
        )
    return x.to_dense()


def prefetched(make: Callable[[int], T], count: int, workers: int, ahead: int) -> Iterator[T]:
    """Yield ``make(0)`` to ``make(count - 1)`` in order, made ahead by threads. An error is raised at its position.

    Sampling and copying release the GIL. At most ``ahead`` items are made before they are consumed. Without workers,
    the consumer makes each item. Closing the iterator early cancels the items that have not been started.

    Example:
        >>> list(prefetched(lambda number: number**2, 5, workers=2, ahead=3))
        [0, 1, 4, 9, 16]
    """
    if workers == 0:
        yield from map(make, range(count))
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="tgnn-prefetch")
    try:
        waiting: deque[Future[T]] = deque(pool.submit(make, number) for number in range(min(ahead, count)))
        for number in range(count):
            made = waiting.popleft().result()
            if number + ahead < count:
                waiting.append(pool.submit(make, number + ahead))
            yield made
    finally:
        pool.shutdown(cancel_futures=True)


def _shard(examples: Tensor, y: Tensor, world: World) -> tuple[Tensor, float, bool]:
    """Return this rank's examples of a step, their fraction of the known targets, and whether it has none."""
    if world.size == 1:
        return examples, 1.0, False
    own = world.shard(examples)
    if not len(own):
        return examples[:1], 0.0, True
    return own, _count_known(y[own]) / max(_count_known(y[examples]), 1), False


def _count_known(y: Tensor) -> int:
    return int((~y.isnan()).sum()) if y.is_floating_point() else y.numel()


def _shuffle(examples: Tensor, seed: int, epoch: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return examples[torch.randperm(len(examples), generator=generator)]


# ---- inference -------------------------------------------------------------------------------------------------


def make_inference_batches(
    data: LoadedData,
    examples: Tensor | None,
    batch_size: int | None,
    device: torch.device,
    world: World = SINGLE_PROCESS,
) -> Iterable[InferenceBatch]:
    """Create batches that cover some or all nodes or graphs once, in order, with full neighborhoods.

    No targets are read. A single graph is always one batch, which is left to rank 0. A data set of graphs is divided
    among the ranks.
    """
    if isinstance(data, GraphDataset):
        indices = world.shard(torch.arange(len(data)) if examples is None else examples)
        return _GraphsInOrder(data, indices, batch_size or DEFAULT_GRAPH_BATCH, device)
    if not world.is_rank_zero:
        return ()
    whole = data if isinstance(data, DiskGraph) else data.to(device)
    return [(whole, None if examples is None else examples.to(device))]


class _GraphsInOrder:
    """Batches of graphs, made anew in every iteration."""

    def __init__(self, graphs: GraphDataset, indices: Tensor, size: int, device: torch.device) -> None:
        self._graphs, self._indices, self._size, self._device = graphs, indices, size, device

    def __iter__(self) -> Iterator[InferenceBatch]:
        for indices in torch.split(self._indices, self._size) if len(self._indices) else ():
            yield self._graphs.batch(indices).to(self._device), None


# ---- waiting time ----------------------------------------------------------------------------------------------


class TimedBatches:
    """Iterate over the batches of an epoch and measure the time spent waiting for them."""

    def __init__(self, batches: Iterator[TrainingBatch]) -> None:
        self._batches, self._start, self._end, self._waited = batches, time.perf_counter(), 0.0, 0.0

    def __iter__(self) -> Iterator[TrainingBatch]:
        while True:
            requested = time.perf_counter()
            batch = next(self._batches, None)
            self._end = time.perf_counter()
            self._waited += self._end - requested
            if batch is None:
                return
            yield batch

    @property
    def waiting_fraction(self) -> float:
        """Fraction of the epoch's training time that was spent waiting for the next batch."""
        return round(self._waited / max(self._end - self._start, 1e-9), 4)
