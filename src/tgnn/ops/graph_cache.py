"""Cache of values computed from tensors, valid while these tensors live and do not change."""

from __future__ import annotations

import gc
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

T = TypeVar("T")

_MAX_ENTRIES = 64
_entries: OrderedDict[Hashable, tuple[tuple[StorageWeakRef, ...], Any]] = OrderedDict()
_lock = threading.Lock()


def _new_lock_after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock_after_fork)


def cached_on(name: Hashable, tensors: Sequence[Tensor], make: Callable[[], T]) -> T:
    """Return ``make()``, or its cached result for the same ``name`` and the same unchanged tensors.

    The cache notices in-place changes through torch by the version counter of a tensor. It does not notice changes
    that raise no version counter: through ``.numpy()``, ``.data``, DLPack, ``untyped_storage()``, shared memory or a
    collective of ``torch.distributed``. Tensors created under ``torch.inference_mode`` have no version counter, so
    nothing is cached for them.

    Args:
        name: Name of the value, to tell apart several values computed from the same tensors.
        tensors: Tensors that the value is computed from.
        make: Computes the value.
    """
    parts: list[Hashable] = [name]
    storages = []
    for tensor in tensors:
        if tensor.is_inference():
            return make()
        storage = tensor.untyped_storage()
        storages.append(storage)
        parts += (storage._cdata, tensor.dtype, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor._version)
    key = tuple(parts)
    with _lock:
        if key in _entries:  # the weak references keep the address of a freed storage from being used again
            _entries.move_to_end(key)
            cached: T = _entries[key][1]
            return cached
    if torch.is_inference_mode_enabled():
        with torch.inference_mode(False):  # the cached value may be needed for training later
            value = make()
    else:
        value = make()
    with _lock:
        _drop_freed()
        _entries[key] = (tuple(StorageWeakRef(s) for s in storages), value)  # type: ignore[no-untyped-call]
        while len(_entries) > _MAX_ENTRIES:
            _entries.popitem(last=False)
    return value


_entries_by_content: OrderedDict[Hashable, tuple[tuple[Tensor, ...], Any]] = OrderedDict()
_MAX_ENTRIES_BY_CONTENT = 16


def cached_by_content(name: Hashable, tensors: Sequence[Tensor], make: Callable[[], T]) -> T:
    """Return ``make()``, or its cached result for tensors with the same entries.

    Use it where the identity of a tensor says nothing about its content: compiled code reuses its buffers. The tensors
    are compared, entry by entry, with copies of the most recent ones.
    """
    shapes = (name, *((t.dtype, t.device, t.shape) for t in tensors))
    with _lock:
        for key, (copies, value) in _entries_by_content.items():
            if key[0] == shapes and all(torch.equal(a, b) for a, b in zip(tensors, copies)):  # type: ignore[index]
                _entries_by_content.move_to_end(key)
                cached: T = value
                return cached
    with torch.inference_mode(False):
        copies = tuple(t.detach().clone() for t in tensors)
        made = make()
    with _lock:
        _entries_by_content[(shapes, object())] = (copies, made)
        while len(_entries_by_content) > _MAX_ENTRIES_BY_CONTENT:
            _entries_by_content.popitem(last=False)
    return made


def _drop_freed() -> None:
    """Drop the values of tensors that no longer exist. The caller holds the lock."""
    for key in [key for key, (references, _) in _entries.items() if _expired(references)]:
        del _entries[key]


def _drop_freed_at_collection(phase: str, info: dict[str, Any]) -> None:
    """Let the garbage collector of Python free the values of freed tensors, if no thread is using the cache."""
    if phase == "stop" and info["generation"] > 0 and _entries and _lock.acquire(blocking=False):
        try:
            _drop_freed()
        finally:
            _lock.release()


gc.callbacks.append(_drop_freed_at_collection)


def _expired(references: tuple[StorageWeakRef, ...]) -> bool:
    return any(reference.expired() for reference in references)  # type: ignore[no-untyped-call]
