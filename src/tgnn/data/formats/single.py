"""One graph in one ``.npz``, exactly as it is in memory: what ``tgnn data convert`` writes.

====================================== =========================================================================
``edge_index``                         ``[2, E]``
``x``, or ``x.ptr, x.columns,``        features, dense, or sparse by rows
``x.values, x.shape``
``y``                                  ``[N]`` or ``[N, labels]``
``edge_attr, edge_weight``             ``[E, D]``, ``[E]``; or absent
``num_nodes``                          a single number: in packed graphs it is a list
``split``                              ``[N]``: 0 train, 1 validation, 2 test, -1 none; or absent
``origin``                             where it comes from, in a sentence; or absent
====================================== =========================================================================
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.formats.sparse import csr

_PLAIN = ("edge_index", "x", "y", "edge_attr", "edge_weight")
_MASKS = ("train_mask", "val_mask", "test_mask")


def write_graph(data: Data, path: Path | str, origin: str = "") -> None:
    """Writes one graph: whole or not at all.

    Args:
        data: With ``edge_index``, and any of ``x`` (dense or sparse), ``y``, ``edge_attr``, ``edge_weight``, masks.
        path: The ``.npz``.
        origin: Where it comes from.
    """
    path = Path(path)
    arrays: dict[str, np.ndarray] = {"num_nodes": np.array(data.num_nodes)}
    for name in _PLAIN:
        if (value := data.get(name)) is not None:
            arrays |= _to_arrays(name, value)
    if all(data.get(name) is not None for name in _MASKS):
        split = np.full(data.num_nodes, -1, dtype=np.int8)
        for number, name in enumerate(_MASKS):
            split[data[name].numpy()] = number
        arrays["split"] = split
    if origin:
        arrays["origin"] = np.array(origin)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_graph(path: Path | str) -> Data:
    """Reads one graph; nothing is unpickled.

    Args:
        path: The ``.npz``.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a file of one graph: {error}") from error
    for needed in ("num_nodes", "edge_index"):
        if needed not in arrays:
            raise ValueError(f"{path} is not a file of one graph: it has no {needed!r}")
    n = int(arrays["num_nodes"])
    data = Data(num_nodes=n)
    for name in _PLAIN:
        if (value := _from_arrays(name, arrays)) is not None:
            data[name] = value
    _check(data, n, path)
    if "split" in arrays:
        part = torch.from_numpy(arrays["split"])
        for number, name in enumerate(_MASKS):
            data[name] = part == number
    return data


def _check(data: Data, n: int, path: Path | str) -> None:
    edges = data.edge_index
    if edges.dim() != 2 or edges.size(0) != 2:
        raise ValueError(f"{path}: edge_index must have shape [2, E], got {list(edges.shape)}")
    if edges.numel() and (int(edges.min()) < 0 or int(edges.max()) >= n):
        raise ValueError(f"{path}: edge_index names node {int(edges.max())}, but there are {n}")
    for name, wanted in (("x", n), ("y", n), ("edge_attr", edges.size(1)), ("edge_weight", edges.size(1))):
        if (value := data.get(name)) is not None and value.size(0) != wanted:
            raise ValueError(f"{path}: {name} has {value.size(0)} rows, but {wanted} are needed")


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
        return torch.from_numpy(arrays[name])
    if f"{name}.ptr" not in arrays:
        return None
    ptr, columns, values = (torch.from_numpy(arrays[f"{name}.{part}"]) for part in ("ptr", "columns", "values"))
    shape = tuple(int(size) for size in arrays[f"{name}.shape"])
    return csr(ptr, columns, values, shape, check=True)
