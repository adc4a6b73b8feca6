"""Which column of a file holds molecules, and which are to be predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from tgnn.data.build.molecules import featurize
from tgnn.data.tables.ids import as_ids
from tgnn.data.tables.schema import suggestion
from tgnn.data.tables.table_file import TableData
from tgnn.data.validation.report import Report, named

_SMILES = ("smiles", "canonical_smiles", "smi")
_IDS = ("id", "mol_id", "name")
_TARGET = ("label", "y", "target", "class")
_TRIED = 20
"""So many molecules of a column are tried."""


@dataclass(frozen=True)
class Columns:
    """The columns of a file of molecules."""

    smiles: str
    targets: list[str]
    ids: str | None = None
    split: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def find_columns(
    table: TableData, report: Report, smiles: str | None, targets: Sequence[str], ids: str | None, split: str | None
) -> Columns:
    """What is given, and what can be told for the rest; no molecules at all are an error.

    Args:
        table: All columns as text, or with the types of a Parquet file.
        report: Takes what is odd.
        smiles: What the user says.
        targets: What the user says.
        ids: What the user says.
        split: What the user says.
    """
    columns = table.frame.columns
    said = [name for name in (smiles, *targets, ids, split) if name is not None]
    for name in said:
        if name not in columns:
            report.add(table.places.finding("error", "columns", f"no column {name!r}; {suggestion(name, columns)}"))
    left = [name for name in columns if name not in said]
    smiles = smiles or _called(left, _SMILES) or _readable(table, left)
    if smiles is None:
        text = f"none of the columns {named(columns)} has molecules in it: call the one with SMILES 'smiles'"
        report.fail(table.places.finding("error", "columns", text))
    left = [name for name in left if name != smiles]
    ids = ids or _called(left, _IDS)
    split = split or _called(left, ("split",))
    left = [name for name in left if name not in (ids, split)]
    found = list(targets) or _targets(table, left)
    if not targets:
        text = f"to be predicted: {named(found)}" if found else "there is no column of numbers to predict"
        report.add(table.places.finding("note" if found else "warning", "targets", text))
    unused = [name for name in left if name not in found]
    if unused:
        report.add(table.places.finding("note", "ignored-column", f"not used: {named(unused)}"))
    return Columns(smiles, found, ids, split)


def _called(columns: list[str], names: tuple[str, ...]) -> str | None:
    return next((column for name in names for column in columns if column.lower() == name), None)


def _readable(table: TableData, columns: list[str]) -> str | None:
    """The column whose first words all are molecules; of several, that with the longest: CI and N are words as well."""
    lengths: dict[str, int] = {}
    for column in columns:
        values = table.frame[column].drop_nulls().head(_TRIED)
        if values.dtype == pl.String and len(values) and not featurize(values.to_list())[1]:
            lengths[column] = int(values.str.len_chars().sum())
    return max(lengths, key=lengths.__getitem__, default=None)


def _targets(table: TableData, columns: list[str]) -> list[str]:
    """One that is called so; else all with numbers, but for whole numbers that are all different: those are ids."""
    called = _called(columns, _TARGET)
    if called is not None:
        return [called]
    return [column for column in columns if _has_numbers(table.frame[column])]


def _has_numbers(values: pl.Series) -> bool:
    if values.dtype.is_nested() or values.dtype.is_temporal():
        return False
    numbers = values.cast(pl.Float64, strict=False)
    if numbers.null_count() > values.null_count() or numbers.null_count() == len(numbers):
        return False
    return not (as_ids(values).dtype == pl.Int64 and len(values) > 10 and values.n_unique() == len(values))
