"""Neighbor sampling for PyG's loaders, without pyg-lib or torch-sparse."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.sampler import BaseSampler, EdgeSamplerInput, NegativeSampling, NodeSamplerInput, SamplerOutput
from torch_geometric.sampler.neighbor_sampler import edge_sample

from tgnn.data.on_disk.manifest import offset_problem
from tgnn.ops import cpp_build
from tgnn.ops.checks import INTEGERS, describe
from tgnn.ops.graph import VOLATILE, CompressedEdges, get_graph
from tgnn.ops.sampling import check_num_neighbors, sample_neighbors
from tgnn.utils.memory_map import as_tensor


class NeighborSampler(BaseSampler):
    r"""Sample incoming neighbors hop by hop, as in `GraphSAGE <https://arxiv.org/abs/1706.02216>`_, for PyG's
    :class:`~torch_geometric.loader.NeighborLoader` and :class:`~torch_geometric.loader.LinkNeighborLoader`.

    Messages flow from source to target. For each entry of ``num_neighbors``, the sampler draws incoming edges of all
    nodes that were new in the previous hop. The output is sorted by hop, as
    :func:`~torch_geometric.utils.trim_to_layer` and layer-wise ``inference(loader)`` require. Parallel edges are
    sampled individually. A seed node that occurs twice in a batch stays duplicated, with the same incoming edges.

    **Reproducibility.** The sample of a node depends on ``seed``, the epoch, the seed nodes of its batch and their
    order, the hop and the node. It does not depend on the number of threads or workers, nor on earlier samples. A
    loader that shuffles has other batches, and therefore other samples, in every epoch; the same ``torch.manual_seed``
    gives the same samples. A loader that does not shuffle gives the same samples in every epoch, which suits
    validation. Call :meth:`set_epoch` to change them.

    **Samples that do not depend on the batch.** With ``by_node=True`` the sample of a node depends on ``seed``, the
    epoch and the node only. If all hops have the same fan-out, a seed node then has the same neighborhood in every
    batch, so that processes which share a batch sample what a single process would. Call :meth:`set_epoch` in every
    epoch, because nothing else changes the samples.

    **The paper's sampling.** The paper samples k neighbors of each node, and "if a node has a number of neighbors less
    than [k], some of its neighbor nodes will get resampled until it hits [k]" (appendix, efficiency on Cora). With
    ``fill_up=True`` a node with fewer than k incoming edges gets all of them, then draws again without replacement,
    until there are k. The multiplicities of its edges differ by at most one. A node without incoming edges gets none.

    Args:
        graph: ``edge_index``, a tensor ``[2, E]`` or an :class:`~torch_geometric.EdgeIndex`; or a pair of tensors or
            arrays ``(rowptr, col)``, in which the sources of the edges into node ``v`` are
            ``col[rowptr[v] : rowptr[v + 1]]``. A pair is not copied, and ``col`` is read only where it is sampled, so
            that both can be memory-mapped (``numpy.load(path, mmap_mode="r")``, ``torch.from_file``).
        num_neighbors: Number of incoming edges to sample per node in each hop. Use -1 for all.
        num_nodes: Number of nodes. Default: inferred from ``graph``; for an ``edge_index`` the largest node index + 1.
        replace: Whether to sample with replacement.
        fill_up: Whether to repeat incoming edges of nodes with fewer than ``num_neighbors``, as described above.
        edge_ids: Whether to return the indices of the sampled edges in ``edge_index`` or ``col``. The loader needs them
            to select ``edge_attr`` and ``edge_weight``.
        by_node: Whether a node has the same sample in every batch and hop, as described above.
        seed: Random seed.

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
        num_neighbors: Sequence[int],
        *,
        num_nodes: int | None = None,
        replace: bool = False,
        fill_up: bool = False,
        edge_ids: bool = True,
        by_node: bool = False,
        seed: int = 0,
    ) -> None:
        self.num_neighbors = check_num_neighbors(num_neighbors, replace, fill_up)
        self.replace, self.fill_up, self.edge_ids = replace, fill_up, edge_ids
        self.by_node, self.seed = by_node, seed
        self._files = [_reopen(part) for part in graph] if isinstance(graph, (tuple, list)) else []
        self._in_edges = get_in_edges(graph, num_nodes)
        # In shared memory, so that persistent workers see the current epoch.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        cpp_build.load()  # before workers are forked, so that they inherit it

    @property
    def num_nodes(self) -> int:
        return self._in_edges.num_groups

    @property
    def num_edges(self) -> int:
        return self._in_edges.index.numel()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which changes the samples of the same batches. Call it before iterating over the loader."""
        self._epoch.fill_(epoch)

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> SamplerOutput:
        _check_homogeneous(index)
        out = self._sample(index.node)
        out.metadata = (index.input_id, index.time)
        return out

    def sample_from_edges(self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None) -> SamplerOutput:
        """Sample from the end nodes of edges. PyG draws negative edges with torch's random numbers."""
        _check_homogeneous(index)
        return edge_sample(index, self._sample, self.num_nodes, disjoint=False, neg_sampling=neg_sampling)

    def _sample(self, seeds: Tensor, seed_time: None = None) -> SamplerOutput:
        out = sample_neighbors(
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
        counts = {"num_sampled_nodes": out.nodes_per_hop, "num_sampled_edges": out.edges_per_hop}
        return SamplerOutput(out.node, out.row, out.col, out.edge, **counts)

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker opens a memory-mapped file again instead of receiving a copy of its content.
        if not any(self._files):
            return self.__dict__
        parts = zip(self._files, (self._in_edges.ptr, self._in_edges.index))
        return {**self.__dict__, "_in_edges": tuple(file or tensor for file, tensor in parts)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if isinstance(parts := state["_in_edges"], tuple):
            self._in_edges = get_in_edges([part if isinstance(part, Tensor) else part() for part in parts])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_neighbors}, num_nodes={self.num_nodes}, num_edges={self.num_edges})"


