"""What is in the folder of a graph on disk, and whether it is all there.

==================== ========================================================================================
``graph.json``       the version, sizes, what is predicted, and of every file its bytes and its SHA-256
``rowptr.npy``       int64 ``[N + 1]``: the edges into node v are ``rowptr[v]`` to ``rowptr[v + 1] - 1``
``col.npy``          int32 (int64 from 2^31 nodes on) ``[E]``: where these edges come from
``x.npy``            float32, float16, or integers for categories ``[N, F]``; or absent
``y.npy``            int64 ``[N]``, -1: no label; or float32 ``[N]``, ``[N, T]``, NaN: no label; or absent
``part.npy``         uint8 ``[N]``: 0 none, 1 train, 2 validation, 3 test; or absent
``node_id.npy``      int64 ``[N]``: ids as the user has them; or words, all in one, as bytes of UTF-8; or absent
``node_id_end.npy``  int64 ``[N]``: where each of these words ends
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

from tgnn.utils.memory_map import open_memmap
from tgnn.utils.progress import Tick, no_tick

FORMAT, VERSION = "tgnn graph", 1
FILE = "graph.json"
ROWPTR, COL, X, Y, PART = "rowptr.npy", "col.npy", "x.npy", "y.npy", "part.npy"
IDS, ENDS = "node_id.npy", "node_id_end.npy"
NAMES = (ROWPTR, COL, X, Y, PART, IDS, ENDS)
_FACTS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("nodes", "edges", "features"), int),
    **dict.fromkeys(("info", "files"), dict),
    "hash": str,
    "encoding": (dict, type(None)),
}
_LEARNED = (ROWPTR, COL, X, Y)
ANEW = "write it anew: tgnn data convert SOURCE FOLDER"
_CHUNK = 1 << 22


def node_type(num_nodes: int) -> np.dtype[Any]:
    """What holds the number of a node.

    Example:
        >>> node_type(2**31 - 1), node_type(2**31)
        (dtype('int32'), dtype('int64'))
    """
    return np.dtype(np.int32 if num_nodes < 2**31 else np.int64)


def sha256_of(path: Path, tick: Tick = no_tick) -> str:
    """Of a file, read in pieces.

    Args:
        path: Of the file.
        tick: Called with how many more bytes have been read.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            tick(len(piece))
    return digest.hexdigest()


def content_hash(files: Mapping[str, Mapping[str, Any]]) -> str:
    """16 hexadecimal digits that tell edges, features and targets.

    Args:
        files: As ``graph.json`` has them.
    """
    lines = [f"{name} {files[name]['sha256']}" for name in _LEARNED if name in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def write_manifest(folder: Path, facts: Mapping[str, Any], tick: Tick = no_tick) -> None:
    """Looks through all files of a folder and writes ``graph.json``.

    Args:
        folder: Where they are.
        facts: All that is to be told beside the files.
        tick: Called with how many more bytes have been read.
    """
    files = {}
    for name in NAMES:
        if (path := folder / name).exists():
            files[name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path, tick)}
    content = {"format": FORMAT, "version": VERSION, **facts, "files": files, "hash": content_hash(files)}
    (folder / FILE).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def why_not_replaceable(folder: Path) -> str:
    """Why a folder may not be thrown away as a graph on disk; empty: it is one, and has no file of another kind.

    Args:
        folder: Or a file.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "edges.csv").write_text("source,target")
        >>> why_not_replaceable(folder)
        'is no graph on disk (it has no graph.json)'
    """
    if not folder.is_dir():
        return "is no graph on disk (it is a file)"
    if not (folder / FILE).is_file():
        return f"is no graph on disk (it has no {FILE})"
    try:
        facts = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except ValueError:
        facts = None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        return f"is no graph on disk (its {FILE} is of something else)"
    others = sorted(path.name for path in folder.iterdir() if path.name not in (FILE, *NAMES) or not path.is_file())
    if others:
        more = f" and {len(others) - 3:,} more" if len(others) > 3 else ""
        return f"has {', '.join(others[:3])}{more} beside the files of a graph"
    return ""


