"""Files of a graph on disk, and their manifest ``graph.json``. The table in docs/own_data.md describes all files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import NonNegativeInt, model_validator

from tgnn.data.task_types import TaskTypeName
from tgnn.utils.io import sha256_of, write_text
from tgnn.utils.memory_map import open_memmap
from tgnn.utils.progress import Tick, no_tick
from tgnn.utils.read import StoredModel

FILE = "graph.json"
ROWPTR, COL, X, Y, PART, IDS = "rowptr.npy", "col.npy", "x.npy", "y.npy", "part.npy", "node_id.npy"
STRING_IDS = "node_id.parquet"
ARRAYS: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    ROWPTR: (("int64",), (1,)),
    COL: (("int32", "int64"), (1,)),
    X: (("float32", "float16", "uint8", "int16", "int32", "int64"), (2,)),
    Y: (("int64", "float32"), (1, 2)),
    PART: (("uint8",), (1,)),
    IDS: (("int64",), (1,)),
}
"""Allowed types and numbers of dimensions of each array."""
NAMES = (*ARRAYS, STRING_IDS)
"""All files but the manifest."""
_HASHED = (ROWPTR, COL, X, Y)


class FileRecord(StoredModel):
    """Size and checksum of a file."""

    bytes: NonNegativeInt
    sha256: str


class InfoRecord(StoredModel):
    """The fields of :class:`~tgnn.data.dataset_info.DatasetInfo`, except for its source."""

    name: str
    level: Literal["node"]
    target: TaskTypeName
    metric: Literal["accuracy", "roc-auc", "mae"]
    outputs: NonNegativeInt
    differs: str = ""
    stored_split: str = "column"


class Manifest(StoredModel):
    """Content of ``graph.json``. It opens the arrays of the graph and checks them."""

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
    """Hash of edges, features and labels, 16 hexadecimal digits."""

    @model_validator(mode="after")
    def _check_files(self) -> Manifest:
        if unknown := [name for name in self.files if name not in NAMES]:
            raise ValueError(f"the file {unknown[0]!r} is unknown")
        if missing := [name for name in (ROWPTR, COL) if name not in self.files]:
            raise ValueError(f"{missing[0]} is not listed")
        if self.hash != _hash(self.files):
            raise ValueError("the hash does not match the checksums of the files")
        return self

    @classmethod
    def open(cls, folder: Path) -> Manifest:
        """Read ``graph.json`` and check that all files exist and have the right size."""
        path = folder / FILE
        if not path.is_file():
            raise ValueError(
                f"{folder} is not a graph on disk because it has no {FILE}. Write one with tgnn data convert SOURCE "
                "FOLDER."
            )
        try:
            manifest = cls.read(path)
        except ValueError as error:
            raise damaged(path, str(error).removeprefix(f"{path} ")) from None
        for name, file in manifest.files.items():
            path = folder / name
            if not path.is_file():
                raise damaged(path, "is missing")
            if path.stat().st_size != file.bytes:
                raise damaged(path, f"has {path.stat().st_size:,} bytes, but must have {file.bytes:,}")
        return manifest

    @classmethod
    def write(cls, folder: Path, content: Mapping[str, Any], tick: Tick = no_tick) -> None:
        """Compute the checksums of all files of a graph, and write them and the other fields to ``graph.json``."""
        files = {
            name: FileRecord(bytes=path.stat().st_size, sha256=sha256_of(path, tick))
            for name in NAMES
            if (path := folder / name).exists()
        }
        manifest = cls(**content, files=files, hash=_hash(files))
        write_text(folder / FILE, manifest.model_dump_json(indent=1) + "\n")

    def open_arrays(self, folder: Path) -> dict[str, np.memmap]:
        """Open all arrays as memory maps and check their types and shapes."""
        arrays = {}
        for name in self.files:
            if name == STRING_IDS:
                continue
            try:
                array = open_memmap(folder / name)
            except (ValueError, EOFError) as error:
                raise damaged(folder / name, f"is not a NumPy array ({error})") from error
            dtypes, dims = ARRAYS[name]
            if name == COL:
                dtypes = (node_type(self.nodes).name,)
            rows = {ROWPTR: self.nodes + 1, COL: self.edges}.get(name, self.nodes)
            if array.dtype.name not in dtypes or array.ndim not in dims or len(array) != rows:
                wanted = f"{' or '.join(dtypes)} with {rows:,} rows"
                raise damaged(folder / name, f"has {array.dtype} {list(array.shape)}, but must have {wanted}")
            arrays[name] = array
        return arrays

    def find_problem(self, name: str, array: np.ndarray) -> str:
        """Return what is wrong with the values of edge offsets, labels or split, or an empty string.

        It is the rest of a sentence that starts with the file name.
        """
        if name == ROWPTR:
            return offset_problem(array, self.edges)
        if name == Y:
            return label_problem(array, self.info)
        return split_problem(array) if name == PART else ""


def damaged(path: Path, problem: str) -> ValueError:
    """Create the error about an invalid file of a graph on disk."""
    return ValueError(
        f"{path} {problem}; copy the folder again, or write the graph again with tgnn data convert SOURCE FOLDER."
    )


def check_replaceable(folder: Path, overwrite: bool) -> None:
    """Raise an error unless a folder is missing or empty, or is a graph on disk that may be overwritten."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    problem = ""
    if not folder.is_dir():
        problem = "is not a graph on disk (it is a file)"
    elif not (folder / FILE).is_file():
        problem = f"is not a graph on disk (it has no {FILE})"
    elif b'"tgnn graph"' not in (folder / FILE).read_bytes():
        problem = f"is not a graph on disk (its {FILE} has another format)"
    elif others := sorted(path.name for path in folder.iterdir() if path.name not in (FILE, *NAMES)):
        problem = f"contains other files than a graph ({', '.join(others[:3])})"
    if problem:
        raise FileExistsError(f"{folder} exists and {problem}. It is not overwritten. Choose another folder.")
    if not overwrite:
        raise FileExistsError(f"{folder} exists. Use --force (overwrite=True) to replace it.")


