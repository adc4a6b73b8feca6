"""Codes by name. Some are constructed, and some are read from files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tgnn.data.codes.alist import read_alist
from tgnn.data.codes.code import ParityCheckCode
from tgnn.data.codes.constructions import bch_code, peg_code
from tgnn.data.codes.nr_ldpc import BASE_GRAPH_2, fetch_base_graph, nr_ldpc_code


@dataclass(frozen=True)
class NamedCode:
    """Catalog entry of a code that :func:`load_code` loads by name.

    Args:
        title: Description in one line.
        n: Number of transmitted bits.
        k: Number of information bits.
        construct: Function that constructs the code. ``None`` if it is read from a file.
        file: Name of its file, searched in the root folder and in its folder ``codes``.
        read: Function that reads the file.
        fetch: Function that downloads the file into the cache and returns its path, if there is a source.
    """

    title: str
    n: int
    k: int
    construct: Callable[[], ParityCheckCode] | None = None
    file: str = ""
    read: Callable[[Path], ParityCheckCode] = read_alist
    fetch: Callable[[], Path] | None = None

    @property
    def source(self) -> str:
        """Where the parity-check matrix comes from."""
        if self.construct is not None:
            return "constructed"
        return f"{self.file} in --root" + ("" if self.fetch is None else ", or the pip package sionna-no-rt")


def _alist(title: str, n: int, k: int, family: str) -> NamedCode:
    return NamedCode(title, n, k, file=f"{family}_N{n}_K{k}.alist")


CODES: Mapping[str, NamedCode] = {
    "bch-63-45": NamedCode("BCH code", 63, 45, partial(bch_code, 63, 45)),
    "bch-63-36": NamedCode("BCH code", 63, 36, partial(bch_code, 63, 36)),
    "peg-96-48": NamedCode("LDPC code by progressive edge growth", 96, 48, partial(peg_code, 96, 48)),
    "ldpc-49-24": _alist("LDPC code", 49, 24, "LDPC"),
    "ldpc-121-60": _alist("LDPC code", 121, 60, "LDPC"),
    "ccsds-128-64": _alist("LDPC code for telecommand (CCSDS 231.1-O-1)", 128, 64, "CCSDS"),
    "5g-128-64": NamedCode(
        "LDPC code of 5G NR, base graph 2 (3GPP TS 38.212)",
        128,
        64,
        file=BASE_GRAPH_2,
        read=partial(nr_ldpc_code, 128, 64),
        fetch=fetch_base_graph,
    ),
}
"""Catalog of the codes that :func:`load_code` loads by name."""


def load_code(
    name_or_path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None, offline: bool = False
) -> ParityCheckCode:
    """Load a code by name or from an alist file.

    Args:
        name_or_path: A name of ``CODES``, or the path of an alist file.
        root: Folder with files of the codes that are not constructed. Default: the environment variable ``TGNN_DATA``.
        offline: If ``True``, do not access the network.

    Example:
        >>> load_code("bch-63-45")
        ParityCheckCode('BCH(63,45)', n=63, k=45, checks=18)
    """
    name = os.fspath(name_or_path)
    if name not in CODES:
        if not name.endswith(".alist"):
            raise ValueError(f"{name!r} is neither an alist file nor a code: {', '.join(CODES)}.")
        return read_alist(Path(name).expanduser())
    entry, root = CODES[name], root or os.environ.get("TGNN_DATA")
    if entry.construct is not None:
        return entry.construct()
    folders = [] if root is None else [Path(root).expanduser(), Path(root).expanduser() / "codes"]
    path = next((folder / entry.file for folder in folders if (folder / entry.file).exists()), None)
    if path is None and entry.fetch is not None and not offline:
        path = entry.fetch()
    if path is None:
        where = "no folder was given" if root is None else f"it is not in {root} or its folder codes"
        raise FileNotFoundError(
            f"{name} needs the file {entry.file}, but {where}; pass the folder of the file with --root (root=) or "
            f"TGNN_DATA"
        )
    code = entry.read(path)
    if (code.n - code.num_punctured, code.k) != (entry.n, entry.k):
        raise ValueError(f"{path} is not {name}: it has n = {code.n} and k = {code.k}.")
    return code