def _check_homogeneous(index: NodeSamplerInput | EdgeSamplerInput) -> None:
    if index.input_type is not None:
        raise ValueError(f"input_type is {index.input_type!r}, but this sampler supports homogeneous graphs only")
    if index.time is not None:
        raise ValueError("input_time is set, but this sampler does not support temporal sampling; use pyg-lib")


# ---- graph -----------------------------------------------------------------------------------------------------


def get_in_edges(graph: Any, num_nodes: int | None = None) -> CompressedEdges:
    """Group the edges by target node. The arguments are those of :class:`NeighborSampler`."""
    if isinstance(graph, (tuple, list)) and len(graph) == 2:
        ptr, col = _as_tensor(graph[0], "rowptr").to(torch.int64), _as_tensor(graph[1], "col")
        if ptr.numel() == 0 or (num_nodes is not None and ptr.numel() != num_nodes + 1):
            nodes = "the nodes" if num_nodes is None else f"{num_nodes} nodes"
            raise ValueError(f"rowptr has {ptr.numel()} entries, but must have one more than {nodes}")
        if problem := offset_problem(ptr.numpy(), col.numel()):
            raise ValueError(f"rowptr {problem}")
        return CompressedEdges(ptr, col, None)
    if not isinstance(graph, Tensor) or graph.layout != torch.strided or graph.dim() != 2 or graph.size(0) != 2:
        hint = "; pass data.edge_index and num_nodes=data.num_nodes" if hasattr(graph, "edge_index") else ""
        raise TypeError(f"graph must be edge_index [2, E], an EdgeIndex or (rowptr, col), got {describe(graph)}{hint}")
    if graph.dtype not in INTEGERS or graph.device.type != "cpu":
        raise TypeError(f"edge_index must be int64 or int32 on the CPU, got {graph.dtype} on {graph.device}")
    form = "edges"
    if isinstance(graph, EdgeIndex):
        known = [n for n in graph.sparse_size() if n is not None]
        num_nodes = max(known) if num_nodes is None and known else num_nodes
        form += VOLATILE if graph._version > 0 else ""  # edits do not change the version of its inner tensor
        graph = graph.as_tensor()
    if num_nodes is None:
        num_nodes = int(graph.max()) + 1 if graph.numel() else 0
    return get_graph(form, graph, None, num_nodes, num_nodes).by_dst()


def _as_tensor(array: Any, what: str) -> Tensor:
    """View an array as a tensor without copying."""
    tensor = array
    if isinstance(array, np.ndarray) and array.dtype in (np.int32, np.int64) and array.flags.c_contiguous:
        tensor = as_tensor(array)
    got = f"a {array.dtype} array {list(array.shape)}" if isinstance(array, np.ndarray) else describe(array)
    if not isinstance(tensor, Tensor) or tensor.dtype not in INTEGERS or tensor.dim() != 1:
        raise TypeError(f"{what} must be int64 or int32, contiguous and one-dimensional, got {got}")
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise TypeError(f"{what} must be contiguous and on the CPU, got {got} on {tensor.device}; copy it first")
    return tensor


def _reopen(array: Any) -> partial[np.memmap] | None:
    """Return a function that opens a memory-mapped array again, or ``None`` for other arrays.

    A slice of a memory-mapped array has the offset of the whole array, so that only the whole can be opened again.
    """
    if not isinstance(array, np.memmap) or not isinstance(getattr(array, "base", None), mmap.mmap):
        return None
    return partial(np.memmap, str(array.filename), array.dtype, "r", array.offset, array.shape)
