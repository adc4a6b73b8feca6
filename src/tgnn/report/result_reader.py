"""Read and validate result files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from tgnn.experiments.results import CellResult, Result, ResultFileError, read_result

T = TypeVar("T")


def read_valid_result(path: Path) -> Result:
    """Read a result and check the type of every field. Runs without a score are left out and reported in their cell."""
    try:
        plain = asdict(read_result(path))
    except (RecursionError, UnicodeDecodeError) as error:
        raise ResultFileError(f"{path} is not a result of `tgnn reproduce`: {error}") from error
    for cell in plain["cells"]:
        cell["series"] = {key: _numbers(values) for key, values in dict(cell["series"] or {}).items()}
        for run in cell["runs"]:
            for key in ("test", "val", "seconds"):
                run[key] = math.nan if run[key] is None else run[key]
    result = validate_fields(Result, plain, path)
    return replace(result, cells=tuple(_with_scores(cell) for cell in result.cells))


def validate_fields(data_class: type[T], plain: Mapping[str, Any], path: Path) -> T:
    """Build a data class from the contents of a file and check the type of every field."""
    try:
        return TypeAdapter(data_class).validate_python(plain)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultFileError(f"{path} is damaged: {where}: {first['msg']}") from error


def _numbers(values: Any) -> Any:
    return [math.nan if value is None else value for value in values] if isinstance(values, (list, tuple)) else values


def _with_scores(cell: CellResult) -> CellResult:
    kept = tuple(run for run in cell.runs if math.isfinite(run.test))
    missing = len(cell.runs) - len(kept)
    if not missing:
        return cell
    reason = f"{missing} of {len(cell.runs)} runs have no score"
    return replace(cell, runs=kept, failed=f"{cell.failed}; {reason}" if cell.failed else reason)
