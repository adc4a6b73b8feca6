"""Atomic files (a file is written whole or not at all), validation of JSON files, and the SHA-256 of files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tgnn.utils.progress import Tick, no_tick

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, and move it to ``path`` if the block succeeds.

    The temporary file is removed if the block fails. An ``OSError`` names ``path``, not the temporary file.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        os.replace(part, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically. NaN and infinity become ``null``, so that every program can read it."""
    write_text(path, json.dumps(without_nan(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def validate_fields(data_class: type[T], fields: Any) -> T:
    """Build a data class from the fields of a JSON file, or raise a ``ValueError`` that names the first wrong field."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(data_class).validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None


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


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """Write a safetensors file atomically, flushed to the disk. The metadata is stored as JSON beside the tensors."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    on_cpu = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    with atomic_path(path) as part:
        part.touch()
        mode = part.stat().st_mode  # that of the umask, while safetensors writes files that only their owner can read
        try:
            save_file(on_cpu, part, {"about": json.dumps(metadata)})
        except SafetensorError as error:
            raise OSError(f"{path} could not be written: {error}") from error
        part.chmod(mode)
        with part.open("rb") as file:
            os.fsync(file.fileno())


def sha256_of(path: Path, tick: Tick = no_tick) -> str:
    """Compute the SHA-256 of a file. ``tick`` is called with the number of bytes of each chunk that was read."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(1 << 22):
            digest.update(chunk)
            tick(len(chunk))
    return digest.hexdigest()
