"""Tables that cannot be used, and what is said about them."""

from __future__ import annotations

import contextlib
import gzip

import polars as pl
import pytest
import torch
from tests.unit.data.tables import NODES, codes, errors, finding, write

from tgnn.data.tables.read_folder import read_table
from tgnn.data.validation.report import DataError

# ---- what is odd in files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "nodes.csv: the file is empty"),
        (b" \n\n", "nodes.csv: the file is empty"),
        (b"1,2\n3,4\n", "nodes.csv, line 1: the first line is '1,2', which are numbers"),
        (b"id,a\nann,1\nbob\ncarol,2,3\n", "nodes.csv, lines 3, 4: 1 to 3 fields, but the header has 2 columns"),
        (b'id,a\n"ann\nlee",1\nbob\n', "nodes.csv, line 4: 1 field, but the header has 2 columns"),
        (b'id,a\nann,1\nbob,"2\ncarol,3\n', 'nodes.csv, line 3: unbalanced quotation mark (")'),
        (
            b'id,a\n5" ann,1\nbob,2\n6" eve,3\n',
            'nodes.csv, lines 2, 4: unbalanced quotation mark (")',
        ),
        (b'id,a\n"ann" lee,1\nbob,2\n', 'nodes.csv, line 2: unbalanced quotation mark (")'),
        (
            "id,a\nann,1\nbøb,2\n".encode("latin-1"),
            "nodes.csv, line 3: the byte 0xF8 is not UTF-8 ('ø' in Latin-1)",
        ),
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
        (b"id,label,y\nann,1,2\n", "nodes.csv: columns 'label', 'y' could each be the label"),
        (
            b"id,a,split\nann,1,exam\n",
            "nodes.csv, line 2: column 'split' contains 'exam', but only train, val, test and empty cells are allowed",
        ),
        (b"id,label,split\nann,1,test\n", "nodes.csv: column 'split' assigns no labeled row to the training set"),
    ],
)
def test_nodes_that_cannot_be_used(tmp_path, content, expected):
    report = errors(write(tmp_path, nodes_csv=content, edges_csv="source,target\nann,ann\n"))
    assert any(expected in str(f) for f in report.findings if f.level == "error"), str(report)
    assert not report.ok


@pytest.mark.parametrize(
    ("content", "expected"),
    [
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
    ],
)
def test_edges_that_cannot_be_used(tmp_path, content, expected):
    report = errors(write(tmp_path, edges_csv=content))
    assert any(expected in str(f) for f in report.findings if f.level == "error"), str(report)


def test_all_errors_are_reported_at_once(tmp_path):
    nodes = "id,a,b,split\nann,1,,train\nbob,x,5,exam\n"
    report = errors(write(tmp_path, nodes_csv=nodes, edges_csv="source,target,weight\nann,eve,7\n"))
    assert codes(report, "error") == [
        "dangling-id",
        "weight-outside",
        "not-a-number",
        "missing-feature",
        "unknown-part",
    ]


def test_a_file_that_is_not_parquet_or_not_gzip(tmp_path):
    write(tmp_path, nodes_csv=None, nodes_parquet="no")
    assert finding(errors(tmp_path), "unreadable") == "nodes.parquet: the file is not a Parquet file"
    (tmp_path / "nodes.parquet").unlink()
    (tmp_path / "nodes.csv.gz").write_bytes(b"no")
    assert finding(errors(tmp_path), "unreadable").startswith("nodes.csv.gz: the file cannot be decompressed")
    (tmp_path / "nodes.csv").write_text(NODES)
    with pytest.raises(ValueError, match="has both nodes.csv and nodes.csv.gz. Remove one"):
        read_table(tmp_path)
    (tmp_path / "edges.csv").unlink()
    (tmp_path / "nodes.csv.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no table edges \(edges.csv, edges.tsv"):
        read_table(tmp_path)


def test_quoted_commas_line_ends_and_empty_lines_keep_their_line_numbers(tmp_path):
    nodes = 'id,text,a\n"lee, ann","a\nb",1\n\nbob,"x,\n""y""",\n"carol",z,2\n\n\n'
    report = errors(write(tmp_path, nodes_csv=nodes, edges_csv="source,target\nbob,carol\n"))
    assert finding(report, "empty-line") == "nodes.csv, line 4: empty line ignored"
    assert finding(report, "missing-feature").startswith("nodes.csv, line 5: ")
    data, _ = read_table(
        write(tmp_path, nodes_csv=nodes.replace('y""",', 'y""",3'), edges_csv="source,target\nbob,carol\n")
    )
    assert data.node_id.tolist() == ["lee, ann", "bob", "carol"]
    assert data.encoding["nodes"][0]["vocabulary"] == ["a\nb", 'x,\n"y"', "z"]


