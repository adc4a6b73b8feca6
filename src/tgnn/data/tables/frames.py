"""Tables in memory: pandas and polars data frames."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl


def is_frame(value: Any) -> bool:
    """Return whether an object is a polars or pandas data frame, without importing pandas."""
    pandas = sys.modules.get("pandas")
    return isinstance(value, pl.DataFrame) or (pandas is not None and isinstance(value, pandas.DataFrame))


def to_polars(frame: Any) -> pl.DataFrame:
    """Convert a data frame to polars. NaN, ``None`` and ``pandas.NA`` become null.

    ``polars.from_pandas`` is not used, because it needs pyarrow for strings.
    """
    if isinstance(frame, pl.DataFrame):
        return frame
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"the data frame has two columns {twice!r}; rename one of them")
    columns = {}
    for name in frame.columns:
        gaps = frame[name].isna()
        values = [None if gap else value for value, gap in zip(frame[name].tolist(), gaps.tolist())]
        columns[str(name)] = pl.Series(values, strict=False)
    return pl.DataFrame(columns)


def write_frames(frames: Any, folder: Path) -> Path:
    """Write data frames as Parquet files, so that they are read as files are, and return the path to read.

    Args:
        frames: A data frame of molecules, ``(nodes, edges)``, or ``{"graphs": ..., "nodes": ..., "edges": ...}``.
        folder: Folder to write to.

    Example:
        >>> write_frames(pl.DataFrame({"smiles": ["CO"]}), getfixture("tmp_path")).name
        'X.parquet'
    """
    if is_frame(frames):
        path = folder / "X.parquet"
        to_polars(frames).write_parquet(path)
        return path
    if isinstance(frames, tuple) and len(frames) == 2:
        frames = dict(zip(("nodes", "edges"), frames))
    if not isinstance(frames, Mapping) or not all(map(is_frame, frames.values())):
        raise TypeError(
            "new data must be a path, a data frame of molecules, data frames (nodes, edges), a dictionary of the data "
            f"frames nodes, edges and graphs, a torch_geometric Data or a GraphDataset, got {type(frames).__name__}"
        )
    for stem, frame in frames.items():
        to_polars(frame).write_parquet(folder / f"{stem}.parquet")
    return folder
