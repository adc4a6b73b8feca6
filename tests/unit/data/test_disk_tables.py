"""Conversion of tables in blocks gives the graph, the warnings and the errors of the reader in memory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.unit.data.disks import same
from tests.unit.data.tables import write

from tgnn.data.convert import convert
from tgnn.data.on_disk import DiskGraph
from tgnn.data.on_disk.from_tables import stream_tables
from tgnn.data.readers.detect import read_path
from tgnn.data.tables.read_folder import read_table
from tgnn.data.tables.table_file import BLOCK_CELLS
from tgnn.data.validation.report import DataError

NODES = "id,age,height,label,split\nann,31,1.5,red,train\nbob,27.5,1e2,blue,val\ncarol,45,-3,red,test\ndan,8,0,,\n"
EDGES = "source,target\nann,bob\nbob,carol\nann,bob\ncarol,carol\nbob,ann\n"
NUMBERED = "node,a,b,c,y\n" + "".join(f"{7 * i},{i / 3},{i % 5},{i * i},{i % 4}\n" for i in range(60))
LINKS = "src;dst\n" + "".join(f"{7 * (i * i % 60)};{7 * (i * 31 % 60)}\n" for i in range(250))
QUOTED = 'id,a,label\n"x, y",1,"one ""and"" two"\n"z\nz",2,b\n\nw,3,b\n"007",4,\n'
BLANK = "id,f,label\n\n1,1.5,a\n\n2,2,b" + 90 * "\n" + "3,1,a\n\n"
COUNTER = "id,a,b\n" + "".join(f"{i},{i + 5},{i % 3}\n" for i in range(12))
WIDE = "".join(f"{i},{','.join(map(str, row))}\n" for i, row in enumerate(np.eye(50, dtype=int)))
EDGE = "s,t\n1,2\n"
CASES: dict[str, tuple[str | None, str, str]] = {
    "string ids": (NODES, EDGES, ""),
    "integer ids": (NUMBERED, LINKS, ""),
    "directed": (NODES, EDGES, "undirected: false"),
    "self-loops": (NODES, EDGES, "self_loops: keep"),
    "unknown nodes dropped": (NUMBERED, "a,b\n7,14\n014,21\n21,x\n7,9999\n", "dangling: drop"),
    "quoted": (QUOTED, 'source,target\n"x, y",w\n\n"z\nz",007\nw,"x, y"\n\n', ""),
    "blank lines": (BLANK, 'source,target\r\n\r\n1,2\r\n\r\n\r\n"2",3\r\n\r', ""),
    "blank lines only": (NUMBERED, "source,target\n\n", ""),
    "edges only": (None, LINKS, ""),
    "edges only, string ids": (None, "source,target\n9,10\n10,x\n9,1\n", ""),
    "mean filled": ("id,a,b\n1,2,\n2,,NA\n3,4,5\n", EDGE, "fill: mean"),
    "7 filled": ("id,a,b\n1,2,\n2,,5\n", EDGE, "fill: 7"),
    "large": ("id,a,pay\n1,2,1000\n2,5,3000\n3,4,\n4,1,1000\n5,1,3000\n", EDGE, "fill: mean"),
    "large, not standardized": ("id,a,pay\n1,2,1000\n2,5,3000\n", EDGE, "standardize: false"),
    "large, 0 filled": ("id,a,pay\n1,2,1000\n2,5,3000\n3,4,\n4,1,NA\n5,1,4000\n", EDGE, "fill: 0"),
    "all standardized": ("id,a\n1,2\n2,4\n3,2\n4,4\n", EDGE, "standardize: true"),
    "empty columns": ("id,a,b,c\n1,,2,\n2,,3,\n", EDGE, ""),
    "numeric but empty": ("id,a,b\n1,,2\n2,,3\n", EDGE, "{fill: 1, nodes: {features: {a: numeric}}}"),
    "row counter": (COUNTER, EDGE, ""),
    "sparse": (f"id,{','.join(f'f{i}' for i in range(50))}\n{WIDE}", EDGE, ""),
    "regression": ("id,a,y\n1,1,0.5\n2,5,\n3,2,1.5\n", EDGE, ""),
    "multi-label": ("id,a,p,q\n1,1,0,1\n2,5,,1\n3,2,1,0\n", EDGE, "nodes: {label: [p, q]}"),
    "ignored column": ("id,a,name\n1,1,Ann\n2,5,Bob\n", EDGE, "nodes: {features: {name: ignore}}"),
    "no features": ("id,label\n1,a\n2,b\n", EDGE, ""),
    "no edges": ("id,a\n1,2\n2,3\n", "s,t\n", ""),
}


def rounded(encoding: dict[str, Any]) -> Any:
    """Round means, which differ in their last digits if they are computed in blocks."""
    return json.loads(json.dumps(encoding), parse_float=lambda digits: round(float(digits), 9))


def compare(folder: Path, out: Path, **options: object) -> DiskGraph:
    data, expected = read_table(folder)
    report = stream_tables(folder, out, **options)
    graph = DiskGraph(out)
    same(graph.to_memory(), data)
    assert rounded(graph.encoding) == rounded(data.encoding)
    assert report.statistics["edges"] == data.num_edges
    warnings, expected_warnings = (
        sorted(str(f) for f in findings if f.level == "warning" and f.code != "duplicate-edge")
        for findings in (report.findings, expected.findings)
    )
    assert warnings == expected_warnings
    return graph


@pytest.mark.parametrize("block", [BLOCK_CELLS, 40, 8])
@pytest.mark.parametrize("case", CASES)
def test_blocks_give_the_same_graph(tmp_path, case, block):
    nodes, edges, schema = CASES[case]
    write(tmp_path, nodes_csv=nodes, edges_csv=edges, schema_yaml=schema)
    graph = compare(tmp_path, tmp_path / "graph", block_cells=block)
    assert graph.encoding["sparse"] == (case == "sparse")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("block", [BLOCK_CELLS, 16])
def test_parquet_with_lists_and_gzipped_text(tmp_path, block):
    random = np.random.default_rng(0)
    nodes = pl.DataFrame(
        {
            "id": [f"n{i}" for i in range(100)],
            "place": (random.standard_normal((100, 2)) * [1, 1e6]).tolist(),
            "embedding": random.standard_normal((100, 5)).tolist(),
            "flag": random.random(100) > 0.5,
            "count": random.integers(0, 9, 100),
            "label": pl.Series([f"c{i % 3}" for i in range(100)], dtype=pl.Categorical),
        }
    )
    nodes.write_parquet(tmp_path / "nodes.parquet")
    lines = "".join(f"n{a},n{b}\n" for a, b in random.integers(0, 100, (500, 2)))
    (tmp_path / "edges.csv.gz").write_bytes(gzip.compress(f"source,target\n{lines}".encode()))
    graph = compare(tmp_path, tmp_path / "graph", block_cells=block)
    assert graph.x.shape == (100, 9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv.gz", "graph", "nodes.parquet"]
    nodes.with_columns(day=pl.date(2020, 1, 1)).write_parquet(tmp_path / "nodes.parquet")
    with pytest.raises(DataError, match="column 'day' is not numeric"):
        stream_tables(tmp_path, tmp_path / "graph", overwrite=True)


FEW = "id,a\n1,2\n2,3\n"


@pytest.mark.parametrize(
    ("nodes", "edges", "schema", "message"),
    [
        ("id,town\n1,Rome\n2,Oslo\n", EDGE, "", "column 'town' is not numeric, but tables larger than memory"),
        (FEW, EDGE, "nodes: {features: {a: categorical}}", "column 'a' is not numeric"),
        (FEW, "s,t,weight\n1,2,1\n", "", "edges.csv has the columns weight, but a graph on disk cannot store edge"),
        (FEW, "s,t\n1,eve\n", "", "unknown node 'eve', not in nodes.csv"),
        (FEW, "s,t\n1,\n", "", "line 2: the source or the target is missing"),
        ("id,a\n1,2\n1,3\n", "s,t\n1,1\n", "", "duplicate node id: '1'"),
        ("id,a\n1,2\n2,\n", EDGE, "fill: null", "line 3: column 'a' has a missing number"),
        ("id,a\n1,2\n2,x\n3,4\n", EDGE, "", "line 3: column 'a' is numeric, but contains 'x'"),
        ("id,a\n1,2\n2,inf\n", EDGE, "", "line 3: a feature is infinite"),
        ("id,a\n", EDGE, "", "nodes.csv: the table has no rows"),
        (FEW, "1,2\n1,2\n", "", "the first line is '1,2'"),
        ('id,a,label\n1,1.5,"a"b\n2,2,b\n', EDGE, "", "nodes.csv, line 2: unbalanced quotation mark"),
        (FEW, gzip.compress(99 * b"s,t\n1,2\n", mtime=0)[:-20], "", "edges.csv.gz: the file cannot be decompressed"),
        (FEW, EDGE, "duplicates: keep", "duplicates: keep in schema.yaml, which needs all edges in memory"),
    ],
)
@pytest.mark.parametrize("block", [BLOCK_CELLS, 8])
def test_errors_leave_no_files(tmp_path, nodes, edges, schema, message, block):
    name = "edges_csv_gz" if isinstance(edges, bytes) else "edges_csv"
    write(tmp_path, nodes_csv=nodes, schema_yaml=schema, **{name: edges})
    with pytest.raises(ValueError, match=message):
        stream_tables(tmp_path, tmp_path / "graph", block_cells=block)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".") or path.is_dir()]


@pytest.mark.parametrize("block", [BLOCK_CELLS, 300])
@pytest.mark.parametrize("cell", ["NA", "x"])
def test_a_string_after_thousands_of_numbers(tmp_path, cell, block):
    """The column is numeric in the rows from which its type is detected."""
    lines = [f"{i},{i % 7},{i % 3}.5\n" for i in range(3000)]
    lines[2500] = f"2500,1,{cell}\n"
    write(tmp_path, nodes_csv="id,a,b\n" + "".join(lines), edges_csv=EDGE, schema_yaml="fill: 0")
    if cell == "NA":
        compare(tmp_path, tmp_path / "graph", block_cells=block)
        return
    for read in (read_table, lambda folder: stream_tables(folder, folder / "graph", block_cells=block)):
        with pytest.raises(DataError, match="nodes.csv, line 2502: column 'b' is numeric, but contains 'x'"):
            read(tmp_path)


@pytest.mark.parametrize("nodes", [True, False])
@pytest.mark.parametrize("source", [3, 3e9])
def test_nan_is_a_missing_id(tmp_path, nodes, source):
    """Pandas writes ids as floats if one of them is missing."""
    ends = {"source": [1.0, 2.0, source], "target": [2.0, float("nan"), 4.0]}
    pl.DataFrame(ends).write_parquet(tmp_path / "edges.parquet")
    if nodes:
        pl.DataFrame({"id": [1.0, 2.0, source, 4.0]}).write_parquet(tmp_path / "nodes.parquet")
    for read in (read_table, lambda folder: stream_tables(folder, folder / "graph")):
        with pytest.raises(DataError, match="edges.parquet, row 2: the source or the target is missing"):
            read(tmp_path)


@pytest.mark.parametrize("label", ["", ",label"])
@pytest.mark.parametrize("schema", ["", "task: regression", "task: multi-label"])
def test_a_graph_without_labels_is_converted(tmp_path, label, schema):
    """The label column is missing or empty."""
    empty = "," * len(label[:1])
    write(tmp_path, nodes_csv=f"id,a{label}\n1,2{empty}\n2,3{empty}\n", edges_csv=EDGE, schema_yaml=schema)
    for name in ("graph", "graph.npz"):
        assert not hasattr(convert(str(tmp_path), tmp_path / name), "split")
        assert read_path(tmp_path / name)[0].num_nodes == 2


@pytest.mark.parametrize("block", [BLOCK_CELLS, 8])
@pytest.mark.parametrize(
    ("edges", "directed", "message"),
    [
        ("1,2\n1,2\n2,1\n2,3\n1,2\n", True, "edges.csv: 2 duplicate edges dropped"),
        ("1,2\n1,2\n2,1\n1,2\n", False, "edges.csv: at least 2 duplicate edges dropped"),
        ("1,2\n2,1\n2,3\n3,2\n", False, None),
        ("1,2\n2,1\n2,3\n3,2\n", True, None),
        ("1,1\n1,1\n1,1\n1,2\n", False, None),
    ],
)
def test_duplicate_edges_are_counted(tmp_path, edges, directed, message, block):
    schema = "undirected: false" if directed else ""
    write(tmp_path, nodes_csv="id,a\n1,2\n2,3\n3,5\n", edges_csv=f"source,target\n{edges}", schema_yaml=schema)
    report = stream_tables(tmp_path, tmp_path / "graph", block_cells=block)
    assert [str(f) for f in report.findings if f.code == "duplicate-edge"] == ([] if message is None else [message])
    direction = "directed" if directed else "undirected"
    assert [f.code for f in report.findings if f.code.endswith("directed")] == [direction]
