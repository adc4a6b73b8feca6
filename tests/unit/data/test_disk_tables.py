"""Tables that are read block by block give the graph that the reader in memory gives."""

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
WORDS = 'id,a,label\n"x, y",1,"one ""and"" two"\n"z\nz",2,b\n\nw,3,b\n"007",4,\n'
CASES: dict[str, dict[str, str | None]] = {
    "words": {"nodes_csv": NODES, "edges_csv": EDGES},
    "numbers": {"nodes_csv": NUMBERED, "edges_csv": LINKS},
    "directed": {"nodes_csv": NODES, "edges_csv": EDGES, "schema_yaml": "undirected: false"},
    "loops": {"nodes_csv": NODES, "edges_csv": EDGES, "schema_yaml": "self_loops: keep"},
    "dropped": {
        "nodes_csv": NUMBERED,
        "edges_csv": "a,b\n7,14\n014,21\n21,x\n7,9999\n",
        "schema_yaml": "dangling: drop",
    },
    "quoted": {"nodes_csv": WORDS, "edges_csv": 'source,target\n"x, y",w\n\n"z\nz",007\nw,"x, y"\n\n'},
    "blank lines": {
        "nodes_csv": "id,f,label\n\n1,1.5,a\n\n2,2,b" + 90 * "\n" + "3,1,a\n\n",
        "edges_csv": 'source,target\r\n\r\n1,2\r\n\r\n\r\n"2",3\r\n\r',
    },
    "blank lines alone": {"nodes_csv": NUMBERED, "edges_csv": "source,target\n\n"},
    "edges alone": {"nodes_csv": None, "edges_csv": LINKS},
    "edges alone, words": {"nodes_csv": None, "edges_csv": "source,target\n9,10\n10,x\n9,1\n"},
    "filled": {"nodes_csv": "id,a,b\n1,2,\n2,,NA\n3,4,5\n", "edges_csv": "s,t\n1,2\n", "schema_yaml": "fill: mean"},
    "filled with 7": {"nodes_csv": "id,a,b\n1,2,\n2,,5\n", "edges_csv": "s,t\n1,2\n", "schema_yaml": "fill: 7"},
    "large numbers": {
        "nodes_csv": "id,a,pay\n1,2,1000\n2,5,3000\n3,4,\n4,1,1000\n5,1,3000\n",
        "edges_csv": "s,t\n1,2\n",
        "schema_yaml": "fill: mean",
    },
    "large numbers as stored": {
        "nodes_csv": "id,a,pay\n1,2,1000\n2,5,3000\n",
        "edges_csv": "s,t\n1,2\n",
        "schema_yaml": "standardize: false",
    },
    "large numbers, filled with 0": {
        "nodes_csv": "id,a,pay\n1,2,1000\n2,5,3000\n3,4,\n4,1,NA\n5,1,4000\n",
        "edges_csv": "s,t\n1,2\n",
        "schema_yaml": "fill: 0",
    },
    "all standardized": {
        "nodes_csv": "id,a\n1,2\n2,4\n3,2\n4,4\n",
        "edges_csv": "s,t\n1,2\n",
        "schema_yaml": "standardize: true",
    },
    "empty column": {"nodes_csv": "id,a,b\n1,,2\n2,,3\n", "edges_csv": "s,t\n1,2\n"},
    "numbers as targets": {"nodes_csv": "id,a,y\n1,1,0.5\n2,5,\n3,2,1.5\n", "edges_csv": "s,t\n1,2\n"},
    "several labels": {
        "nodes_csv": "id,a,p,q\n1,1,0,1\n2,5,,1\n3,2,1,0\n",
        "edges_csv": "s,t\n1,2\n",
        "schema_yaml": "nodes: {label: [p, q]}",
    },
    "a name is no feature": {
        "nodes_csv": "id,a,name\n1,1,Ann\n2,5,Bob\n",
        "edges_csv": "s,t\n1,2\n",
        "schema_yaml": "nodes: {features: {name: ignore}}",
    },
    "no features": {"nodes_csv": "id,label\n1,a\n2,b\n", "edges_csv": "s,t\n1,2\n"},
    "no edges": {"nodes_csv": "id,a\n1,2\n2,3\n", "edges_csv": "s,t\n"},
}


def rounded(encoding: dict[str, Any]) -> Any:
    """A mean that was added up block by block differs in its last digits."""
    return json.loads(json.dumps(encoding), parse_float=lambda digits: round(float(digits), 9))


def compare(folder: Path, out: Path, **options: object) -> DiskGraph:
    data, _ = read_table(folder)
    report = stream_tables(folder, out, **options)
    graph = DiskGraph(out)
    same(graph.to_memory(), data)
    assert rounded(graph.encoding) == rounded(data.encoding)
    assert report.statistics["edges"] == data.num_edges
    return graph


@pytest.mark.parametrize("block", [BLOCK_CELLS, 40])
@pytest.mark.parametrize("case", CASES)
def test_streamed_is_as_in_memory(tmp_path, case, block):
    write(tmp_path, **CASES[case])
    compare(tmp_path, tmp_path / "graph", block_cells=block)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("block", [BLOCK_CELLS, 16])
