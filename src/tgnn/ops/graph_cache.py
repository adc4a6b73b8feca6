"""What was made of some tensors, found again while they live unchanged."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

T = TypeVar("T")

_MOST_REMEMBERED = 64
_remembered: OrderedDict[Hashable, tuple[tuple[StorageWeakRef, ...], Any]] = OrderedDict()
_lock = threading.RLock()


def _new_lock_after_fork() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock_after_fork)


def cached_on(what: Hashable, tensors: Sequence[Tensor], make: Callable[[], T]) -> T:
    """``make()``, or what it gave for the same ``what`` and tensors before.

    A change in place through torch is seen (by the tensor's version); one behind torch's back, through ``.numpy()``,
    ``.data`` or a collective of ``torch.distributed``, is not. Tensors made under ``torch.inference_mode`` carry no
    version and are not kept.
    """
    if any(tensor.is_inference() for tensor in tensors):
        return make()
    storages = [tensor.untyped_storage() for tensor in tensors]
    key = (
        what,
        *((s._cdata, t.dtype, t.storage_offset(), t.shape, t.stride(), t._version) for s, t in zip(storages, tensors)),
    )
    with _lock:
        if key in _remembered:  # its weak references keep the address of a storage that is gone from being used again
            _remembered.move_to_end(key)
            found: T = _remembered[key][1]
            return found
    with torch.inference_mode(False):  # what is kept may be needed for training later
        made = make()
    with _lock:
        for old in [k for k, (references, _) in _remembered.items() if _expired(references)]:
            del _remembered[old]
        _remembered[key] = (tuple(StorageWeakRef(s) for s in storages), made)  # type: ignore[no-untyped-call]
        while len(_remembered) > _MOST_REMEMBERED:
            _remembered.popitem(last=False)
    return made


_by_content: OrderedDict[Hashable, tuple[tuple[Tensor, ...], Any]] = OrderedDict()
_MOST_BY_CONTENT = 16


def remembered_by_content(what: Hashable, tensors: Sequence[Tensor], make: Callable[[], T]) -> T:
    """The same, where a tensor's identity says nothing: compiled code writes into its buffers again and again.

    The tensors are compared with copies of those that were seen last, entry by entry.
    """
    shapes = (what, *((t.dtype, t.device, t.shape) for t in tensors))
    with _lock:
        for key, (copies, found) in _by_content.items():
            if key[0] == shapes and all(torch.equal(a, b) for a, b in zip(tensors, copies)):  # type: ignore[index]
                _by_content.move_to_end(key)
                result: T = found
                return result
    with torch.inference_mode(False):
        copies = tuple(t.detach().clone() for t in tensors)
        made = make()
    with _lock:
        _by_content[(shapes, object())] = (copies, made)
        while len(_by_content) > _MOST_BY_CONTENT:
            _by_content.popitem(last=False)
    return made


def _expired(references: tuple[StorageWeakRef, ...]) -> bool:
    return any(reference.expired() for reference in references)  # type: ignore[no-untyped-call]
