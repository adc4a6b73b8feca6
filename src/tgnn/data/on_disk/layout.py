"""Files of a graph on disk, and their manifest ``graph.json``.

==================== ========================================================================================
``graph.json``       format version, sizes, task, encoding, and the size and SHA-256 of every file
``rowptr.npy``       int64 ``[N + 1]``: node v has the incoming edges ``rowptr[v]`` to ``rowptr[v + 1] - 1``
``col.npy``          int32 (int64 for 2^31 nodes or more) ``[E]``: source node of each edge
``x.npy``            float32, float16, or integers for categories ``[N, F]``; optional
``y.npy``            int64 ``[N]`` (-1: no label), or float32 ``[N]`` or ``[N, T]`` (NaN: no label); optional
``part.npy``         uint8 ``[N]``: 0 no set, 1 training, 2 validation, 3 test; optional
``node_id.npy``      int64 ``[N]``: node ids; optional
``node_id.parquet``  column ``id`` of N strings: node ids that are strings; optional
==================== ========================================================================================
"""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError, field_validator

from tgnn.utils.io import sha256_of, write_text
from tgnn.utils.memory_map import open_memmap
from tgnn.utils.progress import Tick, no_tick

FORMAT, VERSION = "tgnn graph", 1
FILE = "graph.json"
ROWPTR, COL, X, Y, PART = "rowptr.npy", "col.npy", "x.npy", "y.npy", "part.npy"
IDS, STRING_IDS = "node_id.npy", "node_id.parquet"
NAMES = (ROWPTR, COL, X, Y, PART, IDS, STRING_IDS)
_HASHED = (ROWPTR, COL, X, Y)
REWRITE = "write the graph again with tgnn data convert SOURCE FOLDER."
"""End of every message about a damaged graph."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FileRecord(_Record):
    """Size and checksum of a file."""

    bytes: NonNegativeInt
    sha256: str


class InfoRecord(_Record):
    """The fields of :class:`~tgnn.data.dataset_info.DatasetInfo`, except for its source."""

    name: str
    level: Literal["node"]
    target: Literal["classes", "labels", "number"]
    metric: Literal["accuracy", "roc-auc", "mae"]
    outputs: NonNegativeInt
    differs: str = ""
    stored_split: str = "column"


class Manifest(_Record):
    """Content of ``graph.json``."""

    format: Literal["tgnn graph"] = "tgnn graph"
    version: Literal[1] = 1
    nodes: NonNegativeInt
    edges: NonNegativeInt
    features: NonNegativeInt
    info: InfoRecord
    encoding: dict[str, Any] | None
    """``data.encoding`` of the user's tables."""
    files: dict[str, FileRecord]
    hash: str
    """See :func:`content_hash`."""

    @field_validator("files")
    @classmethod
    def _check_names(cls, files: dict[str, FileRecord]) -> dict[str, FileRecord]:
        for name in files:
            if name not in NAMES:
                raise ValueError(f"the file {name!r} is unknown")
        for name in (ROWPTR, COL):
            if name not in files:
                raise ValueError(f"{name} is not listed")
        return files


def node_type(num_nodes: int) -> np.dtype[Any]:
    """Return the integer type of node indices.

    Example:
        >>> node_type(2**31 - 1), node_type(2**31)
        (dtype('int32'), dtype('int64'))
    """
    return np.dtype(np.int32 if num_nodes < 2**31 else np.int64)


