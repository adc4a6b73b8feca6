"""Error messages for invalid tables and schemas, and the scan of text files."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
from datetime import date, timedelta
from unittest.mock import patch

import hypothesis
import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
import torch
from tests.unit.data.tables import NODES, codes, errors, finding, write

from tgnn.data import validate
from tgnn.data.readers.detect import read_path
from tgnn.data.tables import ids, text_file
from tgnn.data.tables.read_folder import read_table
from tgnn.data.tables.text_file import TextLayout, scan
from tgnn.data.validation.report import DataError, ValidationReport

GRAPHS = {
    "graphs_csv": "id,label\nwater,1\nsalt,0\n",
    "nodes_csv": "graph,id,size\nwater,1,5\nwater,2,6\nsalt,1,7\n",
    "edges_csv": "graph,source,target\nwater,1,2\n",
}


NODE_ERRORS = [
    (b"", "nodes.csv: the file is empty"),
    (b" \n\n", "nodes.csv: the file is empty"),
    (b"1,2\n3,4\n", "nodes.csv, line 1: the first line is '1,2', which are numbers"),
    (b"id,a\nann,1\nbob\ncarol,2,3\n", "nodes.csv, lines 3, 4: 1 to 3 fields, but the header has 2 columns"),
    (b'id,a\n"ann\nlee",1\nbob\n', "nodes.csv, line 4: 1 field, but the header has 2 columns"),
    (b'id,a\nann,1\nbob,"2\ncarol,3\n', 'nodes.csv, line 3: unbalanced quotation mark (")'),
    (b'id,a\n5" ann,1\nbob,2\n6" eve,3\n', 'nodes.csv, lines 2, 4: unbalanced quotation mark (")'),
    (b'id,a\n"ann" lee,1\nbob,2\n', 'nodes.csv, line 2: unbalanced quotation mark (")'),
    ("id,a\nann,1\nbøb,2\n".encode("latin-1"), "nodes.csv, line 3: the byte 0xF8 is not UTF-8 ('ø' in Latin-1)"),
    ("id,a\nann,1\n".encode("utf-16"), "nodes.csv: the file is encoded in UTF-16"),
    (b"id,a\rann,1\r", "nodes.csv: the lines end in CR only"),
    (b"id,a\nann,\x001\n", "nodes.csv: the file contains zero bytes"),
    (b"id,a,a\nann,1,2\n", "nodes.csv, line 1: duplicate column name 'a'"),
    (b"id,a,\nann,1,2\n", "nodes.csv, line 1: column 3 has no name"),
    (b"\nid,a\nann,1\n", "nodes.csv, line 1: the first line is empty"),
    (b"id,a\nann,1\n,2\n", "nodes.csv, line 3: the node id is missing"),
    (b"id,a\nann,1\nbob,2\nann,3\nbob,4\n", "nodes.csv, lines 4, 5: duplicate node id: 'ann', 'bob'"),
    (b"id,a\nann,1\nbob,two\ncarol,3\ndan,x\ned,4\n", "lines 3, 5: column 'a' is numeric, but contains 'two', 'x'"),
    (b"id,a\nann,1\nbob,\ncarol,NA\n", "nodes.csv, lines 3, 4: column 'a' has a missing number"),
    (b"id,a\nann,1\nbob,inf\ncarol,1e60\n", "nodes.csv, lines 3, 4: a feature is infinite"),
    (b"id,a,label\nann,1,1.0\nbob,2,inf\n", "nodes.csv, line 3: a label is infinite"),
    (b"id,label,y\nann,1,2\n", "nodes.csv: columns 'label', 'y' could each be the label"),
    (b"id,Label,label\nann,1,0\n", "columns 'Label', 'label' could each be the label"),
    (
        b"id,a,split\nann,1,exam\n",
        "nodes.csv, line 2: column 'split' contains 'exam', but only train, val, test and empty cells are allowed",
    ),
    (b"id,label,split\nann,1,test\n", "nodes.csv: column 'split' assigns no labeled row to the training set"),
]
EDGE_ERRORS = [
    (b"", "edges.csv: the file is empty"),
    (b"1,2\n2,3\n", "edges.csv, line 1: the first line is '1,2', which are numbers"),
    (b"ann,bob\nbob,carol\n", "edges.csv: the header is missing: 'ann', 'bob' in the first line is a node id"),
    (b"source\nann\n", "edges.csv: there is no column for the target, only 'source'"),
    (
        b"source,target\nann,bob\nann,eve\nzoe,bob\n",
        "edges.csv, lines 3, 4: unknown nodes 'zoe', 'eve', not in nodes.csv",
    ),
    (b"source,target\nann,\n", "edges.csv, line 2: the source or the target is missing"),
    (b"source,target,weight\nann,bob,2\n", "edges.csv, line 2: an edge weight is 2, but must lie between 0"),
    (b"source,target,weight\nann,bob,-1\nbob,ann,1\n", "edges.csv, line 2: an edge weight is -1"),
    (b"source,target,weight\nann,bob,\n", "edges.csv, line 2: the edge weight is missing"),
    (b"source,target,weight\nann,bob,much\n", "edges.csv, line 2: the edge weight must be a number, got 'much'"),
    (b"source,target,a\nann,bob,1\nbob,ann,x\n", "edges.csv, line 3: column 'a' is numeric, but contains 'x'"),
]
GRAPH_ERRORS = [
    ({"graphs_csv": "id,label\na,1\na,2\n"}, "graphs.csv, line 3: duplicate graph id: 'a'"),
    ({"graphs_csv": "id,label\nwater,1\n"}, "nodes.csv, line 4: unknown graph id 'salt'"),
    (
        {"graphs_csv": "id,label,split\nwater,1,exam\nsalt,2,\n"},
        "graphs.csv, line 2: column 'split' contains 'exam'",
    ),
    ({"nodes_csv": "graph,id\nwater,1\nwater,1\n"}, "nodes.csv, line 3: duplicate node id within a graph: '1'"),
    ({"nodes_csv": "id,size\n1,2\n"}, "nodes.csv: there is no column 'graph' with the graph id of each node"),
    ({"edges_csv": "graph,source,target\nfire,1,2\n"}, "edges.csv, line 2: unknown graph id 'fire'"),
    (
        {"edges_csv": "graph,source,target\nsalt,1,2\n"},
        "edges.csv, line 2: unknown node 2, not in the same graph of nodes.csv",
    ),
    ({"edges_csv": "graph,source,target\nsalt,1,\n"}, "edges.csv, line 2: the source or the target is missing"),
    (
        {"edges_csv": "source,target\n1,2\n"},
        "nodes.csv, line 4: duplicate node id, which needs a column 'graph' in edges.csv",
    ),
    (
        {"nodes_csv": "graph,id\nwater,1\nwater,2\nsalt,3\n", "edges_csv": "source,target\n1,3\n"},
        "edges.csv, line 2: the source and the target are in different graphs",
    ),
    ({"schema_yaml": "nodes: {label: size}"}, "nodes.label ('size') is only for a single graph; for a data set of"),
    ({"schema_yaml": "nodes: {split: size}"}, "nodes.split ('size') is only for a single graph; for a data set of"),
]
SCHEMA_ERRORS = [
    ("undirect: true", "schema.yaml: unknown key 'undirect'; did you mean 'undirected'?"),
    ("nodes: {lable: a}", "unknown key 'nodes.lable'; did you mean 'label'?"),
    ("nodes: {features: {age: number}}", "nodes.features.age is 'number', but must be 'numeric', 'categorical'"),
    ("undirected: maybe", "undirected is 'maybe', but must be true or false"),
    ("fill: average", "fill is 'average', but must be a number or 'mean'"),
    ("fill: 1\nfill: 2", "line 2 repeats the key 'fill'"),
    ("nodes: {my.col: numeric}", "unknown key 'nodes.my.col'; available: 'id'"),
    ("my.label: x", "unknown key 'my.label'"),
    ("nodes: {features: {0: numeric}}", "nodes.features.0 is 0, but must be a name (in quotation marks"),
    ("fill: true", "fill is True, but must be a number or 'mean'"),
    ("nodes: [label]", "nodes is ['label'], but must be a mapping"),
    ("fill: .inf", "fill is inf, but must be a finite number or 'mean'"),
    ("standardize: some", "standardize is 'some', but must be true or false or 'large'"),
    ("max_categories: 0", "max_categories is 0, but must be greater than 0"),
    ("nodes: {label: 5}", "nodes.label is 5, but must be a name (in quotation marks if it is a number) or a list"),
    ("- a\n- b", "expected keys and values such as 'undirected: false'"),
    ("a: [", "not valid YAML: expected the node content, but found '<stream end>' (line 1)"),
    (b"fill: \xff", "schema.yaml: not a UTF-8 text file"),
    ("edges: {weight: source, source: source}", "column 'source' has two roles, source and weight"),
    ("nodes: {id: ID}", "there is no column 'ID' for nodes.id; did you mean 'id'?"),
    ("nodes: {label: lable}", "there is no column 'lable' for nodes.label; did you mean 'label'?"),
    ("nodes: {features: {twon: ignore}}", "there is no column 'twon' for nodes.features; did you mean 'town'?"),
    (
        "graphs: {label: kind}",
        "schema.yaml: the section 'graphs' has no table graphs.csv; the folder has 'nodes', 'edges'",
    ),
    (
        "nodes: {graph: town}",
        "nodes.graph ('town') is only for data sets of many graphs, but there is no graph table (graphs.csv)",
    ),
]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        *(({"nodes_csv": text, "edges_csv": "source,target\nann,ann\n"}, message) for text, message in NODE_ERRORS),
        *(({"edges_csv": text}, message) for text, message in EDGE_ERRORS),
        *((GRAPHS | files, message) for files, message in GRAPH_ERRORS),
        *(({"schema_yaml": text}, message) for text, message in SCHEMA_ERRORS),
        ({"schema_yml": "fill: 1", "schema_yaml": None}, "schema.yml is not read; rename it to schema.yaml"),
        ({"nodes_csv": "id,a\n007,1\n008,2\n", "edges_csv": "source,target\n7,8\n"}, "differ only in leading zeros"),
    ],
)
def test_an_error_names_file_row_and_value(tmp_path, files, message):
    report = errors(write(tmp_path, **files))
    assert any(message in str(f) for f in report.findings if f.level == "error"), str(report)


def test_all_errors_are_reported_at_once(tmp_path):
    nodes = "id,a,b,split\nann,1,,train\nbob,x,5,exam\n"
    report = errors(write(tmp_path, nodes_csv=nodes, edges_csv="source,target,weight\nann,eve,7\n"))
    expected = ["dangling-id", "weight-outside", "not-a-number", "missing-feature", "unknown-part"]
    assert codes(report, "error") == expected


# ---- files that are damaged or missing --------------------------------------------------------------------------


def test_a_file_that_is_not_parquet_or_not_gzip(tmp_path):
    write(tmp_path, nodes_csv=None, nodes_parquet=b"no")
    assert finding(errors(tmp_path), "unreadable") == "nodes.parquet: the file is not a Parquet file"
    (tmp_path / "nodes.parquet").rename(tmp_path / "nodes.csv.gz")
    assert finding(errors(tmp_path), "unreadable").startswith("nodes.csv.gz: the file cannot be decompressed")
    (tmp_path / "nodes.csv.gz").write_bytes(gzip.compress(b""))
    assert finding(errors(tmp_path), "empty-file").startswith("nodes.csv.gz: the file is empty")
    (tmp_path / "nodes.csv").write_text(NODES)
    with pytest.raises(ValueError, match="has both nodes.csv and nodes.csv.gz. Remove one"):
        validate(tmp_path)
    (tmp_path / "edges.csv").unlink()
    (tmp_path / "nodes.csv.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no table edges \(edges.csv, edges.tsv"):
        read_table(tmp_path)
    with pytest.raises(ValueError, match="has a graph table. Read it with read_graph_tables"):
        read_table(write(tmp_path, **GRAPHS))


@pytest.mark.parametrize("form", ["csv.gz", "parquet"])
def test_a_damaged_file_is_reported(tmp_path, form):
    edges = pl.DataFrame({"source": [f"n{i}" for i in range(200)], "target": [f"n{i * 7 % 200}" for i in range(200)]})
    path = write(tmp_path, nodes_csv=None, edges_csv=None) / f"edges.{form}"
    if form == "parquet":
        edges.write_parquet(path)
    else:
        path.write_bytes(gzip.compress(edges.write_csv().encode()))
    whole, expected = path.read_bytes(), read_path(tmp_path)[0].edge_index
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(DataError):
            data, _ = read_path(tmp_path)
            assert form == "parquet" or torch.equal(data.edge_index, expected)  # polars writes no checksums


# ---- columns of Parquet that hold no single values --------------------------------------------------------------

DAYS = [timedelta(1), timedelta(2)]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        *((column, [[1], [2]], "column '{}' has the type List(Int64), but the {}") for column in ("id", "split")),
        *((column, [{"a": 1}] * 2, "column '{}' has the type Struct") for column in ("id", "split", "label")),
        *((column, [b"a", b"\xff"], "column '{}' has the type Binary") for column in ("id", "split", "label")),
        ("id", DAYS, "the id must be a string or a number"),
        ("label", DAYS, "which cannot be a label; use strings or numbers"),
        ("label", [date(2020, 1, 1)] * 2, "which cannot be a label; use strings or numbers"),
        ("a", [date(2020, 1, 1)] * 2, "column 'a' has the type Date, which cannot be a feature"),
        ("a", [[1.0, 2.0], [3.0]], "row 2: column 'a' has a list of 1 numbers, but other rows have 2"),
        ("a", [[1.0, 2.0], []], "row 2: column 'a' has a list of 0 numbers, but other rows have 2"),
        ("a", [[1.0, 2.0], None], "row 2: column 'a' has a missing number"),
    ],
)
def test_columns_of_parquet_that_cannot_be_used(tmp_path, column, values, message):
    nodes = {"id": [1, 2], "split": ["train", "test"], "label": ["a", "b"], column: values}
    report = errors(write(tmp_path, nodes_parquet=nodes, edges_csv="source,target\n1,2\n"))
    assert message.format(column, column) in str(report)


def test_weights_and_features_of_parquet_that_are_no_numbers(tmp_path):
    edges = {"source": ["ann"], "target": ["bob"], "weight": [[1.0]]}
    report = errors(write(tmp_path, edges_csv=None, edges_parquet=edges))
    assert "column 'weight' has the type List(Float64)" in finding(report, "unknown-kind")
    for kind in ("numeric", "tokens", "categorical"):
        schema = {"edges": {"features": {"f": kind}}}
        write(tmp_path, edges_parquet=edges | {"weight": [1.0], "f": [{"a": 1}]}, schema_yaml=schema)
        assert "column 'f' has the type Struct" in finding(errors(tmp_path), "unknown-kind")


# ---- rows, lines and ids of text files -------------------------------------------------------------------------


CELLS = st.text(st.sampled_from('ab1 ,;"\né'), max_size=6)


def layout_of(content: bytes, chunk: int) -> tuple[TextLayout, ValidationReport]:
    report = ValidationReport("", "")
    with patch.multiple(text_file, _CHUNK=chunk, _LARGE_CHUNK=chunk):
        return scan(np.frombuffer(content, dtype=np.uint8), "file.csv", report), report


@hypothesis.given(
    rows=st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=8),
    chunk=st.integers(14, 40),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
)
@hypothesis.settings(deadline=None)
def test_rows_and_lines_are_those_of_the_csv_module(rows, chunk, end, last):
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator=end).writerows([["first", "second"], *rows])
    content = file.getvalue() if last or not rows else file.getvalue().removesuffix(end)
    reader = csv.reader(io.StringIO(content, newline=""))
    starts = [1, *(reader.line_num + 1 for _ in reader)][:-1]
    layout, _ = layout_of(content.encode(), chunk)
    assert layout.rows == len(starts)
    assert layout.lines(np.arange(layout.rows)).tolist() == starts
    assert layout.spaces == (" " in content)


@hypothesis.given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=12), wanted=st.integers(2, 4), chunk=st.integers(9, 30)
)
@hypothesis.settings(deadline=None)
def test_every_row_with_another_number_of_fields_is_found(counts, wanted, chunk):
    lines = [",".join(["name"] * n) for n in counts]
    content = "\n".join([",".join("abcd"[:wanted]), *lines]).encode()
    wrong = [i + 2 for i, n in enumerate(counts) if n != wanted]
    if not wrong:
        assert layout_of(content, chunk)[0].rows == len(counts) + 1
        return
    with pytest.raises(DataError) as caught:
        layout_of(content, chunk)
    (finding,) = caught.value.report.findings
    assert (list(finding.locations), finding.count) == (wrong[:10], len(wrong))


@pytest.mark.parametrize("chunk", [9, 10, 11, 1 << 18])
def test_empty_lines_and_characters_that_two_chunks_share(chunk):
    layout, report = layout_of("a,b\n\n1,2\r\n\r\n\né日,4\n\n\n".encode(), chunk)
    assert layout.blank.tolist() == [1, 3, 4, 6, 7]
    assert report.findings[0].locations == (2, 4, 5)  # empty lines at the end are not reported
    assert layout.line_numbers()(np.array([0, 1])).tolist() == [3, 6]
    with pytest.raises(DataError, match="line 3: the byte 0xE9 is not UTF-8"):
        layout_of("a,b\ncdé日本,1\n".encode() + b"\xe9,1\n", chunk)


@hypothesis.given(
    among=st.lists(st.text("abc", min_size=1, max_size=3), unique=True)
    | st.lists(st.integers(-20, 20) | st.integers(-(2**63), 2**63 - 1), unique=True, max_size=20),
    asked=st.lists(st.none() | st.text("abcd", min_size=1, max_size=3)),
    numbers=st.lists(st.integers(-25, 25) | st.integers(-(2**63), 2**63 - 1)),
    many=st.sampled_from([-1, ids._MANY]),
)
@hypothesis.settings(deadline=None)
def test_ids_are_found_by_any_table(among, asked, numbers, many):
    dtype = pl.Int64 if among and isinstance(among[0], int) else pl.String
    asked = numbers if dtype == pl.Int64 else asked
    with patch.object(ids, "_MANY", many):
        found = ids.positions(pl.Series(asked, dtype=dtype), pl.Series(among, dtype=dtype))
    assert found.tolist() == [among.index(one) if one in among else -1 for one in asked]