def node_type(num_nodes: int) -> np.dtype[Any]:
    """Return the integer type of node indices."""
    return np.dtype(np.int32 if num_nodes < 2**31 else np.int64)


def label_problem(y: np.ndarray, info: InfoRecord) -> str:
    """Return how labels disagree with the task, as :meth:`Manifest.find_problem` does."""
    if info.target == "classification":
        if y.ndim != 1 or y.dtype.kind != "i":
            return f"has {y.dtype} {list(y.shape)}, but classes must be integers [nodes]"
        largest = int(y.max(initial=-1))
        if largest < info.outputs:
            return ""
        return f"has the class {largest:,}, but there are {info.outputs:,} classes (0 to {info.outputs - 1:,})"
    columns = 1 if y.ndim == 1 else y.shape[1]
    return "" if columns == info.outputs else f"has {columns:,} targets per node, but there must be {info.outputs:,}"


def split_problem(part: np.ndarray) -> str:
    """Return which value is not a set of the split, as :meth:`Manifest.find_problem` does."""
    largest = int(part.max(initial=0))
    if largest <= 3:
        return ""
    return f"has the value {largest}, but must be 0 (no set), 1 (training), 2 (validation) or 3 (test)"


def offset_problem(offsets: np.ndarray, last: int) -> str:
    """Return why offsets do not rise from 0 to ``last``, as :meth:`Manifest.find_problem` does."""
    begin, end = int(offsets[0]), int(offsets[-1])
    if begin != 0 or end != last:
        return f"ranges from {begin:,} to {end:,}, but must range from 0 to {last:,}"
    decreasing = np.flatnonzero(offsets[1:] < offsets[:-1])
    if not len(decreasing):
        return ""
    row = int(decreasing[0])
    return f"decreases after row {row:,} (from {offsets[row]:,} to {offsets[row + 1]:,}), but must never decrease"


def _hash(files: dict[str, FileRecord]) -> str:
    lines = [f"{name} {files[name].sha256}" for name in _HASHED if name in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