def content_hash(files: Mapping[str, FileRecord]) -> str:
    """Return a hash of edges, features and labels as 16 hexadecimal digits.

    Args:
        files: The section ``files`` of ``graph.json``.
    """
    lines = [f"{name} {files[name].sha256}" for name in _HASHED if name in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def write_manifest(folder: Path, manifest: Mapping[str, Any], tick: Tick = no_tick) -> None:
    """Compute the checksums of all files of a graph and write ``graph.json``.

    Args:
        folder: Folder of the graph.
        manifest: All other keys of ``graph.json``.
        tick: Called with the number of bytes read.
    """
    files: dict[str, FileRecord] = {}
    for name in NAMES:
        if (path := folder / name).exists():
            files[name] = FileRecord(bytes=path.stat().st_size, sha256=sha256_of(path, tick))
    content = Manifest(**manifest, files=files, hash=content_hash(files))
    write_text(folder / FILE, json.dumps(content.model_dump(), indent=1, ensure_ascii=False) + "\n")


def why_not_replaceable(folder: Path) -> str:
    """Return why a path must not be overwritten, or an empty string for a graph on disk without other files.

    Args:
        folder: Path of a folder or a file.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "edges.csv").write_text("source,target")
        >>> why_not_replaceable(folder)
        'is not a graph on disk (it has no graph.json)'
    """
    if not folder.is_dir():
        return "is not a graph on disk (it is a file)"
    if not (folder / FILE).is_file():
        return f"is not a graph on disk (it has no {FILE})"
    try:
        manifest = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        return f"is not a graph on disk (its {FILE} has another format)"
    others = sorted(path.name for path in folder.iterdir() if path.name not in (FILE, *NAMES) or not path.is_file())
    if others:
        more = f" and {len(others) - 3:,} more" if len(others) > 3 else ""
        return f"contains other files than a graph ({', '.join(others[:3])}{more})"
    return ""


def read_manifest(folder: Path) -> Manifest:
    """Read ``graph.json`` and check that all files exist and have the right size.

    Args:
        folder: Folder of the graph.
    """
    path = folder / FILE
    if not path.is_file():
        raise ValueError(
            f"{folder} is not a graph on disk because it has no {FILE}. Write one with tgnn data convert SOURCE FOLDER."
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error!r}); {REWRITE}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} does not describe a graph on disk; {REWRITE}")
    if content.get("version") != VERSION:
        raise ValueError(
            f"{path} has version {content.get('version')}, but this version of tgnn reads version {VERSION}; {REWRITE}"
        )
    try:
        manifest = Manifest.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        key, value = ".".join(map(str, problem["loc"])), reprlib.repr(problem["input"])
        raise ValueError(f"{path} is invalid ({key}: {problem['msg']}, got {value}); {REWRITE}") from None
    for name, file in manifest.files.items():
        _check_file(folder / name, file.bytes)
    return manifest


def _check_file(path: Path, wanted: int) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; copy the folder again, or {REWRITE}")
    size = path.stat().st_size
    if size != wanted:
        raise ValueError(f"{path} has {size:,} bytes, but must have {wanted:,}; copy the folder again, or {REWRITE}")


def open_array(folder: Path, name: str, manifest: Manifest) -> np.memmap | None:
    """Open an array as a memory map and check its type and shape. ``None``: the graph has no such array.

    Args:
        folder: Folder of the graph.
        name: Name of a ``.npy`` file.
        manifest: Content of ``graph.json``.
    """
    if name not in manifest.files:
        return None
    try:
        array = open_memmap(folder / name)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{folder / name} is not a NumPy array ({error}); {REWRITE}") from error
    rows = {ROWPTR: manifest.nodes + 1, COL: manifest.edges}.get(name, manifest.nodes)
    dtypes, max_dims = _DTYPES[name]
    fits = array.dtype.name in dtypes and 1 <= array.ndim <= max_dims and len(array) == rows
    if not fits or (name == X and array.ndim != 2) or (name == COL and array.dtype != node_type(manifest.nodes)):
        wanted = f"{' or '.join(dtypes)} with {rows:,} rows"
        raise ValueError(f"{folder / name} has {array.dtype} {list(array.shape)}, but must have {wanted}; {REWRITE}")
    return array


_DTYPES: dict[str, tuple[tuple[str, ...], int]] = {
    ROWPTR: (("int64",), 1),
    COL: (("int32", "int64"), 1),
    X: (("float32", "float16", "uint8", "int16", "int32", "int64"), 2),
    Y: (("int64", "float32"), 2),
    PART: (("uint8",), 1),
    IDS: (("int64",), 1),
}
"""Allowed types of each array, and its maximum number of dimensions."""
