"""Restricted unpicklers for old published data. They can create arrays or tensors and nothing else."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor


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


def _rebuild_tensor(content: bytes, offset: int, size: Any, stride: Any, *_: Any) -> StoredTensor:
    return StoredTensor(content, offset, tuple(size), tuple(stride))


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":  # old pickle protocols write bytes as latin1
        raise pickle.UnpicklingError(f"bytes are encoded as {encoding}, expected latin1")
    return text.encode(encoding)


_RECONSTRUCT = np.ndarray.__reduce__(np.empty(0))[0]
_ARRAYS = {  # old files contain old names of modules
    "collections.defaultdict": defaultdict,
    "builtins.list": list,
    "__builtin__.list": list,
    "builtins.bytes": bytes,
    "__builtin__.bytes": bytes,
    "_codecs.encode": _encode,
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": np.dtype,
    "numpy.core.multiarray._reconstruct": _RECONSTRUCT,
    "numpy._core.multiarray._reconstruct": _RECONSTRUCT,
    "scipy.sparse.csr.csr_matrix": scipy.sparse.csr_matrix,
    "scipy.sparse._csr.csr_matrix": scipy.sparse.csr_matrix,
}
_TENSORS = {  # torch's functions are replaced by ones that store their arguments
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch.storage._load_from_bytes": lambda content: content,
    "_codecs.encode": _encode,
    "collections.OrderedDict": OrderedDict,
}


class _RestrictedUnpickler(pickle.Unpickler):
    """Unpickler that only allows the listed classes and functions."""

    def __init__(self, content: bytes, allowed: Mapping[str, Any], what: str) -> None:
        super().__init__(io.BytesIO(content), encoding="latin1")
        self.allowed, self.what = allowed, what

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in self.allowed:
            raise pickle.UnpicklingError(f"it contains {module}.{name}, but only {self.what} are allowed")
        return self.allowed[f"{module}.{name}"]


def read_arrays(content: bytes, file: str) -> Any:
    """Unpickle arrays, sparse matrices, lists and dictionaries. Anything else is an error that names the file."""
    return _read(_RestrictedUnpickler(content, _ARRAYS, "arrays"), file)


def read_tensors(content: bytes, file: str) -> Any:
    """Unpickle tensors (as :class:`StoredTensor`), numbers, lists and dictionaries. Anything else is an error."""
    return _read(_RestrictedUnpickler(content, _TENSORS, "tensors"), file)


def _read(unpickler: pickle.Unpickler, file: str) -> Any:
    try:
        return unpickler.load()
    except Exception as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
