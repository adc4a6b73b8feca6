"""Conversion of a graph in memory to a graph on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.on_disk.writer import GraphWriter
from tgnn.data.splits import PARTS, from_masks, split_codes

_ROWS_AT_ONCE = 2**16
_UNSUPPORTED = {"edge_attr": "edge features", "edge_weight": "edge weights", "pos": "node positions"}


def write_disk(data: Data, folder: Path | str, *, leave_out: bool = False, overwrite: bool = False) -> None:
    """Write a graph in the format of :class:`~tgnn.data.on_disk.DiskGraph`. Sparse features become dense.

    Args:
        data: Graph with ``edge_index`` and any of ``x``, ``y``, masks, ``node_id``, ``encoding``, ``info``.
        folder: Folder to create.
        leave_out: Whether to drop what the format does not support: edge features, edge weights and node positions.
            By default they are an error.
        overwrite: Whether to replace an existing graph.

    Example:
        >>> from tgnn.data import load
        >>> write_disk(load("karate"), getfixture("tmp_path") / "karate")
        >>> load(getfixture("tmp_path") / "karate")
        DiskGraph(nodes=34, edges=156, features=34)
    """
    unsupported = [what for name, what in _UNSUPPORTED.items() if data.get(name) is not None]
    if unsupported and not leave_out:
        raise ValueError(
            f"A graph on disk cannot store {' or '.join(unsupported)}. Drop them with --leave-out (leave_out=True), or "
            "write a .npz file, which keeps them."
        )
    masks = [data.get(f"{part}_mask") for part in PARTS]
    split = None if any(mask is None for mask in masks) else split_codes(from_masks("masks", *masks)) + 1
    with GraphWriter(
        folder,
        int(data.num_nodes),
        num_edges=data.num_edges,
        row_bytes=0 if data.x is None else 4 * data.x.shape[1:].numel(),
        info=data.get("info"),
        encoding=data.get("encoding"),
        overwrite=overwrite,
    ) as writer:
        if data.edge_index is not None:
            writer.add_edges(*data.edge_index)
        if (ids := data.get("node_id")) is not None:
            writer.set_ids(ids)
        writer.add_nodes(y=data.y, part=split)
        for rows in () if data.x is None else _dense_blocks(data.x):
            writer.add_nodes(x=rows)


def _dense_blocks(x: Tensor) -> Iterator[np.ndarray]:
    """Yield dense feature rows in blocks. Integers become int32 if they fit."""
    if x.layout == torch.sparse_csr:
        parts = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
        matrix = scipy.sparse.csr_matrix(parts, shape=tuple(x.shape))
        for begin in range(0, x.size(0), _ROWS_AT_ONCE):
            yield matrix[begin : begin + _ROWS_AT_ONCE].toarray()
        return
    rows = x.numpy() if x.dim() == 2 else x.unsqueeze(1).numpy()
    if rows.dtype.kind in "iu" and rows.size and -(2**31) < rows.min() <= rows.max() < 2**31:
        rows = rows.astype(np.int32)
    yield rows
