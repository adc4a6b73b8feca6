"""The ``.npz`` format of ``tgnn data convert``, for a single graph and for a data set of many graphs.

A single graph has a scalar ``num_nodes``. The arrays of many graphs are concatenated. The section "File format of
graphs" of docs/data.md describes all arrays.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.splits import from_masks, split_codes
from tgnn.data.task_types import check_task_type
from tgnn.data.tensors import StringIds, as_int64, as_tensor, csr
from tgnn.utils.io import atomic_path
from tgnn.utils.memory import check_memory
from tgnn.utils.read import check_regular, parse_json

_TENSORS = ("edge_index", "x", "y", "edge_attr", "edge_weight", "pos")
_COUNTS = ("num_nodes", "num_edges", "directed")
_MASKS = ("train_mask", "val_mask", "test_mask")
_GRAPH_METADATA = ("node_id", "encoding")
_DATASET_METADATA = ("graph_id", "encoding", "smiles", "test_folds")
_PER_EXAMPLE = ("node_id", "graph_id", "smiles")
_END_RECORD = 22
"""Size in bytes of the end-of-central-directory record of a zip file."""

T = TypeVar("T")


# ---- files of arrays -------------------------------------------------------------------------------------------


@contextmanager
def open_npz(path: Path | str, what: str) -> Iterator[Any]:
    """Open a ``.npz`` file without unpickling. Every failure is a ``ValueError`` with the path and ``what`` it is.

    A damaged file can fail in zip, in zlib, in numpy's headers or for lack of memory.
    """
    check_regular(Path(path))
    with Path(path).open("rb") as stream:
        try:
            with np.load(stream, allow_pickle=False) as file:
                members = file.zip.infolist()
                _check_member_count(stream, len(members))
                check_memory(sum(member.file_size for member in members), "Its arrays")
                yield file
        except Exception as error:
            raise ValueError(f"{path} is not {what}: {error}") from error


def _check_member_count(stream: IO[bytes], actual: int) -> None:
    """Compare the number of arrays with the end record, because Python ignores a truncated table of contents."""
    position = stream.tell()
    stream.seek(-_END_RECORD, os.SEEK_END)
    record = stream.read(_END_RECORD)
    stream.seek(position)
    expected = int.from_bytes(record[10:12], "little")
    if record.startswith(b"PK\5\6") and expected not in (actual, 0xFFFF):
        raise ValueError(f"it has {actual} arrays, but should have {expected}")


def read_npz(path: Path | str, what: str) -> dict[str, np.ndarray]:
    """Read all arrays of a file, as :func:`open_npz` opens it."""
    with open_npz(path, what) as file:
        return {name: file[name] for name in file.files}


def write_npz(path: Path | str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays atomically."""
    with atomic_path(Path(path)) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def shrink_dtype(array: np.ndarray) -> np.ndarray:
    """Cast integers to the smallest type that holds them. Other arrays are returned unchanged."""
    if array.dtype.kind not in "iu" or array.size == 0 or array.ndim == 0:
        return array
    least, most = int(array.min()), int(array.max())
    ends = (least, most) if least >= 0 else (least, -1 - max(most, 0))  # with a sign, n needs the room of -1 - n
    return array.astype(np.result_type(*(np.min_scalar_type(end) for end in ends)))


# ---- files of graphs -------------------------------------------------------------------------------------------


def write_graphs(data: Data | GraphDataset, path: Path | str, origin: str = "") -> None:
    """Write a graph or a data set of graphs atomically. Integers are stored in the smallest type that holds them.

    ``origin`` describes how the data differs from the official files. Default: the attribute ``origin`` of ``data``.
    """
    if isinstance(data, GraphDataset):
        metadata = {name: getattr(data, name) for name in _DATASET_METADATA}
        tensors = {name: values for name, values in data.tensors().items() if name in (*_TENSORS, *_COUNTS)}
        split = data.split_codes
    else:
        metadata = {name: data.get(name) for name in _GRAPH_METADATA}
        tensors = graph_tensors(data)
        if "x.ptr" in tensors:
            tensors["x.shape"] = torch.tensor(data.x.shape)
        masks = [data[name] for name in _MASKS if data.get(name) is not None]
        split = torch.from_numpy(split_codes(from_masks("masks", *masks))) if len(masks) == len(_MASKS) else None
    if split is not None:
        tensors["split"] = split
    arrays = {name: shrink_dtype(values.cpu().numpy()) for name, values in tensors.items()}
    arrays |= {name: _encode_metadata(value) for name, value in metadata.items() if value is not None}
    if origin := origin or getattr(data, "origin", ""):
        arrays["origin"] = np.array(origin)
    write_npz(path, arrays)


