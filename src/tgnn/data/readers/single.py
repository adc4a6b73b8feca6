"""One graph in one ``.npz``, as it is in memory: what ``tgnn data convert`` writes.

====================================== =========================================================================
``edge_index``                         ``[2, E]``
``x``, or ``x.ptr, x.columns,``        features, dense, or sparse by rows
``x.values, x.shape``
``y``                                  ``[N]`` or ``[N, labels]``
``edge_attr, edge_weight, pos``        ``[E, D]``, ``[E]``, ``[N, D]``; or absent
``num_nodes``                          a single number: in packed graphs it is a list
``split``                              ``[N]``: 0 train, 1 validation, 2 test, -1 none; or absent
``node_id``                            ids as the user has them: ``[N]`` numbers, or JSON of words; or absent
``encoding``                           JSON: how the user's tables were encoded; or absent
``origin``                             where it comes from, in a sentence; or absent
====================================== =========================================================================
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.readers.beside import from_array, to_array
from tgnn.data.readers.npz import as_tensor, read_npz, whole, write_npz
from tgnn.data.readers.sparse import csr
from tgnn.data.splits import from_masks, parts_of

PLAIN = ("edge_index", "x", "y", "edge_attr", "edge_weight", "pos")
"""What is learned from."""
_MASKS = ("train_mask", "val_mask", "test_mask")
_BESIDE = ("node_id", "encoding")
_WHAT = "a file of one graph"


def write_graph(data: Data, path: Path | str, origin: str = "") -> None:
    """Writes one graph: whole or not at all.

    Args:
        data: With ``edge_index``, and any of ``x`` (dense or sparse), ``y``, ``edge_attr``, ``edge_weight``, ``pos``,
            masks, ``node_id``, ``encoding``.
        path: The ``.npz``.
        origin: Where it comes from.
    """
    arrays: dict[str, np.ndarray] = {"num_nodes": np.array(data.num_nodes)}
    for name in PLAIN:
        if (value := data.get(name)) is not None:
            arrays |= _to_arrays(name, value)
    arrays |= {name: to_array(data[name]) for name in _BESIDE if data.get(name) is not None}
    if all(data.get(name) is not None for name in _MASKS):
        arrays["split"] = parts_of(from_masks("masks", *(data[name] for name in _MASKS))).astype(np.int8)
    if origin:
        arrays["origin"] = np.array(origin)
    write_npz(path, arrays)


def read_graph(path: Path | str) -> Data:
    """Reads one graph; nothing is unpickled.

    Args:
        path: The ``.npz``.
    """
    arrays = read_npz(path, _WHAT)
    try:
        return _graph(arrays)
    except ValueError as error:
        raise ValueError(f"{path} is not {_WHAT}: {error}") from error


def _graph(arrays: dict[str, np.ndarray]) -> Data:
    for needed in ("num_nodes", "edge_index"):
        if needed not in arrays:
            raise ValueError(f"it has no {needed!r}")
    count = whole(arrays["num_nodes"], "num_nodes")
    if count.dim() or int(count) < 0:
        raise ValueError(f"num_nodes must be a single number that is not negative, got {count.tolist()}")
    n = int(count)
    data = Data(num_nodes=n)
    for name in PLAIN:
        if (value := _from_arrays(name, arrays)) is not None:
            data[name] = value
    _check(data, n)
    for name in _BESIDE:
        if name in arrays:
            data[name] = from_array(arrays[name], name, n)
    if "split" in arrays:
        part = whole(arrays["split"], "split")
        if part.shape != (n,):
            raise ValueError(f"split has shape {list(part.shape)}, but [{n}] is needed")
        for number, name in enumerate(_MASKS):
            data[name] = part == number
    if "origin" in arrays:
        data.origin = str(arrays["origin"])
    return data


def _check(data: Data, n: int) -> None:
    edges = data.edge_index
    if edges.dim() != 2 or edges.size(0) != 2:
        raise ValueError(f"edge_index must have shape [2, E], got {list(edges.shape)}")
    if edges.numel() and (int(edges.min()) < 0 or int(edges.max()) >= n):
        wrong = int(edges.min()) if int(edges.min()) < 0 else int(edges.max())
        raise ValueError(f"edge_index names node {wrong}, but there are {n}")
    for name in PLAIN[1:]:
        wanted = edges.size(1) if name.startswith("edge") else n
        if (value := data.get(name)) is not None and value.size(0) != wanted:
            raise ValueError(f"{name} has {value.size(0)} rows, but {wanted} are needed")


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
        return whole(arrays[name], name) if name == "edge_index" else as_tensor(arrays[name], name)
    if f"{name}.ptr" not in arrays:
        return None
    missing = [part for part in ("columns", "values", "shape") if f"{name}.{part}" not in arrays]
    if missing:
        raise ValueError(f"it has no {f'{name}.{missing[0]}'!r}")
    ptr, columns, shape = (whole(arrays[f"{name}.{part}"], f"{name}.{part}") for part in ("ptr", "columns", "shape"))
    values = as_tensor(arrays[f"{name}.values"], f"{name}.values").float()
    return csr(ptr, columns, values, tuple(shape.flatten().tolist()), check=True)