def test_spaces_around_names_and_values(tmp_path):
    nodes = " id , age ,label\nann , 31 , red\n bob,27 ,blue\ncarol,45,red \n"
    data, report = read_table(write(tmp_path, nodes_csv=nodes))
    assert data.x.flatten().tolist() == [31, 27, 45]
    assert data.encoding["target"]["classes"] == ["blue", "red"]
    assert finding(report, "header-spaces").startswith("nodes.csv, line 1: spaces around column names")


def test_a_word_far_down_a_column_of_numbers_is_named(tmp_path):
    nodes = "id,a\n" + "".join(f"n{i},{i}\n" for i in range(3000)) + "last,3000 kg\n"
    report = errors(write(tmp_path, nodes_csv=nodes, edges_csv="source,target\nn0,n1\n"))
    assert "nodes.csv, line 3002: column 'a' is numeric, but contains '3000 kg'" in finding(report, "not-a-number")
    assert codes(report, "error") == ["not-a-number"]  # and not missing as well


def test_no_rows(tmp_path):
    data, report = read_table(write(tmp_path, edges_csv="source,target\n"))
    assert data.edge_index.shape == (2, 0)
    assert finding(report, "no-rows") == "edges.csv: the table has no rows"
    data, report = read_table(write(tmp_path, nodes_csv="id,a,label\n", edges_csv="source,target\n"))
    assert data.num_nodes == 0


# ---- files that are damaged, columns that are no columns ---------------------------------------------------------


@pytest.mark.parametrize("form", ["csv.gz", "parquet"])
def test_a_damaged_file_is_reported(tmp_path, form):
    edges = pl.DataFrame({"source": [f"n{i}" for i in range(200)], "target": [f"n{i * 7 % 200}" for i in range(200)]})
    path = write(tmp_path, nodes_csv=None, edges_csv=None) / f"edges.{form}"
    if form == "parquet":
        edges.write_parquet(path)
    else:
        path.write_bytes(gzip.compress(edges.write_csv().encode()))
    whole, expected = path.read_bytes(), read_table(tmp_path)[0].edge_index
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(DataError):
            data, _ = read_table(tmp_path)
            assert form == "parquet" or torch.equal(data.edge_index, expected)  # polars writes no checksums


@pytest.mark.parametrize("wrong", [[[1], [2]], [{"a": 1}, {"a": 2}], [b"a", b"\xff"]])
@pytest.mark.parametrize("column", ["id", "split", "label"])
def test_columns_of_parquet_that_hold_no_single_values(tmp_path, column, wrong):
    frame = pl.DataFrame({"id": [1, 2], "split": ["train", "test"], "label": ["a", "b"]} | {column: wrong})
    frame.write_parquet(write(tmp_path, nodes_csv=None, edges_csv="source,target\n1,2\n") / "nodes.parquet")
    if column == "label" and isinstance(wrong[0], list):
        assert read_table(tmp_path)[0].y.tolist() == [[1, 0], [0, 1]]
    else:
        assert f"column {column!r} has the type" in finding(errors(tmp_path), "unknown-kind")


def test_weights_and_features_of_parquet_that_are_no_numbers(tmp_path):
    edges = {"source": ["ann"], "target": ["bob"], "weight": [[1.0]]}
    pl.DataFrame(edges).write_parquet(write(tmp_path, edges_csv=None) / "edges.parquet")
    assert "column 'weight' has the type List(Float64)" in finding(errors(tmp_path), "unknown-kind")
    pl.DataFrame(edges | {"weight": [1.0], "f": [{"a": 1}]}).write_parquet(tmp_path / "edges.parquet")
    for kind in ("numeric", "tokens", "categorical"):
        report = errors(tmp_path, schema={"edges": {"features": {"f": kind}}})
        assert "column 'f' has the type Struct" in finding(report, "unknown-kind")


@pytest.mark.parametrize(("label", "expected"), [("inf", ["infinite-label"]), ("1e20", [])])
def test_labels_beyond_whole_numbers(tmp_path, label, expected):
    nodes = f"id,a,label\nann,1,1.0\nbob,2,{label}\ncarol,4,2.0\n"
    write(tmp_path, nodes_csv=nodes)
    report = errors(tmp_path) if expected else read_table(tmp_path)[1]
    assert codes(report, "error") == expected
    assert report.statistics["task"] == "regression"


def test_a_decimal_comma_is_remarked_on(tmp_path):
    (tmp_path / "nodes.csv").write_text("id;a;label\nann;1,5;x\nbob;2,5;y\n")
    (tmp_path / "edges.csv").write_text("source;target\nann;bob\n")
    _, report = read_table(tmp_path)
    assert any(
        "column 'a' is read as categorical, but has decimal commas" in str(finding) for finding in report.findings
    )
