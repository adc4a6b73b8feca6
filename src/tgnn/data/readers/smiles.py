"""Reader of CSV and Parquet files of molecules: a column of SMILES, targets, and optionally ids and a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tgnn.data.build.molecules import featurize
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.graph_statistics import graph_statistics
from tgnn.data.readers.smiles_columns import SmilesColumns, find_columns
from tgnn.data.splits import labeled_mask, split_codes
from tgnn.data.tables.ids import as_ids
from tgnn.data.tables.labels import read_labels, read_split
from tgnn.data.tables.read_folder import VERSION
from tgnn.data.tables.schema import make_schema
from tgnn.data.tables.table_file import Table, examples, open_table_file
from tgnn.data.tensors import keep_ids
from tgnn.data.validation.report import ValidationReport
from tgnn.utils.progress import bar


def read_smiles_csv(
    path: Path | str,
    *,
    smiles: str | None = None,
    targets: Sequence[str] | None = None,
    ids: str | None = None,
    split: str | None = None,
    task: str | None = None,
    skip_unreadable: bool = False,
    encoding: Mapping[str, Any] | None = None,
) -> tuple[GraphDataset, ValidationReport]:
    r"""Read molecules as graphs with the atom and bond features of the Open Graph Benchmark.

    Args:
        path: Path of a ``.csv``, ``.tsv`` (also gzipped) or ``.parquet`` file.
        smiles: Column of SMILES. Default: ``smiles``, else the column that RDKit can parse.
        targets: Columns to predict. Default: ``label``, ``y``, ``target`` or ``class``, else all numeric columns.
        ids: Column of ids. Default: ``id``, ``mol_id`` or ``name``, else the row number, starting at 0.
        split: Column with ``train``, ``val`` and ``test``. Default: ``split``.
        task: ``"classes"``, ``"multi-label"`` or ``"regression"``. Default: inferred from the targets.
        skip_unreadable: Whether to skip molecules that RDKit cannot parse. Otherwise they are an error.
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
        columns = find_columns(table, smiles, targets or (), ids, split)
    else:
        columns = _known_columns(table, encoding)
    single = {"molecule": columns.smiles, "id": columns.ids, "split": columns.split}
    table.check_scalar_columns({role: column for role, column in single.items() if column is not None})
    report.raise_for_errors()

    text = table.frame[columns.smiles].cast(pl.String).fill_null("").to_list()
    with bar("converting molecules to graphs", len(text)) as tick:
        arrays, unreadable = featurize(text, tick)
    readable = np.ones(len(text), dtype=bool)
    readable[unreadable] = False
    _report_unreadable(table, columns.smiles, readable, skip_unreadable)
    _report_duplicates(table, columns.smiles)
    y, target = _labels(table, columns, task, encoding)
    counted = {name: array[readable] for name, array in arrays.items() if name in ("num_nodes", "num_edges")}
    packed: dict[str, object] = {**arrays, **counted}
    if y is not None:
        packed["y"] = y[torch.from_numpy(readable)].numpy()
    if columns.split is not None and encoding is None:
        stored_split = read_split(table, columns.split, None if y is None else labeled_mask(y))
        if stored_split is not None:
            packed["split"] = split_codes(stored_split)[readable]
    names = pl.Series(np.arange(len(text))) if columns.ids is None else as_ids(table.frame[columns.ids])
    _check_ids(table, names)
    report.statistics = graph_statistics(packed, target)
    report.raise_for_errors()
    made = {"version": VERSION, "kind": "smiles", "columns": columns.to_dict(), "target": target}
    kept = [molecule for molecule, ok in zip(text, readable) if ok]
    graph_id = keep_ids(names.filter(pl.Series(readable)))
    used = made if encoding is None else dict(encoding)
    return GraphDataset(packed, graph_id=graph_id, encoding=used, smiles=kept), report


def _check_ids(table: Table, ids: pl.Series) -> None:
    table.error("missing-id", "the molecule has no id", ids.is_null())
    duplicates = ~ids.is_first_distinct() & ids.is_not_null()
    table.warning("duplicate-id", f"duplicate id: {examples(ids, duplicates)}", duplicates)


def _known_columns(table: Table, encoding: Mapping[str, Any]) -> SmilesColumns:
    if encoding.get("version") != VERSION or encoding.get("kind") != "smiles":
        raise ValueError(f"the encoding is for {encoding.get('kind')!r} data, but the file contains SMILES")
    columns = SmilesColumns(**encoding["columns"])
    if columns.smiles not in table.frame.columns:
        raise ValueError(f"{table.name} has no column {columns.smiles!r} of SMILES")
    present = set(table.frame.columns)  # new molecules need not have targets
    return SmilesColumns(
        columns.smiles,
        columns.targets if set(columns.targets) <= present else [],
        columns.ids if columns.ids in present else None,
        columns.split if columns.split in present else None,
    )


def _report_unreadable(table: Table, column: str, readable: np.ndarray, skip: bool) -> None:
    if readable.all():
        return
    message = "RDKit cannot parse the molecule " + repr(table.frame[column].filter(pl.Series(~readable))[0])
    if skip:
        table.warning("unreadable-molecule", f"{message}; skipped", ~readable)
    else:
        message += "; correct it or remove its row (in Python, skip_unreadable=True skips such molecules)"
        table.error("unreadable-molecule", message, ~readable)


def _report_duplicates(table: Table, column: str) -> None:
    values = table.frame[column]
    message = "duplicate molecule; a random split may put it into both the training and the test set"
    table.warning("duplicate-molecule", message, ~values.is_first_distinct() & values.is_not_null())


def _labels(
    table: Table, columns: SmilesColumns, task: str | None, encoding: Mapping[str, Any] | None
) -> tuple[Tensor | None, dict[str, Any] | None]:
    if not columns.targets:
        return None, None
    known = None if encoding is None else encoding["target"]
    return read_labels(table, columns.targets, make_schema({"task": task}), known)
