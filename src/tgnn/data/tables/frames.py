"""Tables in memory: pandas and polars data frames."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from tgnn.data.validation.report import ValidationReport

_TABLES = ("nodes", "edges", "graphs")
FOLDER = "data_frames"
"""Folder in which a run stores the data frames that it was trained on."""
_SINGLE = "molecules"
"""Name of the table of a single data frame."""


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


def are_frames(value: Any) -> bool:
    """Return whether an object has the form of data frames: one data frame, a pair or a dictionary."""
    return is_frame(value) or isinstance(value, Mapping) or (isinstance(value, tuple) and len(value) == 2)


def to_tables(frames: Any) -> dict[str, Any]:
    """Return data frames by the names of their tables: ``nodes``, ``edges`` and ``graphs``, or ``molecules``.

    Args:
        frames: A data frame of molecules, ``(nodes, edges)``, or ``{"graphs": ..., "nodes": ..., "edges": ...}``.

    Example:
        >>> list(to_tables((pl.DataFrame(), pl.DataFrame())))
        ['nodes', 'edges']
    """
    if is_frame(frames):
        return {_SINGLE: frames}
    tables = dict(frames if isinstance(frames, Mapping) else zip(_TABLES, frames))
    for name, frame in tables.items():
        if name not in _TABLES:
            raise ValueError(f"{name!r} is not the name of a table. The names are nodes, edges and graphs.")
        if not is_frame(frame):
            raise TypeError(
                f"`{name}` must be a pandas or polars data frame, got {type(frame).__name__}. Arrays and lists are for "
                "the estimators, such as tgnn.NodeClassifier."
            )
    needed = ("nodes", "edges") if "graphs" in tables else ("edges",)
    if missing := [name for name in needed if name not in tables]:
        raise ValueError(
            f"The data frame `{missing[0]}` is missing. The data frames are {', '.join(tables) or 'none'}."
        )
    return tables


def write_frames(frames: Any, folder: Path) -> Path:
    """Write data frames as Parquet files, so that they are read as files are, and return the path to read.

    Args:
        frames: Data frames, as :func:`to_tables` takes them.
        folder: Folder to write to.

    Example:
        >>> write_frames(pl.DataFrame({"smiles": ["CO"]}), getfixture("tmp_path")).name
        'molecules.parquet'
    """
    tables = to_tables(frames)
    for name, frame in tables.items():
        to_polars(frame).write_parquet(folder / f"{name}.parquet")
    return folder / f"{_SINGLE}.parquet" if _SINGLE in tables else folder


def name_frames(report: ValidationReport) -> ValidationReport:
    """Return a report on the files of :func:`write_frames` that names the data frames instead of the files."""
    names = {f"{name}.parquet": name for name in _TABLES} | {f"{_SINGLE}.parquet": "the data frame"}
    findings = []
    for finding in report.findings:
        message = finding.message
        for file, name in names.items():
            message = message.replace(file, name)
        findings.append(replace(finding, file=names.get(finding.file, finding.file), message=message))
    path = "The data frame" if report.format == "smiles" else "The data frames"
    return replace(report, path=path, findings=findings)


def log_warnings(report: ValidationReport, path: Path) -> None:
    """Log the warnings about data that was read from a path. Stored data frames are named as those in memory."""
    if FOLDER in (path.name, path.parent.name):
        name_frames(report).log_warnings(name="")
    else:
        report.log_warnings()
