"""Old pickles of published data, read by unpicklers that can make arrays or tensors and nothing else."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

_ALLOWED = {
    ("collections", "defaultdict"),
    ("builtins", "list"),
    ("builtins", "bytes"),
    ("_codecs", "encode"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("scipy.sparse", "csr_matrix"),
}
_MOVED = {  # what old files call a module, and where it is now
    "__builtin__": "builtins",
    "numpy.core.multiarray": "numpy._core.multiarray",
    "scipy.sparse.csr": "scipy.sparse",
    "scipy.sparse._csr": "scipy.sparse",
}


class _ArraysOnly(pickle.Unpickler):
    """A pickle is a program; this one can only name what holds numbers."""

    def find_class(self, module: str, name: str) -> Any:
        module = _MOVED.get(module, module)
        if (module, name) == ("numpy._core.multiarray", "_reconstruct"):
            return np.ndarray.__reduce__(np.empty(0))[0]
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only arrays are allowed")
        return super().find_class(module, name)


def read_arrays(content: bytes, what: str) -> Any:
    """Arrays, sparse matrices, lists and dictionaries out of a pickle; anything else is refused.

    Args:
        content: The pickle.
        what: What to call it in an error.
    """
    return _read(_ArraysOnly(io.BytesIO(content), encoding="latin1"), what)


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a pickle, still as bytes: of many only those that are wanted need to be made."""

    content: bytes
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def load(self) -> Tensor:
        """The tensor; its bytes are read by torch with ``weights_only``."""
        try:
            storage = torch.load(io.BytesIO(self.content), weights_only=True)
            numbers = torch.empty(0, dtype=storage.dtype).set_(storage._untyped_storage)
            return numbers.as_strided(self.size, self.stride, self.offset)  # refuses to reach beyond the numbers
        except Exception as error:
            raise ValueError(f"a tensor of size {self.size} cannot be read: {error}") from error


def _rebuild(content: bytes, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> StoredTensor:
    return StoredTensor(content, offset, tuple(size), tuple(stride))


def _keep(content: bytes) -> bytes:
    return content


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":  # the one in which old protocols write bytes
        raise pickle.UnpicklingError(f"bytes are written as {encoding}, expected latin1")
    return text.encode(encoding)


_REPLACED = {
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
    ("torch.storage", "_load_from_bytes"): _keep,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): OrderedDict,
}


class _TensorsOnly(pickle.Unpickler):
    """Of what a pickled tensor names, torch's functions are replaced by ones that only keep what they are given."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _REPLACED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only tensors are allowed")
        return _REPLACED[module, name]


def read_tensors(content: bytes, what: str) -> Any:
    """Tensors (:class:`StoredTensor`), numbers, lists and dictionaries out of a pickle; anything else is refused.

    Args:
        content: The pickle.
        what: What to call it in an error.

    Example:
        >>> stored = read_tensors(pickle.dumps({"a": torch.arange(3)}), "the file")
        >>> stored["a"].load()
        tensor([0, 1, 2])
    """
    return _read(_TensorsOnly(io.BytesIO(content), encoding="latin1"), what)


def _read(unpickler: pickle.Unpickler, what: str) -> Any:
    try:
        return unpickler.load()
    except Exception as error:
        raise ValueError(f"{what} cannot be read: {error}") from error
