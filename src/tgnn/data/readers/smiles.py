"""Reader of CSV and Parquet files of molecules: a column of SMILES, targets, and optionally ids and a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from tgnn.data.build.molecules import featurize, parse_smiles, silence_rdkit
from tgnn.data.graph_dataset import GraphDataset, UnreadableRow
from tgnn.data.splits import labeled_mask, split_codes
from tgnn.data.tables.columns import like_id
from tgnn.data.tables.ids import as_ids
from tgnn.data.tables.labels import (
    graph_statistics,
    missing_labels_text,
    read_labels,
    read_split,
    warn_of_missing_label,
)
from tgnn.data.tables.read_folder import VERSION
from tgnn.data.tables.schema import make_schema, suggestion
from tgnn.data.tables.table_file import Table, examples, open_table_file
from tgnn.data.tensors import keep_ids
from tgnn.data.validation.report import ValidationReport, quoted

_SMILES = ("smiles", "canonical_smiles", "smi")
_TARGET = ("label", "y", "target", "class")
_TRIED = 20
"""Number of values of a column that RDKit tries to parse."""


def read_smiles_csv(
    path: Path | str,
    *,
    smiles: str | None = None,
    targets: Sequence[str] | None = None,
    ids: str | None = None,
    split: str | None = None,
    task: str | None = None,
    strict: bool = False,
    use_stored_split: bool = False,
    require_labels: bool = False,
    encoding: Mapping[str, Any] | None = None,
) -> tuple[GraphDataset, ValidationReport]:
    r"""Read molecules as graphs with the atom and bond features of the Open Graph Benchmark.

    Args:
        path: Path of a ``.csv``, ``.tsv`` (also gzipped) or ``.parquet`` file.
        smiles: Column of SMILES. Default: ``smiles``, else the column that RDKit can parse.
        targets: Columns to predict. Default: ``label``, ``y``, ``target`` or ``class``, else all numeric columns.
        ids: Column of ids. Default: ``id``, ``name`` or the first column such as ``mol_id``, else the row number,
            starting at 0.
        split: Column with ``train``, ``val`` and ``test``. Default: ``split``.
        task: ``"classification"``, ``"multi-label"`` or ``"regression"``. Default: inferred from the targets.
        strict: Whether a molecule that RDKit cannot parse is an error. Otherwise it is skipped with a warning, and
            listed in ``graphs.unreadable``.
        use_stored_split: Whether to read the split although an encoding is given.
        require_labels: Whether missing columns of targets are an error although an encoding is given.
        encoding: ``graphs.encoding`` of data that was read before. Classes then get the same indices.

    Returns:
        The graphs, and the report on the contents and problems of the file.

    Shapes:
        - ``x`` ``[atoms, 9]``; ``edge_attr`` ``[2 * bonds, 3]``; ``y`` ``[G]``, or ``[G, targets]`` with NaN for
          missing values; ``None`` without targets

    Example:
        >>> path = getfixture("tmp_path") / "molecules.csv"
        >>> _ = path.write_text("smiles,solubility\nCO,1.2\nc1ccccc1,-2.1\n")
        >>> graphs, report = read_smiles_csv(path)
        >>> graphs[1].x.shape, graphs.y.tolist()
        (torch.Size([6, 9]), [1.2..., -2.0...])
    """
    path = Path(path)
    report = ValidationReport(str(path), "smiles")
    source = open_table_file(path, report)
    table = source.read(text=source.columns)
    if encoding is None:
        columns = _find_columns(table, smiles, targets or (), ids, split)
    else:
        columns = _known_columns(table, encoding, targets or (), ids, require_labels)
    roles = {"smiles": "smiles", "id": "ids", "label": "targets", "split": "split"}
    report.columns = {role: columns[key] for role, key in roles.items() if columns[key] is not None}
    single = {"molecule": columns["smiles"], "id": columns["ids"], "split": columns["split"]}
    table.check_scalar_columns({role: column for role, column in single.items() if column is not None})
    report.raise_for_errors()

    molecules = table.frame[columns["smiles"]]
    text = molecules.cast(pl.String).fill_null("").to_list()
    arrays, unreadable = featurize(text)
    readable = np.ones(len(text), dtype=bool)
    readable[unreadable] = False
    _report_unreadable(table, molecules, ~readable, is_error=strict or not readable.any())
    if encoding is None:
        message = "duplicate molecule; a random split may put it into both the training and the test set"
        table.warning("duplicate-molecule", message, _duplicates(molecules) & pl.Series(readable))
    names = pl.Series(np.arange(len(text))) if columns["ids"] is None else as_ids(table.frame[columns["ids"]])
    table.error("missing-id", "the molecule has no id", names.is_null())
    table.warning("duplicate-id", f"duplicate id: {examples(names, _duplicates(names))}", _duplicates(names))

    packed = arrays | {name: arrays[name][readable] for name in ("num_nodes", "num_edges")}
    y, target = None, None
    if columns["targets"]:
        known = None if encoding is None else encoding["target"]
        y, target = read_labels(table, columns["targets"], make_schema({"task": task}), known)
        packed["y"] = y[torch.from_numpy(readable)].numpy()
    if columns["split"] is not None and (encoding is None or use_stored_split):
        stored_split = read_split(table, columns["split"], None if y is None else labeled_mask(y))
        if stored_split is not None:
            packed["split"] = split_codes(stored_split)[readable]
    report.statistics = graph_statistics(packed, target)
    report.raise_for_errors()
    made = {"version": VERSION, "kind": "smiles", "columns": columns, "target": target}
    kept = [molecule for molecule, ok in zip(text, readable) if ok]
    graph_id = keep_ids(names.filter(pl.Series(readable)))
    used = made if encoding is None else dict(encoding)
    graphs = GraphDataset(packed, graph_id=graph_id, encoding=used, smiles=kept)
    places = table.numbers(np.array(unreadable, dtype=np.int64)).tolist()
    graphs.unreadable = [
        UnreadableRow(row, f"{table.unit} {place}", names[row], text[row], None if y is None else y[row])
        for row, place in zip(unreadable, places)
    ]
    return graphs, report


def _report_unreadable(table: Table, molecules: pl.Series, unreadable: np.ndarray, is_error: bool) -> None:
    """Report empty cells, and molecules that RDKit cannot parse, as errors or as warnings."""
    empty = molecules.is_null().to_numpy()
    rows = unreadable & ~empty
    noun = "molecules" if molecules.filter(pl.Series(rows)).n_unique() > 1 else "molecule"
    text = f"RDKit cannot parse the {noun} {examples(molecules, rows)}"
    report = table.error if is_error else table.warning
    advice = "; correct it or remove its row" if is_error else "; skipped"
    report("missing-molecule", f"column {molecules.name!r} is empty{advice}", unreadable & empty)
    report("unreadable-molecule", f"{text}{advice}", rows)


def _duplicates(values: pl.Series) -> pl.Series:
    return ~values.is_first_distinct() & values.is_not_null()


# ---- columns ---------------------------------------------------------------------------------------------------


def _known_columns(
    table: Table, encoding: Mapping[str, Any], targets: Sequence[str], ids: str | None, require_labels: bool
) -> dict[str, Any]:
    """Return the columns of the training data, or the given ones.

    New molecules need not have targets, unless ``require_labels`` is true, and a split.
    """
    if encoding.get("version") != VERSION or encoding.get("kind") != "smiles":
        raise ValueError(f"the encoding is for {encoding.get('kind')!r} data, but the file contains SMILES")
    columns, present = dict(encoding["columns"]), set(table.frame.columns)
    if columns["smiles"] not in present:
        text = (
            f"there is no column {columns['smiles']!r} of SMILES; {suggestion(columns['smiles'], table.frame.columns)}"
        )
        table.fail("columns", text)
    _check_columns(table, [*targets, *([ids] if ids else [])])
    missing = [name for name in columns["targets"] if name not in present]
    if missing and require_labels and not targets:
        table.fail("columns", missing_labels_text(missing, table.frame.columns))
    columns["targets"] = list(targets) or (columns["targets"] if present.issuperset(columns["targets"]) else [])
    columns["ids"] = ids or columns["ids"]
    if columns["ids"] not in present:
        used = (columns["smiles"], columns["split"], *columns["targets"])
        columns["ids"] = _find_id([name for name in table.frame.columns if name not in used])
    return columns | ({} if columns["split"] in present else {"split": None})


def _find_columns(
    table: Table, smiles: str | None, targets: Sequence[str], ids: str | None, split: str | None
) -> dict[str, Any]:
    """Infer the columns that are not given. A table without molecules is an error."""
    columns = table.frame.columns
    given = [name for name in (smiles, *targets, ids, split) if name is not None]
    _check_columns(table, given)
    left = [name for name in columns if name not in given]
    smiles = smiles or _find_by_name(left, _SMILES) or _find_parseable(table, left)
    if smiles is None:
        text = f"none of the columns {quoted(columns)} contains SMILES; name the column of SMILES 'smiles'"
        table.fail("columns", text)
    left = [name for name in left if name != smiles]
    ids = ids or _find_id(left)
    split = split or _find_by_name(left, ("split",))
    left = [name for name in left if name not in (ids, split)]
    selected = list(targets) or _targets(table, left)
    if not targets:
        if selected:
            table.note("targets", f"targets: {quoted(selected)}")
        else:
            warn_of_missing_label(table, left)
    unused = [name for name in left if name not in selected]
    if unused:
        table.note("ignored-column", f"columns not used: {quoted(unused)}")
    return {"smiles": smiles, "targets": selected, "ids": ids, "split": split}


def _check_columns(table: Table, given: Sequence[str]) -> None:
    for name in given:
        if name not in table.frame.columns:
            table.error("columns", f"there is no column {name!r}; {suggestion(name, table.frame.columns)}")
    table.report.raise_for_errors()


def _find_id(columns: list[str]) -> str | None:
    return _find_by_name(columns, ("id", "name")) or next(filter(like_id, columns), None)


def _find_by_name(columns: list[str], names: tuple[str, ...]) -> str | None:
    return next((column for name in names for column in columns if column.lower() == name), None)


def _find_parseable(table: Table, columns: list[str]) -> str | None:
    """Find the column whose first values RDKit can parse. The longest wins, because CI and N are also molecules."""
    lengths: dict[str, int] = {}
    with silence_rdkit():
        for column in columns:
            values = table.frame[column].drop_nulls().head(_TRIED)
            if values.dtype == pl.String and len(values) and all(parse_smiles(text) is not None for text in values):
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
