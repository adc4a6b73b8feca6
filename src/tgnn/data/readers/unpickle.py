"""Restricted unpicklers for old published data. They can create arrays or tensors and nothing else."""

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
_MOVED = {  # module names in old files and their current names
    "__builtin__": "builtins",
    "numpy.core.multiarray": "numpy._core.multiarray",
    "scipy.sparse.csr": "scipy.sparse",
    "scipy.sparse._csr": "scipy.sparse",
}


class _ArraysOnly(pickle.Unpickler):
    """Unpickler that only allows arrays, sparse matrices and built-in containers."""

    def find_class(self, module: str, name: str) -> Any:
        module = _MOVED.get(module, module)
        if (module, name) == ("numpy._core.multiarray", "_reconstruct"):
            return np.ndarray.__reduce__(np.empty(0))[0]
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it contains {module}.{name}, but only arrays are allowed")
        return super().find_class(module, name)


def read_arrays(content: bytes, what: str) -> Any:
    """Unpickle arrays, sparse matrices, lists and dictionaries. Anything else is an error.

    Args:
        content: Content of the pickle.
        what: Name of the pickle in error messages.
    """
    return _read(_ArraysOnly(io.BytesIO(content), encoding="latin1"), what)


@dataclass(frozen=True)
class StoredTensor:
    """A pickled tensor that is loaded only when needed."""

    content: bytes
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def load(self) -> Tensor:
        """Load the tensor with torch and ``weights_only=True``."""
        try:
            storage = torch.load(io.BytesIO(self.content), weights_only=True)
            flat = torch.empty(0, dtype=storage.dtype).set_(storage._untyped_storage)
            return flat.as_strided(self.size, self.stride, self.offset)  # checks the bounds
        except Exception as error:
            raise ValueError(f"a tensor of size {self.size} cannot be read: {error}") from error


def _rebuild_tensor(
    content: bytes, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> StoredTensor:
    return StoredTensor(content, offset, tuple(size), tuple(stride))


def _keep_bytes(content: bytes) -> bytes:
    return content


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":  # old pickle protocols write bytes as latin1
        raise pickle.UnpicklingError(f"bytes are encoded as {encoding}, expected latin1")
    return text.encode(encoding)


_REPLACED = {
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch.storage", "_load_from_bytes"): _keep_bytes,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): OrderedDict,
}


class _TensorsOnly(pickle.Unpickler):
    """Unpickler that only allows tensors. It replaces torch's functions by ones that store their arguments."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _REPLACED:
            raise pickle.UnpicklingError(f"it contains {module}.{name}, but only tensors are allowed")
        return _REPLACED[module, name]


def read_tensors(content: bytes, what: str) -> Any:
    """Unpickle tensors (as :class:`StoredTensor`), numbers, lists and dictionaries. Anything else is an error.

    Args:
        content: Content of the pickle.
        what: Name of the pickle in error messages.

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
