"""Encode and decode the metadata in a ``.npz`` file: ids, table encoding, SMILES and folds. Text is stored as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from torch import Tensor

from tgnn.data.readers.npz import as_int64
from tgnn.data.readers.string_ids import StringIds

_PER_EXAMPLE = ("node_id", "graph_id", "smiles")


def encode_metadata(value: object) -> np.ndarray:
    """Encode metadata as an array: a tensor as it is, anything else as JSON text.

    Args:
        value: A tensor, :class:`~tgnn.data.readers.string_ids.StringIds`, or lists and dictionaries.

    Example:
        >>> encode_metadata(["CO", "C"])
        array('["CO", "C"]', dtype='<U11')
    """
    if isinstance(value, Tensor):
        return np.asarray(value.cpu().numpy())
    return np.array(json.dumps(value.tolist() if isinstance(value, StringIds) else value))


def decode_metadata(array: np.ndarray, name: str, count: int) -> Any:
    """Decode metadata. Invalid content raises a ``ValueError``.

    Args:
        array: Array from :func:`encode_metadata`.
        name: ``node_id``, ``graph_id``, ``smiles``, ``encoding`` or ``test_folds``.
        count: Number of nodes or graphs.

    Example:
        >>> decode_metadata(encode_metadata({"version": 1}), "encoding", 3)
        {'version': 1}
    """
    value: Any = _decode(array, name)
    if name in _PER_EXAMPLE:
        if len(value) != count:
            raise ValueError(f"{name} must have {count} entries, got {len(value)}")
        if isinstance(value, list) and not all(isinstance(entry, str) for entry in value):
            raise ValueError(f"{name} must contain strings")
        if isinstance(value, list) and name != "smiles":
            return StringIds(np.array(value, dtype=object))
    return value


def _decode(array: np.ndarray, name: str) -> Tensor | dict[str, Any] | list[Any]:
    if name in ("node_id", "graph_id") and array.ndim == 1:
        return as_int64(array, name)
    try:
        value = json.loads(str(array))
    except ValueError as error:
        raise ValueError(f"{name} is not JSON: {error}") from error
    if not isinstance(value, dict if name == "encoding" else list):
        raise ValueError(f"{name} must be {'a dictionary' if name == 'encoding' else 'a list'}, got {value!r:.40}")
    return value