def test_parquet_with_lists_and_packed_text(tmp_path, block):
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
    ends = random.integers(0, 100, (2, 500))
    lines = "".join(f"n{a},n{b}\n" for a, b in ends.T)
    (tmp_path / "edges.csv.gz").write_bytes(gzip.compress(f"source,target\n{lines}".encode()))
    graph = compare(tmp_path, tmp_path / "graph", block_cells=block)
    assert graph.x.shape == (100, 9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv.gz", "graph", "nodes.parquet"]


def test_many_columns_of_zeros_are_known_to_be_sparse(tmp_path):
    eye = np.eye(50, dtype=int)
    lines = "".join(f"{i},{','.join(map(str, row))}\n" for i, row in enumerate(eye))
    header = ",".join(f"f{i}" for i in range(50))
    write(tmp_path, nodes_csv=f"id,{header}\n{lines}", edges_csv="s,t\n1,2\n")
    assert compare(tmp_path, tmp_path / "graph").encoding["sparse"]


def test_new_tables_can_be_read_with_the_encoding(tmp_path):
    write(tmp_path, nodes_csv=NODES, edges_csv="source,target,weight\nann,bob,0.5\n")
    stream_tables(tmp_path, tmp_path / "graph", leave_out=True)
    data, _ = read_table(tmp_path, DiskGraph(tmp_path / "graph").encoding)
    assert data.get("edge_weight") is None
    assert data.get("edge_attr") is None


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"nodes_csv": "id,town\n1,Rome\n2,Oslo\n", "edges_csv": "s,t\n1,2\n"},
            "column 'town' is not numeric, but tables larger than memory",
        ),
        (
            {
                "nodes_csv": "id,a\n1,2\n2,3\n",
                "edges_csv": "s,t\n1,2\n",
                "schema_yaml": "nodes: {features: {a: categorical}}",
            },
            "column 'a' is not numeric",
        ),
        (
            {"edges_csv": "source,target,weight\nann,bob,1\n"},
            "edges.csv has the columns weight, but a graph on disk cannot store edge weights",
        ),
        ({"edges_csv": "source,target\nann,eve\n"}, "unknown node 'eve', not in nodes.csv"),
        ({"edges_csv": "source,target\nann,\n"}, "line 2: the source or the target is missing"),
        ({"nodes_csv": "id,a\n1,2\n1,3\n", "edges_csv": "s,t\n1,1\n"}, "duplicate node id: '1'"),
        ({"nodes_csv": "id,a\n1,2\n2,\n", "edges_csv": "s,t\n1,2\n"}, "line 3: column 'a' has a missing number"),
        (
            {"nodes_csv": "id,a\n1,2\n2,x\n3,4\n", "edges_csv": "s,t\n1,2\n"},
            "line 3: column 'a' is numeric, but contains 'x'",
        ),
        ({"nodes_csv": "id,a\n1,2\n2,inf\n", "edges_csv": "s,t\n1,2\n"}, "line 3: a feature is infinite"),
        ({"nodes_csv": "id,a\n1,2\n2,3\n", "edges_csv": "1,2\n1,2\n"}, "the first line is '1,2'"),
        (
            {"nodes_csv": 'id,a,label\n1,1.5,"a"b\n2,2,b\n', "edges_csv": "s,t\n1,2\n"},
            "nodes.csv, line 2: unbalanced quotation mark",
        ),
        (
            {"edges_csv": EDGES, "schema_yaml": "duplicates: keep"},
            "duplicates: keep in schema.yaml, which needs all edges in memory",
        ),
    ],
)
@pytest.mark.parametrize("block", [BLOCK_CELLS, 8])
def test_tables_that_cannot_be_streamed_are_an_error_and_leave_no_files(tmp_path, files, message, block):
    write(tmp_path, **({"nodes_csv": "id,a\nann,1\nbob,2\n"} | files))
    with pytest.raises(ValueError, match=message):
        stream_tables(tmp_path, tmp_path / "graph", block_cells=block)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".") or path.is_dir()]


def test_a_damaged_archive(tmp_path):
    write(tmp_path, nodes_csv="id,a\n1,2\n2,3\n", edges_csv=None)
    (tmp_path / "edges.csv.gz").write_bytes(gzip.compress(b"s,t\n1,2\n" * 99)[:-20])
    with pytest.raises(DataError, match="edges.csv.gz: the file cannot be decompressed"):
        stream_tables(tmp_path, tmp_path / "graph")


def test_findings_of_many_blocks_are_one(tmp_path):
    loops = "".join(f"{7 * i},{7 * i}\n" for i in range(50))
    write(tmp_path, nodes_csv=NUMBERED, edges_csv=f"source,target\n{loops}")
    report = stream_tables(tmp_path, tmp_path / "graph", block_cells=40)
    (found,) = [finding for finding in report.findings if finding.code == "self-loop"]
    assert (found.count, found.locations[:3]) == (50, (2, 3, 4))


