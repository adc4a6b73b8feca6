"""Files of a graph on disk, and their manifest ``graph.json``.

==================== ========================================================================================
``graph.json``       format version, sizes, task, encoding, and the size and SHA-256 of every file
``rowptr.npy``       int64 ``[N + 1]``: node v has the incoming edges ``rowptr[v]`` to ``rowptr[v + 1] - 1``
``col.npy``          int32 (int64 for 2^31 nodes or more) ``[E]``: source node of each edge
``x.npy``            float32, float16, or integers for categories ``[N, F]``; optional
``y.npy``            int64 ``[N]`` (-1: no label), or float32 ``[N]`` or ``[N, T]`` (NaN: no label); optional
``part.npy``         uint8 ``[N]``: 0 no set, 1 training, 2 validation, 3 test; optional
``node_id.npy``      int64 ``[N]``: node ids; or concatenated string ids as UTF-8 bytes; optional
``node_id_end.npy``  int64 ``[N]``: end of each string id
==================== ========================================================================================
"""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tgnn.data.download.checksum import sha256_of
from tgnn.utils.io import write_text
from tgnn.utils.memory_map import open_memmap
from tgnn.utils.progress import Tick, no_tick

FORMAT, VERSION = "tgnn graph", 1
FILE = "graph.json"
ROWPTR, COL, X, Y, PART = "rowptr.npy", "col.npy", "x.npy", "y.npy", "part.npy"
IDS, ENDS = "node_id.npy", "node_id_end.npy"
NAMES = (ROWPTR, COL, X, Y, PART, IDS, ENDS)
_MANIFEST_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("nodes", "edges", "features"), int),
    **dict.fromkeys(("info", "files"), dict),
    "hash": str,
    "encoding": (dict, type(None)),
}
_HASHED = (ROWPTR, COL, X, Y)
REWRITE = "write the graph again with tgnn data convert SOURCE FOLDER."
"""End of every message about a damaged graph."""


def node_type(num_nodes: int) -> np.dtype[Any]:
    """Return the integer type of node indices.

    Example:
        >>> node_type(2**31 - 1), node_type(2**31)
        (dtype('int32'), dtype('int64'))
    """
    return np.dtype(np.int32 if num_nodes < 2**31 else np.int64)


def content_hash(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a hash of edges, features and labels as 16 hexadecimal digits.

    Args:
        files: The section ``files`` of ``graph.json``.
    """
    lines = [f"{name} {files[name]['sha256']}" for name in _HASHED if name in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def write_manifest(folder: Path, manifest: Mapping[str, Any], tick: Tick = no_tick) -> None:
    """Compute the checksums of all files of a graph and write ``graph.json``.

    Args:
        folder: Folder of the graph.
        manifest: All other keys of ``graph.json``.
        tick: Called with the number of bytes read.
    """
    files = {}
    for name in NAMES:
        if (path := folder / name).exists():
            files[name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path, tick)}
    content = {"format": FORMAT, "version": VERSION, **manifest, "files": files, "hash": content_hash(files)}
    write_text(folder / FILE, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


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


def read_manifest(folder: Path) -> dict[str, Any]:
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
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error!r}); {REWRITE}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"{path} does not describe a graph on disk; {REWRITE}")
    if manifest.get("version") != VERSION:
        raise ValueError(
            f"{path} has version {manifest.get('version')}, but this version of tgnn reads version {VERSION}; {REWRITE}"
        )
    if wrong := _manifest_error(manifest):
        raise ValueError(f"{path} is invalid ({wrong}); {REWRITE}")
    for name in (ROWPTR, COL):
        if name not in manifest["files"]:
            raise ValueError(f"{path} does not list {name}; {REWRITE}")
    for name, file in manifest["files"].items():
        _check_file(folder / name, name, file["bytes"])
    return manifest


def _manifest_error(manifest: Mapping[str, Any]) -> str:
    """Return what is missing or has the wrong type, or an empty string."""
    for name, kind in _MANIFEST_TYPES.items():
        if not _is(manifest.get(name), kind):
            return f"{name} is {reprlib.repr(manifest[name])}" if name in manifest else f"{name} is missing"
    for name, file in manifest["files"].items():
        for key, kind in (("bytes", int), ("sha256", str)):
            if not isinstance(file, dict) or not _is(file.get(key), kind):
                return f"the {key} of {name} is missing or invalid"
    return ""


def _is(value: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and (not isinstance(value, int) or value >= 0)


def _check_file(path: Path, name: str, wanted: int) -> None:
    if name not in NAMES:
        raise ValueError(f"{path.parent / FILE} lists the unknown file {name!r}; {REWRITE}")
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; copy the folder again, or {REWRITE}")
    size = path.stat().st_size
    if size != wanted:
        raise ValueError(f"{path} has {size:,} bytes, but must have {wanted:,}; copy the folder again, or {REWRITE}")


def open_array(folder: Path, name: str, manifest: Mapping[str, Any]) -> np.memmap | None:
    """Open an array as a memory map and check its type and shape. ``None``: the graph has no such array.

    Args:
        folder: Folder of the graph.
        name: One of :data:`NAMES`.
        manifest: Content of ``graph.json``.
    """
    if name not in manifest["files"]:
        return None
    try:
        array = open_memmap(folder / name)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{folder / name} is not a NumPy array ({error}); {REWRITE}") from error
    nodes, edges = manifest["nodes"], manifest["edges"]
    rows = {ROWPTR: nodes + 1, COL: edges}.get(name, nodes)
    dtypes, max_dims = _DTYPES[name]
    strings = name == IDS and array.dtype == np.uint8
    fits = array.dtype.name in dtypes and 1 <= array.ndim <= max_dims and (strings or len(array) == rows)
    if not fits or (name == X and array.ndim != 2) or (name == COL and array.dtype != node_type(nodes)):
        wanted = f"{' or '.join(dtypes)} with {rows:,} rows"
        raise ValueError(f"{folder / name} has {array.dtype} {list(array.shape)}, but must have {wanted}; {REWRITE}")
    return array


_DTYPES = {
    ROWPTR: (("int64",), 1),
    COL: (("int32", "int64"), 1),
    X: (("float32", "float16", "uint8", "int16", "int32", "int64"), 2),
    Y: (("int64", "float32"), 2),
    PART: (("uint8",), 1),
    IDS: (("int64", "uint8"), 1),
    ENDS: (("int64",), 1),
}
"""Allowed types of each array, and its maximum number of dimensions."""
