"""Atomic files (a file is written whole or not at all), and hashes of files, tensors and options."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tgnn.utils.progress import Tick, no_tick

_LOCK = ".lock"

if TYPE_CHECKING:
    from filelock import FileLock
    from torch import Tensor


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, and move it to ``path`` if the block succeeds.

    The temporary file is removed if the block fails. An ``OSError`` names ``path``, not the temporary file.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with named_errors(path):
            yield part
            os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


@contextlib.contextmanager
def named_errors(path: Path | str) -> Iterator[None]:
    """Add the path to an ``OSError`` of the block, such as a full disk, which may not name the file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def claim_folder(path: Path) -> FileLock:
    """Create a temporary folder and lock it. A folder that a killed process has left is replaced.

    :func:`release_folder` removes the lock.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(str(path / _LOCK))
    if path.is_dir():
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise FileExistsError(f"{path} exists, because another process is writing there.") from None
        shutil.rmtree(path)
        lock.release()
    path.mkdir()
    try:
        lock.acquire(timeout=0)
    except BaseException:  # an interrupt, too
        shutil.rmtree(path, ignore_errors=True)
        raise
    return lock


def release_folder(path: Path, lock: FileLock) -> None:
    """Remove the lock of :func:`claim_folder`."""
    (path / _LOCK).unlink(missing_ok=True)
    lock.release()


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically. NaN and infinity become ``null``, so that every program can read it."""
    write_text(path, json.dumps(without_nan(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def without_nan(value: Any) -> Any:
    """Replace NaN and infinity by ``None`` in nested lists and dictionaries; JSON has no such numbers.

    Example:
        >>> without_nan({"a": [1.0, float("nan")]})
        {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: without_nan(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> str:
    """Write a safetensors file atomically, flushed to the disk, and return its :func:`digest_tensors`.

    The metadata is stored as JSON beside the tensors.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    on_cpu = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    about = json.dumps(metadata)
    digest = digest_tensors(on_cpu, about)
    with atomic_path(path) as part:
        part.touch()
        mode = part.stat().st_mode  # that of the umask, while safetensors writes files that only their owner can read
        try:
            save_file(on_cpu, part, {"about": about, "sha256": digest})
        except SafetensorError as error:
            raise OSError(f"{path} could not be written: {error}") from error
        part.chmod(mode)
        with part.open("rb") as file:
            os.fsync(file.fileno())
    return digest


def digest_tensors(tensors: Mapping[str, Tensor], metadata: str) -> str:
    """Compute the SHA-256 of metadata and of the names, types, shapes and values of contiguous tensors on the CPU."""
    import torch

    digest = hashlib.sha256(metadata.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def hash_json(value: Any) -> str:
    """Return 12 hexadecimal digits that identify a value of built-in types.

    Example:
        >>> hash_json({"rank": 8, "lr": 0.01}) == hash_json({"lr": 0.01, "rank": 8})
        True
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def hash_tensor(tensor: Tensor) -> str:
    """Return 16 hexadecimal digits that identify the values of a tensor on the CPU."""
    return hashlib.sha256(tensor.numpy().tobytes()).hexdigest()[:16]


def sha256_of(path: Path, tick: Tick = no_tick) -> str:
    """Compute the SHA-256 of a file. ``tick`` is called with the number of bytes of each chunk that was read."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(1 << 22):
            digest.update(chunk)
            tick(len(chunk))
    return digest.hexdigest()
