"""Sampled neighbourhoods for PyG's loaders, with neither pyg-lib nor torch-sparse."""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.sampler import BaseSampler, EdgeSamplerInput, NegativeSampling, NodeSamplerInput, SamplerOutput
from torch_geometric.sampler.neighbor_sampler import edge_sample

from tgnn.ops import cpp_build
from tgnn.ops.checks import INTEGERS, describe
from tgnn.ops.graph import DOUBTFUL, Grouping, graph_of
from tgnn.ops.sampling import check_num_neighbors, sample_neighbors


class NeighborSampler(BaseSampler):
    r"""Samples in-neighbours hop by hop (`GraphSAGE <https://arxiv.org/abs/1706.02216>`_), for PyG's
    :class:`~torch_geometric.loader.NeighborLoader` and :class:`~torch_geometric.loader.LinkNeighborLoader`.

    Edges flow from source to target: a node gets some of the edges into it, then so do their sources that are new, once
    for each entry of ``fan_out``. What comes out is sorted by hop, as :func:`~torch_geometric.utils.trim_to_layer` and
    layer-wise ``inference(loader)`` want it. Parallel edges are sampled each for itself. A seed that stands twice in a
    batch stays there twice, with the same in-edges.

    **The same again.** What is drawn for a node depends on ``seed``, the epoch, the seed nodes of its batch and their
    order, the hop, and the node; not on the number of threads or workers, nor on what was sampled before. A loader that
    shuffles has other batches in every epoch and so other samples, and the same ones after the same
    ``torch.manual_seed``. A loader that does not shuffle gives the same samples in every epoch, which is right for
    validation; call :meth:`set_epoch` where it is not.

    **The same in parts.** With ``by_node=True`` it depends on ``seed``, the epoch and the node alone: where all hops
    have the same fan-out, a seed then has the same neighbourhood in any batch. So processes that share a batch sample
    together what one would sample alone. Call :meth:`set_epoch`: nothing else changes what is drawn.

    **The paper's sampling.** It samples k neighbours of each node, and "if a node has a number of neighbors less than
    [k], some of its neighbor nodes will get resampled until it hits [k]" (appendix, efficiency on Cora). With
    ``fill_up=True`` such a node gets every in-edge once, then again without replacement, round after round until there
    are k: each in-edge as often as any other, or once more. A node without in-edges gets none.

    Args:
        graph: ``edge_index``, a tensor ``[2, E]`` or an :class:`~torch_geometric.EdgeIndex`; or a pair of tensors or
            arrays ``(rowptr, col)``: the edges into node ``v`` come from ``col[rowptr[v]]`` to
            ``col[rowptr[v + 1] - 1]``. A pair is not copied, and ``col`` is read only where it is sampled, so that both
            may be memory-mapped from disk (``numpy.load(path, mmap_mode="r")``, ``torch.from_file``).
        fan_out: How many in-edges a node gets in each hop; -1: all.
        num_nodes: Number of nodes. Default: what ``graph`` says; for an ``edge_index`` the largest node in it and one.
        replace: Draw with replacement.
        fill_up: Give nodes with fewer in-edges some of them again, as above.
        edge_ids: Say which edges were sampled, as places in ``edge_index`` or ``col``. The loader needs them to pick
            ``edge_attr`` and ``edge_weight``.
        by_node: Draw the same for a node in every batch and hop, as above.
        seed: Other seeds give other samples.

    Shapes:
        - **graph:** ``[2, E]``, or ``[N + 1]`` and ``[E]``, int32 or int64

    Example:
        >>> from torch_geometric.data import Data
        >>> from torch_geometric.loader import NeighborLoader
        >>> data = Data(x=torch.randn(4, 8), edge_index=torch.tensor([[1, 2, 3, 0], [0, 0, 1, 3]]))
        >>> sampler = NeighborSampler(data.edge_index, [5, 5], num_nodes=data.num_nodes)
        >>> seeds = torch.tensor([0])
        >>> loader = NeighborLoader(data, sampler.num_neighbors, input_nodes=seeds, neighbor_sampler=sampler)
        >>> batch = next(iter(loader))
        >>> batch.n_id.tolist(), batch.e_id.tolist()
        ([0, 1, 2, 3], [0, 1, 2])
        >>> batch.num_sampled_nodes, batch.num_sampled_edges
        ([1, 2, 1], [2, 1])
    """

    def __init__(
        self,
        graph: Tensor | EdgeIndex | tuple[Tensor | np.ndarray, Tensor | np.ndarray],
        fan_out: Sequence[int],
        *,
        num_nodes: int | None = None,
        replace: bool = False,
        fill_up: bool = False,
        edge_ids: bool = True,
        by_node: bool = False,
        seed: int = 0,
    ) -> None:
        self.num_neighbors = check_num_neighbors(fan_out, replace, fill_up)  # PyG's inference() looks for this name
        self.replace, self.fill_up, self.edge_ids = replace, fill_up, edge_ids
        self.by_node, self.seed = by_node, seed
        self._files = [_File.of(part) for part in graph] if isinstance(graph, (tuple, list)) else []
        self._in_edges = get_in_edges(graph, num_nodes)
        # Shared: workers that live through several epochs see it change.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        cpp_build.load()  # before there are workers: they inherit it

    @property
    def num_nodes(self) -> int:
        return self._in_edges.num_groups

    @property
    def num_edges(self) -> int:
        return self._in_edges.other.numel()

    def set_epoch(self, epoch: int) -> None:
        """Other samples of the same batches from now on; call it before a loop over the loader."""
        self._epoch.fill_(epoch)

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> SamplerOutput:
        _refuse_types_and_times(index)
        out = self._sample(index.node)
        out.metadata = (index.input_id, index.time)
        return out

    def sample_from_edges(self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None) -> SamplerOutput:
        """Both ends of the edges are the seeds. Negative ones are drawn by PyG, from torch's own random numbers."""
        _refuse_types_and_times(index)
        return edge_sample(index, self._sample, self.num_nodes, disjoint=False, neg_sampling=neg_sampling)

    def _sample(self, seeds: Tensor, seed_time: None = None) -> SamplerOutput:
        sample = sample_neighbors(
            self._in_edges,
            seeds,
            self.num_neighbors,
            replace=self.replace,
            fill_up=self.fill_up,
            edge_ids=self.edge_ids,
            by_node=self.by_node,
            seed=self.seed,
            epoch=int(self._epoch),
        )
        return SamplerOutput(
            node=sample.node,
            row=sample.row,
            col=sample.col,
            edge=sample.edge,
            num_sampled_nodes=sample.nodes_per_hop,
            num_sampled_edges=sample.edges_per_hop,
        )

    def __getstate__(self) -> dict[str, Any]:
        # A worker that is not forked opens a mapped file again; it gets no copy of what is in it.
        if not any(self._files):
            return self.__dict__
        parts = zip(self._files, (self._in_edges.ptr, self._in_edges.other))
        return {**self.__dict__, "_in_edges": tuple(file or tensor for file, tensor in parts)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if isinstance(parts := state["_in_edges"], tuple):
            pair = tuple(part.open() if isinstance(part, _File) else part for part in parts)
            self._in_edges = get_in_edges(pair, None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_neighbors}, num_nodes={self.num_nodes}, num_edges={self.num_edges})"


