"""Read and write a single graph as a ``.npz`` file, the format of ``tgnn data convert``.

====================================== =========================================================================
``edge_index``                         ``[2, E]``
``x``, or ``x.ptr, x.columns,``        features, dense or sparse (CSR)
``x.values, x.shape``
``y``                                  ``[N]`` or ``[N, labels]``
``edge_attr, edge_weight, pos``        ``[E, D]``, ``[E]``, ``[N, D]``; or absent
``num_nodes``                          a single number (packed graphs store a list)
``split``                              ``[N]``: 0 training, 1 validation, 2 test, -1 none; or absent
``node_id``                            the user's ids: ``[N]`` integers, or strings as JSON; or absent
``encoding``                           JSON: encoding of the user's tables; or absent
``origin``                             how it differs from the official files; or absent
====================================== =========================================================================
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.readers.npz import as_int64, as_tensor, read_npz, write_npz
from tgnn.data.readers.npz_metadata import decode_metadata, encode_metadata
from tgnn.data.readers.sparse import csr
from tgnn.data.splits import from_masks, split_codes

TENSORS = ("edge_index", "x", "y", "edge_attr", "edge_weight", "pos")
"""Tensors of a graph that are stored."""
_MASKS = ("train_mask", "val_mask", "test_mask")
_METADATA = ("node_id", "encoding")
_WHAT = "a file of a single graph"


def write_graph(data: Data, path: Path | str, origin: str = "") -> None:
    """Write a graph atomically.

    Args:
        data: Graph with ``edge_index`` and any of ``x`` (dense or sparse), ``y``, ``edge_attr``, ``edge_weight``,
            ``pos``, the three masks, ``node_id`` and ``encoding``.
        path: Path of the ``.npz`` file.
        origin: How the graph differs from the official files.
    """
    arrays: dict[str, np.ndarray] = {"num_nodes": np.array(data.num_nodes)}
    for name in TENSORS:
        if (value := data.get(name)) is not None:
            arrays |= _to_arrays(name, value)
    arrays |= {name: encode_metadata(data[name]) for name in _METADATA if data.get(name) is not None}
    if all(data.get(name) is not None for name in _MASKS):
        arrays["split"] = split_codes(from_masks("masks", *(data[name] for name in _MASKS))).astype(np.int8)
    if origin:
        arrays["origin"] = np.array(origin)
    write_npz(path, arrays)


def read_graph(path: Path | str) -> Data:
    """Read a graph. Nothing is unpickled.

    Args:
        path: Path of the ``.npz`` file.
    """
    arrays = read_npz(path, _WHAT)
    try:
        return _to_data(arrays)
    except ValueError as error:
        raise ValueError(f"{path} is not {_WHAT}: {error}") from error


def _to_data(arrays: dict[str, np.ndarray]) -> Data:
    for needed in ("num_nodes", "edge_index"):
        if needed not in arrays:
            raise ValueError(f"it has no array {needed!r}")
    count = as_int64(arrays["num_nodes"], "num_nodes")
    if count.dim() or int(count) < 0:
        raise ValueError(f"num_nodes must be a single non-negative integer, got {count.tolist()}")
    n = int(count)
    data = Data(num_nodes=n)
    for name in TENSORS:
        if (value := _from_arrays(name, arrays)) is not None:
            data[name] = value
    _check(data, n)
    for name in _METADATA:
        if name in arrays:
            data[name] = decode_metadata(arrays[name], name, n)
    if "split" in arrays:
        codes = as_int64(arrays["split"], "split")
        if codes.shape != (n,):
            raise ValueError(f"split must have shape [{n}], got {list(codes.shape)}")
        for code, name in enumerate(_MASKS):
            data[name] = codes == code
    if "origin" in arrays:
        data.origin = str(arrays["origin"])
    return data


def _check(data: Data, n: int) -> None:
    edges = data.edge_index
    if edges.dim() != 2 or edges.size(0) != 2:
        raise ValueError(f"edge_index must have shape [2, E], got {list(edges.shape)}")
    if edges.numel() and (int(edges.min()) < 0 or int(edges.max()) >= n):
        node = int(edges.min()) if int(edges.min()) < 0 else int(edges.max())
        raise ValueError(f"edge_index contains node {node}, but the graph has {n} nodes")
    for name in TENSORS[1:]:
        expected = edges.size(1) if name.startswith("edge") else n
        if (value := data.get(name)) is not None and value.size(0) != expected:
            raise ValueError(f"{name} must have {expected} rows, got {value.size(0)}")


def _to_arrays(name: str, value: Tensor) -> dict[str, np.ndarray]:
    if value.layout != torch.sparse_csr:
        return {name: value.numpy()}
    return {
        f"{name}.ptr": value.crow_indices().numpy(),
        f"{name}.columns": value.col_indices().to(torch.int32).numpy(),
        f"{name}.values": value.values().numpy(),
        f"{name}.shape": np.array(value.shape),
    }


def _from_arrays(name: str, arrays: dict[str, np.ndarray]) -> Tensor | None:
    if name in arrays:
        return as_int64(arrays[name], name) if name == "edge_index" else as_tensor(arrays[name], name)
    if f"{name}.ptr" not in arrays:
        return None
    missing = [part for part in ("columns", "values", "shape") if f"{name}.{part}" not in arrays]
    if missing:
        raise ValueError(f"it has no array {f'{name}.{missing[0]}'!r}")
    ptr, columns, shape = (as_int64(arrays[f"{name}.{part}"], f"{name}.{part}") for part in ("ptr", "columns", "shape"))
    values = as_tensor(arrays[f"{name}.values"], f"{name}.values").float()
    return csr(ptr, columns, values, tuple(shape.flatten().tolist()), check=True)
