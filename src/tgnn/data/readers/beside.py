"""What is stored beside the tensors of a ``.npz``: ids, the encoding, SMILES, folds. Words are JSON: never a pickle."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from torch import Tensor

from tgnn.data.readers.npz import whole
from tgnn.data.readers.word_ids import WordIds

_WORDS = ("node_id", "graph_id", "smiles")


def to_array(value: object) -> np.ndarray:
    """Numbers as they are; anything else as one text.

    Args:
        value: A tensor, :class:`~tgnn.data.readers.word_ids.WordIds`, or plain values.

    Example:
        >>> to_array(["CO", "C"])
        array('["CO", "C"]', dtype='<U11')
    """
    if isinstance(value, Tensor):
        return np.asarray(value.cpu().numpy())
    return np.array(json.dumps(value.tolist() if isinstance(value, WordIds) else value))


def from_array(array: np.ndarray, name: str, count: int) -> Any:
    """The same again; what does not fit is a ``ValueError``.

    Args:
        array: As :func:`to_array` made it.
        name: ``node_id``, ``graph_id``, ``smiles``, ``encoding`` or ``test_folds``.
        count: Of nodes or graphs.

    Example:
        >>> from_array(to_array({"version": 1}), "encoding", 3)
        {'version': 1}
    """
    value: Any = _plain(array, name)
    if name in _WORDS:
        if len(value) != count:
            raise ValueError(f"{name} has {len(value)} entries, but {count} are needed")
        if isinstance(value, list) and not all(isinstance(word, str) for word in value):
            raise ValueError(f"{name} must hold words")
        if isinstance(value, list) and name != "smiles":
            return WordIds(np.array(value, dtype=object))
    return value


def _plain(array: np.ndarray, name: str) -> Tensor | dict[str, Any] | list[Any]:
    if name in ("node_id", "graph_id") and array.ndim == 1:
        return whole(array, name)
    try:
        value = json.loads(str(array))
    except ValueError as error:
        raise ValueError(f"{name} is not JSON: {error}") from error
    if not isinstance(value, dict if name == "encoding" else list):
        raise ValueError(f"{name} must be {'a dictionary' if name == 'encoding' else 'a list'}, got {value!r:.40}")
    return value