def _refuse_types_and_times(index: NodeSamplerInput | EdgeSamplerInput) -> None:
    if index.input_type is not None:
        raise ValueError(f"input_type is {index.input_type!r}, but this sampler knows one type of nodes and edges only")
    if index.time is not None:
        raise ValueError("input_time is given, but this sampler knows no times; pyg-lib's does")


# ---- graphs ----------------------------------------------------------------------------------------------------


def get_in_edges(graph: Any, num_nodes: int | None = None) -> Grouping:
    """The edges into each node, from every form of graph.

    Args:
        graph: As for :class:`NeighborSampler`.
        num_nodes: The same.
    """
    if isinstance(graph, (tuple, list)) and len(graph) == 2:
        return _compressed(_as_tensor(graph[0], "rowptr"), _as_tensor(graph[1], "col"), num_nodes)
    if not isinstance(graph, Tensor) or graph.layout != torch.strided or graph.dim() != 2 or graph.size(0) != 2:
        way_out = "; pass data.edge_index, and num_nodes=data.num_nodes" if hasattr(graph, "edge_index") else ""
        raise TypeError(
            f"graph must be edge_index [2, E], an EdgeIndex or (rowptr, col), got {describe(graph)}{way_out}"
        )
    if graph.dtype not in INTEGERS or graph.device.type != "cpu":
        raise TypeError(f"edge_index must be int64 or int32 in main memory, got {graph.dtype} on {graph.device}")
    kind = "edges"
    if isinstance(graph, EdgeIndex):
        known = [n for n in graph.sparse_size() if n is not None]
        num_nodes = max(known) if num_nodes is None and known else num_nodes
        kind += DOUBTFUL if graph._version > 0 else ""  # whoever edits an EdgeIndex does not tell its inner tensor
        graph = graph.as_tensor()
    if num_nodes is None:
        num_nodes = int(graph.max()) + 1 if graph.numel() else 0
    return graph_of(kind, graph, None, num_nodes, num_nodes).by_dst()