@pytest.mark.parametrize("nodes", [True, False])
@pytest.mark.parametrize("source", [3, 3e9])
def test_a_number_that_is_none_is_no_id(tmp_path, nodes, source):
    """Ids are floats for pandas where one is missing."""
    ends = {"source": [1.0, 2.0, source], "target": [2.0, float("nan"), 4.0]}
    pl.DataFrame(ends).write_parquet(tmp_path / "edges.parquet")
    if nodes:
        pl.DataFrame({"id": [1.0, 2.0, source, 4.0]}).write_parquet(tmp_path / "nodes.parquet")
    message = "edges.parquet, row 2: the source or the target is missing"
    with pytest.raises(DataError, match=message):
        read_table(tmp_path)
    with pytest.raises(DataError, match=message):
        stream_tables(tmp_path, tmp_path / "graph")


@pytest.mark.parametrize("label", ["", ",label"])
@pytest.mark.parametrize("schema", ["", "task: regression", "task: multi-label"])
def test_a_graph_without_any_label_is_converted_to_be_asked_about(tmp_path, label, schema):
    """Whether there is no column of labels, or one that is empty."""
    empty = "," * len(label[:1])
    write(tmp_path, nodes_csv=f"id,a{label}\n1,2{empty}\n2,3{empty}\n", edges_csv="s,t\n1,2\n", schema_yaml=schema)
    graph = convert(str(tmp_path), tmp_path / "graph")
    assert isinstance(graph, DiskGraph)
    assert not hasattr(graph, "split")
    assert not hasattr(convert(str(tmp_path), tmp_path / "graph.npz"), "split")
    assert read_path(tmp_path / "graph.npz")[0].num_nodes == 2
    assert read_path(tmp_path / "graph")[0].num_nodes == 2


COUNTED = "".join(f"{i},{i + 5},{i % 3}\n" for i in range(12))


@pytest.mark.parametrize("block", [BLOCK_CELLS, 8])
@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"nodes_csv": "id,a,b,c\n1,,2,\n2,,3,\n", "edges_csv": "s,t\n1,2\n"}, "empty-column"),
        ({"nodes_csv": f"id,a,b\n{COUNTED}", "edges_csv": "s,t\n1,2\n"}, "feature-like-ids"),
        ({"nodes_csv": "id,a\n1,2\n2,3\n", "edges_csv": "s,t\n"}, "no-rows"),
        ({"nodes_csv": "id,a\n1,2\n2,3\n", "edges_csv": "s,t\n\n"}, "no-rows"),
    ],
)
def test_warnings_are_those_of_the_reader_in_memory(tmp_path, files, code, block):
    write(tmp_path, **files)
    wanted = sorted(str(finding) for finding in read_table(tmp_path)[1].findings if finding.level == "warning")
    report = stream_tables(tmp_path, tmp_path / "graph", block_cells=block)
    found = [finding for finding in report.findings if finding.level == "warning"]
    assert sorted(map(str, found)) == wanted
    assert code in [finding.code for finding in found]


@pytest.mark.parametrize("block", [BLOCK_CELLS, 8])
@pytest.mark.parametrize(
    ("edges", "directed", "said"),
    [
        ("1,2\n1,2\n2,1\n2,3\n1,2\n", True, "edges.csv: 2 duplicate edges dropped"),
        ("1,2\n1,2\n2,1\n1,2\n", False, "edges.csv: at least 2 duplicate edges dropped"),
        ("1,2\n2,1\n2,3\n3,2\n", False, None),
        ("1,2\n2,1\n2,3\n3,2\n", True, None),
        ("1,1\n1,1\n1,1\n1,2\n", False, None),
    ],
)
def test_rows_that_name_an_edge_again_are_counted(tmp_path, edges, directed, said, block):
    schema = "undirected: false" if directed else ""
    write(tmp_path, nodes_csv="id,a\n1,2\n2,3\n3,5\n", edges_csv=f"source,target\n{edges}", schema_yaml=schema)
    report = stream_tables(tmp_path, tmp_path / "graph", block_cells=block)
    assert [str(f) for f in report.findings if f.code == "duplicate-edge"] == ([] if said is None else [said])
    assert [f.code for f in report.findings if f.code.endswith("directed")] == [
        "directed" if directed else "undirected"
    ]


@pytest.mark.parametrize("block", [BLOCK_CELLS, 300])
@pytest.mark.parametrize("cell", ["NA", "x"])
def test_a_string_after_thousands_of_numbers(tmp_path, cell, block):
    """The column is numeric in the rows from which its type is detected."""
    lines = [f"{i},{i % 7},{i % 3}.5\n" for i in range(3000)]
    lines[2500] = f"2500,1,{cell}\n"
    write(tmp_path, nodes_csv="id,a,b\n" + "".join(lines), edges_csv="s,t\n1,2\n", schema_yaml="fill: 0")
    if cell == "NA":
        compare(tmp_path, tmp_path / "graph", block_cells=block)
        return
    for read in (read_table, lambda folder: stream_tables(folder, folder / "graph", block_cells=block)):
        with pytest.raises(DataError, match="nodes.csv, line 2502: column 'b' is numeric, but contains 'x'"):
            read(tmp_path)
