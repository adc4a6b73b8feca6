"""The ``.npz`` format of ``tgnn data convert``, for a single graph and for a data set of many graphs.

A single graph has a scalar ``num_nodes``. The arrays of many graphs are concatenated.

============================= ========================= ================== =============================================
array                         single graph              many graphs        content
============================= ========================= ================== =============================================
``num_nodes``                 scalar                    ``[G]``            number of nodes of each graph
``edge_index``                ``[2, E]``                ``[2, sum]``       edges with node indices local to the graph
``num_edges``                                           ``[G]``            number of stored edges of each graph
``directed``                                            scalar             if false, a stored edge is both directions
``x``                         ``[N, F]``                ``[sum, F]``       node features
``x.ptr, x.columns,``         CSR                                          sparse node features
``x.values, x.shape``
``pos``                       ``[N, D]``                ``[sum, D]``       node positions
``edge_attr, edge_weight``    ``[E, D]``, ``[E]``       ``[sum, D]``, ...  edge features, weights between 0 and 1
``x_scale, pos_scale``                                  scalar             factor of ``x`` and ``pos``
``y``                         ``[N]`` or ``[N, T]``     ``[G(, T)]``       targets; absent for unlabeled data
``split``                     ``[N]``                   ``[G]``            0 training, 1 validation, 2 test, -1 none
``node_id`` or ``graph_id``   ``[N]`` or JSON           ``[G]`` or JSON    the user's ids, integers or strings
``encoding``                  JSON                      JSON               encoding of the user's tables
``smiles, test_folds``                                  JSON               SMILES of each graph, published folds
``origin``                    text                      text               how it differs from the official files
============================= ========================= ================== =============================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.npz import as_int64, as_tensor, read_npz, shrink_dtype, write_npz
from tgnn.data.readers.sparse import csr
from tgnn.data.readers.string_ids import StringIds
from tgnn.data.splits import from_masks, split_codes

TENSORS = ("edge_index", "x", "y", "edge_attr", "edge_weight", "pos")
"""Tensors of a graph that are stored."""
_COUNTS = ("num_nodes", "num_edges", "directed")
_MASKS = ("train_mask", "val_mask", "test_mask")
_GRAPH_METADATA = ("node_id", "encoding")
_DATASET_METADATA = ("graph_id", "encoding", "smiles", "test_folds")
_PER_EXAMPLE = ("node_id", "graph_id", "smiles")

T = TypeVar("T")


def write_graphs(data: Data | GraphDataset, path: Path | str, origin: str = "") -> None:
    """Write a graph or a data set of graphs atomically. Integers are stored in the smallest type that holds them.

    Args:
        data: Data set, or a graph with ``edge_index`` and any of ``x`` (dense or sparse), ``y``, ``edge_attr``,
            ``edge_weight``, ``pos``, the three masks, ``node_id`` and ``encoding``.
        path: Path of the ``.npz`` file.
        origin: How the data differs from the official files. Default: that of the data set.
    """
    if isinstance(data, GraphDataset):
        metadata = {name: getattr(data, name) for name in _DATASET_METADATA}
        tensors = {name: values for name, values in data.tensors().items() if name in (*TENSORS, *_COUNTS)}
        split = data.split_codes
        origin = origin or data.origin
    else:
        metadata = {name: data.get(name) for name in _GRAPH_METADATA}
        tensors = {"num_nodes": torch.tensor(data.num_nodes)}
        tensors |= {name: data[name] for name in TENSORS if data.get(name) is not None}
        masks = [data[name] for name in _MASKS if data.get(name) is not None]
        split = torch.from_numpy(split_codes(from_masks("masks", *masks))) if len(masks) == len(_MASKS) else None
    if split is not None:
        tensors["split"] = split
    arrays = {name: array for key, values in tensors.items() for name, array in _to_arrays(key, values).items()}
    arrays = {name: shrink_dtype(array) for name, array in arrays.items()}
    arrays |= {name: _encode_metadata(value) for name, value in metadata.items() if value is not None}
    write_npz(path, arrays | ({"origin": np.array(origin)} if origin else {}))


def read_graphs(path: Path | str) -> GraphDataset:
    """Read a data set of many graphs. Nothing is unpickled.

    Args:
        path: Path of the ``.npz`` file.
    """
    return _read(path, "a file of many graphs", make_dataset)


def read_graph(path: Path | str) -> Data:
    """Read a single graph. Nothing is unpickled.

    Args:
        path: Path of the ``.npz`` file.
    """
    return _read(path, "a file of a single graph", _make_graph)


def _read(path: Path | str, what: str, make: Callable[[dict[str, np.ndarray]], T]) -> T:
    arrays = read_npz(path, what)
    try:
        return make(arrays)
    except ValueError as error:
        raise ValueError(f"{path} is not {what}: {error}") from error


def make_dataset(arrays: Mapping[str, np.ndarray]) -> GraphDataset:
    """Make a data set of the arrays of a file, with its metadata.

    Args:
        arrays: Arrays by name.
    """
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
    data = Data(num_nodes=n)
    for name in TENSORS:
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
    for name in TENSORS[1:]:
        expected = edges.size(1) if name.startswith("edge") else n
        if (value := data.get(name)) is not None and value.size(0) != expected:
            raise ValueError(f"{name} must have {expected} rows, got {value.size(0)}")


def _to_arrays(name: str, value: Tensor) -> dict[str, np.ndarray]:
    if value.layout != torch.sparse_csr:
        return {name: value.cpu().numpy()}
    return {
        f"{name}.ptr": value.crow_indices().numpy(),
        f"{name}.columns": value.col_indices().numpy(),
        f"{name}.values": value.values().numpy(),
        f"{name}.shape": np.array(value.shape),
    }


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
            value = json.loads(str(array))
        except ValueError as error:
            raise ValueError(f"{name} is not JSON: {error}") from error
        if not isinstance(value, dict if name == "encoding" else list):
            raise ValueError(f"{name} must be {'a dictionary' if name == 'encoding' else 'a list'}, got {value!r:.40}")
    if name in _PER_EXAMPLE:
        if len(value) != count:
            raise ValueError(f"{name} must have {count} entries, got {len(value)}")
        if isinstance(value, list) and not all(isinstance(entry, str) for entry in value):
            raise ValueError(f"{name} must contain strings")
        if isinstance(value, list) and name != "smiles":
            return StringIds(np.array(value, dtype=object))
    return value
