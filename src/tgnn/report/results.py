"""Results from files that may hold anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from tgnn.experiments.results import CellResult, Result, ResultError, read_result

T = TypeVar("T")


def read_checked(path: Path) -> Result:
    """A result whose every field is of its type. Runs without a score are left out, and their cell says so."""
    try:
        plain = asdict(read_result(path))
    except (RecursionError, UnicodeDecodeError) as error:
        raise ResultError(f"{path} is not a result of `tgnn reproduce`: {error}") from error
    for cell in plain["cells"]:
        cell["series"] = {key: _numbers(values) for key, values in dict(cell["series"] or {}).items()}
        for run in cell["runs"]:
            for key in ("test", "val", "seconds"):
                run[key] = math.nan if run[key] is None else run[key]
    found = typed(Result, plain, path)
    return replace(found, cells=tuple(_with_scores(cell) for cell in found.cells))


def typed(kind: type[T], plain: Mapping[str, Any], path: Path) -> T:
    """What a file holds, every field of its type."""
    try:
        return TypeAdapter(kind).validate_python(plain)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultError(f"{path} is damaged: {where}: {first['msg']}") from error


def _numbers(values: Any) -> Any:
    return [math.nan if value is None else value for value in values] if isinstance(values, (list, tuple)) else values


def _with_scores(cell: CellResult) -> CellResult:
    kept = tuple(run for run in cell.runs if math.isfinite(run.test))
    missing = len(cell.runs) - len(kept)
    if not missing:
        return cell
    words = f"{missing} of {len(cell.runs)} runs have no score"
    return replace(cell, runs=kept, failed=f"{cell.failed}; {words}" if cell.failed else words)
