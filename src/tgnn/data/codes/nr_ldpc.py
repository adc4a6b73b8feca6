"""LDPC codes of 5G NR (3GPP TS 38.212), lifted from the base graphs in the package ``sionna-no-rt``."""

from __future__ import annotations

import csv
from pathlib import Path

import torch

from tgnn.data.codes.code import ParityCheckCode
from tgnn.data.download.archive import extract
from tgnn.data.download.package_index import Package, fetch_package
from tgnn.utils.cache_dir import cache_dir, make_cache_dir

_PACKAGE = Package(
    "pip",
    "sionna_no_rt-2.2.0-py3-none-any.whl",
    "8ae7744ec53ff5e4da78b2d65075867ab5fbd88e1ec68e46d7daeb281c35a7b5",
)
BASE_GRAPH_2 = "5G_bg2.csv"
"""File of base graph 2: one line per entry with its row, its column and its shift for each of the 8 sets of sizes."""
_SIZE_SETS = (2, 3, 5, 7, 9, 11, 13, 15)
_INFORMATION_COLUMNS = 10
_CORE_ROWS = 4


def nr_ldpc_code(n: int, k: int, base_graph: Path) -> ParityCheckCode:
    r"""Construct a 5G LDPC code of base graph 2 for up to 192 information bits.

    The base graph is lifted by the smallest size :math:`Z` with :math:`6 Z \geq k`. The columns of filler bits, which
    are known to be zero, are removed. The first :math:`2 Z` bits are punctured: they are not sent. Parity bits that
    would be sent after the first ``n`` bits are removed with their checks.

    Args:
        n: Number of transmitted bits.
        k: Number of information bits, at most 192.
        base_graph: File of base graph 2.
    """
    if not 1 <= k <= 192:
        raise ValueError(f"k is {k}, but must be between 1 and 192.")
    size = next(z for z in sorted(a * 2**j for a in _SIZE_SETS for j in range(8)) if 6 * z >= k)
    num_parity = n - k + 2 * size
    entries = _read_base_graph(base_graph, size)
    rows, columns = (1 + max(entry[i] for entry in entries) for i in (0, 1))
    if not _CORE_ROWS * size <= num_parity <= rows * size:
        lowest, highest = (k - 2 * size + part * size for part in (_CORE_ROWS, rows))
        raise ValueError(f"n is {n}, but must be between {lowest} and {highest} for k = {k}.")
    matrix = torch.zeros(rows * size, columns * size, dtype=torch.int64)
    bit = torch.arange(size)
    for row, column, shift in entries:
        matrix[row * size + bit, column * size + (bit + shift) % size] = 1
    first_parity = _INFORMATION_COLUMNS * size
    kept = [*range(k), *range(first_parity, first_parity + num_parity)]
    return ParityCheckCode(f"5G LDPC({n},{k})", matrix[:num_parity][:, kept], num_punctured=2 * size)


def _read_base_graph(path: Path, size: int) -> list[tuple[int, int, int]]:
    """Read row, column and shift of every entry for a lifting size. A row number stands only at its first entry."""
    odd = size
    while odd % 2 == 0 and odd not in _SIZE_SETS:
        odd //= 2
    shifts = 2 + _SIZE_SETS.index(odd)
    entries, row = [], 0
    with path.open(newline="", encoding="utf-8") as file:
        for line in list(csv.reader(file, delimiter=";"))[2:]:
            row = int(line[0]) if line[0] else row
            entries.append((row, int(line[1]), int(line[shifts]) % size))
    return entries


def fetch_base_graph() -> Path:
    """Return the path of base graph 2, extracted from the package into the cache."""
    folder = cache_dir() / "data" / "5g-ldpc"
    if not (folder / BASE_GRAPH_2).exists():
        make_cache_dir()
        folder.mkdir(parents=True, exist_ok=True)
        archive = fetch_package(_PACKAGE, folder.parent / "archives", scratch=folder)
        extract(archive, {f"sionna/phy/fec/ldpc/codes/{BASE_GRAPH_2}": BASE_GRAPH_2}, folder)
    return folder / BASE_GRAPH_2
