"""A CSV or Parquet file of molecules: a column of SMILES, what to predict, and perhaps ids and a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tgnn.data.build.molecules import featurize
from tgnn.data.readers.named_graphs import NamedGraphs, statistics_of
from tgnn.data.readers.smiles_columns import Columns, find_columns
from tgnn.data.readers.word_ids import keep_ids
from tgnn.data.split_protocols import labelled
from tgnn.data.splits import parts_of
from tgnn.data.tables.folder_reader import VERSION
from tgnn.data.tables.ids import as_ids
from tgnn.data.tables.labels import read_labels
from tgnn.data.tables.schema import make_schema
from tgnn.data.tables.split_column import read_split
from tgnn.data.tables.table_file import TableData, open_table_file
from tgnn.data.validation.report import Report, named
from tgnn.data.validation.value_checks import check_labels
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
) -> tuple[NamedGraphs, Report]:
    r"""Molecules with the atom and bond features of the Open Graph Benchmark.

    Args:
        path: The file, ``.csv``, ``.tsv`` (also gzipped) or ``.parquet``.
        smiles: The column of SMILES. Default: ``smiles``, else the one that RDKit can read.
        targets: The columns to predict. Default: ``label``, ``y``, ``target`` or ``class``, else all numbers.
        ids: The column of ids. Default: ``id``, ``mol_id`` or ``name``, else the number of the row, from 0.
        split: The column with ``train``, ``val`` and ``test``. Default: ``split``.
        task: ``"classes"``, ``"multi-label"`` or ``"regression"``. Default: as the targets look.
        skip_unreadable: Whether to leave out what RDKit cannot read; else it is an error.
        encoding: ``graphs.encoding`` of what was read before: classes are then numbered as there.

    Shapes:
        - ``x`` ``[atoms, 9]``; ``edge_attr`` ``[2 * bonds, 3]``; ``y`` ``[G]``, or ``[G, targets]`` with NaN for what
          is missing; ``None`` without targets

    Example:
        >>> path = getfixture("tmp_path") / "molecules.csv"
        >>> _ = path.write_text("smiles,solubility\nCO,1.2\nc1ccccc1,-2.1\n")
        >>> graphs, report = read_smiles_csv(path)
        >>> graphs[1].x.shape, graphs.y.tolist()
        (torch.Size([6, 9]), [1.2..., -2.0...])
    """
    path = Path(path)
    report = Report(str(path), "smiles")
    source = open_table_file(path, report)
    table = source.read(source.columns, report)
    if encoding is None:
        columns = find_columns(table, report, smiles, targets or (), ids, split)
    else:
        columns = _known_columns(table, encoding)
    single = {"molecule": columns.smiles, "id": columns.ids, "split": columns.split}
    table.check_scalar_columns({role: column for role, column in single.items() if column is not None}, report)
    report.raise_for_errors()

    text = table.frame[columns.smiles].cast(pl.String).fill_null("").to_list()
    with bar("molecules to graphs", len(text)) as tick:
        arrays, unreadable = featurize(text, tick)
    readable = np.ones(len(text), dtype=bool)
    readable[unreadable] = False
    _tell_unreadable(table, columns.smiles, readable, skip_unreadable, report)
    _tell_doubles(table, columns.smiles, report)
    y, target = _labels(table, columns, task, encoding, report)
    counted = {name: array[readable] for name, array in arrays.items() if name in ("num_nodes", "num_edges")}
    packed: dict[str, object] = {**arrays, **counted}
    if y is not None:
        packed["y"] = y[torch.from_numpy(readable)].numpy()
    if columns.split is not None and encoding is None:
        found = read_split(table, columns.split, None if y is None else labelled(y), report)
        if found is not None:
            packed["split"] = parts_of(found)[readable]
    names = pl.Series(np.arange(len(text))) if columns.ids is None else as_ids(table.frame[columns.ids])
    _check_ids(table, names, report)
    report.statistics = statistics_of(packed, target)
    report.raise_for_errors()
    made = {"version": VERSION, "kind": "smiles", "columns": columns.to_dict(), "target": target}
    kept = [one for one, ok in zip(text, readable) if ok]
    graph_id = keep_ids(names.filter(pl.Series(readable)))
    return NamedGraphs(packed, graph_id, made if encoding is None else dict(encoding), kept), report


def _check_ids(table: TableData, ids: pl.Series, report: Report) -> None:
    missing = ids.is_null().to_numpy()
    if missing.any():
        report.add(table.places.finding("error", "missing-id", "a molecule without an id", missing))
    again = (~ids.is_first_distinct() & ids.is_not_null()).to_numpy()
    if again.any():
        text = f"an id that was there before: {named(ids.filter(pl.Series(again)).unique(maintain_order=True))}"
        report.add(table.places.finding("warning", "duplicate-id", text, again))


def _known_columns(table: TableData, encoding: Mapping[str, Any]) -> Columns:
    if encoding.get("version") != VERSION or encoding.get("kind") != "smiles":
        raise ValueError(f"the encoding is one for {encoding.get('kind')}, and not of a file of SMILES")
    columns = Columns(**encoding["columns"])
    if columns.smiles not in table.frame.columns:
        raise ValueError(f"{table.name} has no column {columns.smiles!r}, which has the molecules")
    there = set(table.frame.columns)  # new molecules need not have targets
    return Columns(
        columns.smiles,
        columns.targets if set(columns.targets) <= there else [],
        columns.ids if columns.ids in there else None,
        columns.split if columns.split in there else None,
    )


def _tell_unreadable(table: TableData, column: str, readable: np.ndarray, skip: bool, report: Report) -> None:
    if readable.all():
        return
    text = "RDKit cannot read the molecule " + repr(table.frame[column].filter(pl.Series(~readable))[0])
    if skip:
        report.add(table.places.finding("warning", "unreadable-molecule", f"{text}: left out", ~readable))
    else:
        text += ": correct it, or take its line out of the file (in Python, skip_unreadable=True leaves such out)"
        report.add(table.places.finding("error", "unreadable-molecule", text, ~readable))


def _tell_doubles(table: TableData, column: str, report: Report) -> None:
    values = table.frame[column]
    again = (~values.is_first_distinct() & values.is_not_null()).to_numpy()
    if again.any():
        text = "a molecule that was there before: with a drawn split it may be learned and tested"
        report.add(table.places.finding("warning", "duplicate-molecule", text, again))


def _labels(
    table: TableData, columns: Columns, task: str | None, encoding: Mapping[str, Any] | None, report: Report
) -> tuple[Tensor | None, dict[str, Any] | None]:
    if not columns.targets:
        return None, None
    known = None if encoding is None else encoding["target"]
    y, target = read_labels(table, columns.targets, make_schema({"task": task}), report, known)
    report.add(*check_labels(y, table.places, target.get("classes")))
    return y, target
