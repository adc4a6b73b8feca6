"""Find the columns of SMILES, targets, ids and split in a table of molecules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from tgnn.data.build.molecules import featurize
from tgnn.data.tables.ids import as_ids
from tgnn.data.tables.schema import suggestion
from tgnn.data.tables.table_file import Table
from tgnn.data.validation.report import quoted

_SMILES = ("smiles", "canonical_smiles", "smi")
_IDS = ("id", "mol_id", "name")
_TARGET = ("label", "y", "target", "class")
_TRIED = 20
"""Number of values of a column that RDKit tries to parse."""


@dataclass(frozen=True)
class SmilesColumns:
    """The columns of a table of molecules."""

    smiles: str
    targets: list[str]
    ids: str | None = None
    split: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the columns as built-in types for JSON."""
        return asdict(self)


def find_columns(
    table: Table,
    smiles: str | None,
    targets: Sequence[str],
    ids: str | None,
    split: str | None,
) -> SmilesColumns:
    """Infer the columns that are not given. A table without molecules is an error.

    Args:
        table: The table. CSV columns are text, Parquet columns have their own types.
        smiles: Column of SMILES, if given.
        targets: SmilesColumns to predict, if given.
        ids: Column of ids, if given.
        split: Column of the split, if given.
    """
    columns = table.frame.columns
    given = [name for name in (smiles, *targets, ids, split) if name is not None]
    for name in given:
        if name not in columns:
            message = f"there is no column {name!r}; {suggestion(name, columns)}"
            table.error("columns", message)
    left = [name for name in columns if name not in given]
    smiles = smiles or _find_by_name(left, _SMILES) or _find_parseable(table, left)
    if smiles is None:
        text = f"none of the columns {quoted(columns)} contains SMILES; name the column of SMILES 'smiles'"
        table.fail("columns", text)
    left = [name for name in left if name != smiles]
    ids = ids or _find_by_name(left, _IDS)
    split = split or _find_by_name(left, ("split",))
    left = [name for name in left if name not in (ids, split)]
    selected = list(targets) or _targets(table, left)
    if not targets:
        if selected:
            table.note("targets", f"targets: {quoted(selected)}")
        else:
            table.warning("targets", "there is no numeric column to predict")
    unused = [name for name in left if name not in selected]
    if unused:
        table.note("ignored-column", f"columns not used: {quoted(unused)}")
    return SmilesColumns(smiles, selected, ids, split)


def _find_by_name(columns: list[str], names: tuple[str, ...]) -> str | None:
    return next((column for name in names for column in columns if column.lower() == name), None)


def _find_parseable(table: Table, columns: list[str]) -> str | None:
    """Find the column whose first values RDKit can parse. The longest wins, because CI and N are also molecules."""
    lengths: dict[str, int] = {}
    for column in columns:
        values = table.frame[column].drop_nulls().head(_TRIED)
        if values.dtype == pl.String and len(values) and not featurize(values.to_list())[1]:
            lengths[column] = int(values.str.len_chars().sum())
    return max(lengths, key=lengths.__getitem__, default=None)


def _targets(table: Table, columns: list[str]) -> list[str]:
    """Find a column with the name of a target, else all numeric columns except distinct integers, which are ids."""
    target = _find_by_name(columns, _TARGET)
    if target is not None:
        return [target]
    return [column for column in columns if _is_numeric(table.frame[column])]


def _is_numeric(values: pl.Series) -> bool:
    if values.dtype.is_nested() or values.dtype.is_temporal():
        return False
    numbers = values.cast(pl.Float64, strict=False)
    if numbers.null_count() > values.null_count() or numbers.null_count() == len(numbers):
        return False
    return not (as_ids(values).dtype == pl.Int64 and len(values) > 10 and values.n_unique() == len(values))