def graph_tensors(data: Data) -> dict[str, Tensor]:
    """Collect the tensors of a graph that are stored and hashed, a sparse matrix as its three parts."""
    tensors = {"num_nodes": torch.tensor(data.num_nodes)}
    for name in _TENSORS:
        value = data.get(name)
        if isinstance(value, Tensor) and value.layout == torch.sparse_csr:
            parts = {"ptr": value.crow_indices(), "columns": value.col_indices(), "values": value.values()}
            tensors |= {f"{name}.{part}": tensor for part, tensor in parts.items()}
        elif isinstance(value, Tensor):
            tensors[name] = value
    return tensors


def read_graphs(path: Path | str) -> GraphDataset:
    """Read a data set of many graphs. Nothing is unpickled."""
    return _read(path, "a file of many graphs", make_dataset)


def read_graph(path: Path | str) -> Data:
    """Read a single graph. Nothing is unpickled."""
    return _read(path, "a file of a single graph", _make_graph)


def _read(path: Path | str, what: str, make: Callable[[dict[str, np.ndarray]], T]) -> T:
    arrays = read_npz(path, what)
    try:
        return make(arrays)
    except (ValueError, MemoryError) as error:
        raise ValueError(f"{path} is not {what}: {error}") from error


def make_dataset(arrays: Mapping[str, np.ndarray]) -> GraphDataset:
    """Make a data set of the arrays of a file, with its metadata."""
    dataset = GraphDataset({name: array for name, array in arrays.items() if name not in _DATASET_METADATA})
    for name in _DATASET_METADATA:
        if name in arrays:
            setattr(dataset, name, _decode_metadata(arrays[name], name, len(dataset)))
    dataset.origin = str(arrays.get("origin", ""))
    return dataset


def _make_graph(arrays: Mapping[str, np.ndarray]) -> Data:
    for needed in ("num_nodes", "edge_index"):
        if needed not in arrays:
            raise ValueError(f"it has no array {needed!r}")
    count = as_int64(arrays["num_nodes"], "num_nodes")
    if count.dim() or int(count) < 0:
        raise ValueError(f"num_nodes must be a single non-negative integer, got {count.tolist()}")
    n = int(count)
    check_memory(8 * n, f"A graph of {n:,} nodes")
    data = Data(num_nodes=n)
    for name in _TENSORS:
        if (value := _from_arrays(name, arrays)) is not None:
            data[name] = value
    _check(data, n)
    for name in _GRAPH_METADATA:
        if name in arrays:
            data[name] = _decode_metadata(arrays[name], name, n)
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
    for name in _TENSORS[1:]:
        expected = edges.size(1) if name.startswith("edge") else n
        if (value := data.get(name)) is not None and value.size(0) != expected:
            raise ValueError(f"{name} must have {expected} rows, got {value.size(0)}")


def _from_arrays(name: str, arrays: Mapping[str, np.ndarray]) -> Tensor | None:
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


def _encode_metadata(value: Tensor | StringIds | dict[str, Any] | list[Any]) -> np.ndarray:
    """Encode a tensor as it is, anything else as JSON text."""
    if isinstance(value, Tensor):
        return np.asarray(value.cpu().numpy())
    return np.array(json.dumps(value.tolist() if isinstance(value, StringIds) else value))


def _decode_metadata(array: np.ndarray, name: str, count: int) -> Any:
    """Decode metadata of ``count`` nodes or graphs. Invalid content raises a ``ValueError``."""
    value: Any = as_int64(array, name) if name in ("node_id", "graph_id") and array.ndim == 1 else None
    if value is None:
        try:
            value = parse_json(str(array))
        except ValueError as error:
            raise ValueError(f"{name} is not JSON: {error}") from error
        if not isinstance(value, dict if name == "encoding" else list):
            raise ValueError(f"{name} must be {'a dictionary' if name == 'encoding' else 'a list'}, got {value!r:.40}")
    if name == "encoding":
        _check_task(value)
    if name in _PER_EXAMPLE:
        if len(value) != count:
            raise ValueError(f"{name} must have {count} entries, got {len(value)}")
        if isinstance(value, list) and not all(isinstance(entry, str) for entry in value):
            raise ValueError(f"{name} must contain strings")
        if isinstance(value, list) and name != "smiles":
            return StringIds(pl.Series(value, dtype=pl.String))
    return value


def _check_task(encoding: dict[str, Any]) -> None:
    target = encoding.get("target") or {}
    task = target.get("task") if isinstance(target, dict) else target
    if task is not None:
        try:
            check_task_type(task)
        except ValueError as error:
            raise ValueError(f"{error}; convert the original files again with tgnn data convert") from None