def _compressed(ptr: Tensor, col: Tensor, num_nodes: int | None) -> Grouping:
    ptr = ptr.to(torch.int64)
    if ptr.numel() == 0 or (num_nodes is not None and ptr.numel() != num_nodes + 1):
        nodes = "the nodes" if num_nodes is None else f"{num_nodes} nodes"
        raise ValueError(f"rowptr has {ptr.numel()} entries, but must have one more than there are {nodes}")
    if int(ptr[0]) != 0 or int(ptr[-1]) != col.numel():
        raise ValueError(
            f"rowptr runs from {int(ptr[0])} to {int(ptr[-1])}, but must run from 0 to the length of col, {col.numel()}"
        )
    step = 2**20  # in pieces: what is in a file need not fit memory
    for begin in range(0, ptr.numel() - 1, step):
        falls = (ptr[begin : begin + step + 1].diff() < 0).nonzero()
        if falls.numel():
            v = begin + int(falls[0])
            raise ValueError(f"rowptr falls from {int(ptr[v])} to {int(ptr[v + 1])} at node {v}, but must never fall")
    return Grouping(ptr, col, None)


def _as_tensor(array: Any, what: str) -> Tensor:
    """The same memory as a tensor."""
    if isinstance(array, np.ndarray) and array.dtype in (np.int32, np.int64) and array.flags.c_contiguous:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writ")  # nobody writes
            array = torch.from_numpy(array)
    got = f"a {array.dtype} array {list(array.shape)}" if isinstance(array, np.ndarray) else describe(array)
    if not isinstance(array, Tensor) or array.dtype not in INTEGERS or array.dim() != 1:
        raise TypeError(f"{what} must be int64 or int32, contiguous and one-dimensional, got {got}")
    if array.device.type != "cpu" or not array.is_contiguous():
        raise TypeError(f"{what} must be contiguous and in main memory, got {got} on {array.device}; copy it first")
    return array


@dataclass(frozen=True)
class _File:
    """Where a mapped array lies."""

    path: str
    dtype: str
    offset: int
    size: int

    @classmethod
    def of(cls, array: Any) -> _File | None:
        # Part of a mapped array says it were the whole (its offset is the whole's): only the whole is told by its file.
        if not isinstance(array, np.memmap) or not isinstance(getattr(array, "base", None), mmap.mmap):
            return None
        return cls(str(array.filename), array.dtype.str, array.offset, array.size)

    def open(self) -> np.memmap:
        return np.memmap(self.path, self.dtype, "r", self.offset, (self.size,))