def read_manifest(folder: Path) -> dict[str, Any]:
    """What ``graph.json`` says. Whether files are missing or cut is looked at, not what is in them.

    Args:
        folder: Of the graph.
    """
    path = folder / FILE
    if not path.is_file():
        raise ValueError(
            f"{folder} is not a graph on disk: it has no {FILE}; tgnn data convert SOURCE FOLDER writes one"
        )
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not that of a graph on disk ({error!r}); {ANEW}") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(f"{path} is not that of a graph on disk (it is of another format); {ANEW}")
    if facts.get("version") != VERSION:
        raise ValueError(
            f"{path} is of version {facts.get('version')}, and this program reads version {VERSION}; {ANEW}"
        )
    if wrong := _wrong_manifest(facts):
        raise ValueError(f"{path} does not tell a graph ({wrong}); {ANEW}")
    for name in (ROWPTR, COL):
        if name not in facts["files"]:
            raise ValueError(f"{path} names no {name}; {ANEW}")
    for name, told in facts["files"].items():
        _check_file(folder / name, name, told["bytes"])
    return facts


def _wrong_manifest(facts: Mapping[str, Any]) -> str:
    """Something that is missing or of another kind; empty: all is there."""
    for name, kind in _FACTS.items():
        if not _is(facts.get(name), kind):
            return f"its {name} is {reprlib.repr(facts[name])}" if name in facts else f"it has no {name}"
    for name, told in facts["files"].items():
        for fact, kind in (("bytes", int), ("sha256", str)):
            if not isinstance(told, dict) or not _is(told.get(fact), kind):
                return f"it does not tell the {fact} of {name}"
    return ""


def _is(value: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and (not isinstance(value, int) or value >= 0)


def _check_file(path: Path, name: str, wanted: int) -> None:
    if name not in NAMES:
        raise ValueError(f"{path.parent / FILE} names a file {name!r}, which is none of {', '.join(NAMES)}; {ANEW}")
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: copy the folder again, or {ANEW}")
    size = path.stat().st_size
    if size != wanted:
        raise ValueError(f"{path} has {size:,} bytes and should have {wanted:,}: copy the folder again, or {ANEW}")


def open_array(folder: Path, name: str, facts: Mapping[str, Any]) -> np.memmap | None:
    """One of the arrays, mapped; ``None``: it is not there. Its type and shape are what they should be.

    Args:
        folder: Of the graph.
        name: One of :data:`NAMES`.
        facts: What ``graph.json`` says.
    """
    if name not in facts["files"]:
        return None
    try:
        array = open_memmap(folder / name)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{folder / name} is not an array: {error}; {ANEW}") from error
    nodes, edges = facts["nodes"], facts["edges"]
    rows = {ROWPTR: nodes + 1, COL: edges}.get(name, nodes)
    kinds, most = _KINDS[name]
    words = name == IDS and array.dtype == np.uint8
    fits = array.dtype.name in kinds and 1 <= array.ndim <= most and (words or len(array) == rows)
    if not fits or (name == X and array.ndim != 2) or (name == COL and array.dtype != node_type(nodes)):
        wanted = f"{' or '.join(kinds)} with {rows:,} rows"
        raise ValueError(f"{folder / name} has {array.dtype} {list(array.shape)} and should have {wanted}; {ANEW}")
    return array


_KINDS = {
    ROWPTR: (("int64",), 1),
    COL: (("int32", "int64"), 1),
    X: (("float32", "float16", "uint8", "int16", "int32", "int64"), 2),
    Y: (("int64", "float32"), 2),
    PART: (("uint8",), 1),
    IDS: (("int64", "uint8"), 1),
    ENDS: (("int64",), 1),
}
"""Types of each array, and how many dimensions it has at most."""
