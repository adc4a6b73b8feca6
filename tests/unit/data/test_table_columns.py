"""Features, labels and the schema of tables, and new data that is encoded as the old."""

from __future__ import annotations

import json
import re

import hypothesis
import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
import torch
from tests.unit.data.tables import codes, errors, finding, nodes_of, write

from tgnn.data.dataset_info import infer_dataset_info
from tgnn.data.tables.read_folder import read_graph_tables, read_table
from tgnn.data.tables.standardize import Moments
from tgnn.data.validation.report import DataError

# ---- features --------------------------------------------------------------------------------------------------


def test_tokens_are_a_sparse_bag_of_words(tmp_path):
    words = [f"w{i:03}" for i in range(60)]
    nodes = f"id,text\na,{' '.join(words[:3] * 2)}\nb,{' '.join(words[3:])}\n"
    nodes += "".join(f"n{i},\n" for i in range(100))
    data, report = nodes_of(tmp_path, nodes, nodes={"features": {"text": "tokens"}})
    assert data.x.layout == torch.sparse_csr
    assert data.x.shape == (102, 60)
    assert data.x.to_dense()[:2].tolist() == [[1.0] * 3 + [0.0] * 57, [0.0] * 3 + [1.0] * 57]
    assert data.encoding["nodes"][0]["vocabulary"] == words
    assert report.statistics["sparse"] is True
    data, _ = nodes_of(tmp_path, "id,text\na,red wine;beer\nb,beer\n", nodes={"features": {"text": "tokens"}})
    assert data.encoding["nodes"][0] == {
        "column": "text",
        "kind": "tokens",
        "separator": ";",
        "vocabulary": ["beer", "red wine"],
    }
    assert data.x.tolist() == [[1, 1], [1, 0]]  # few columns: dense


def test_many_columns_of_zeros_are_stored_sparse(tmp_path):
    columns = [f"w{i}" for i in range(40)]
    rows = [f"{one},{','.join('1' if i == j else '0' for i in range(40))}" for j, one in enumerate("abcdef")]
    data, _ = nodes_of(tmp_path, "id," + ",".join(columns) + "\n" + "\n".join(rows) + "\n")
    assert data.x.layout == torch.sparse_csr
    assert torch.equal(data.x.to_dense(), torch.eye(6, 40))


def test_lists_of_parquet(tmp_path):
    frame = pl.DataFrame(
        {"id": ["a", "b"], "vector": [[1.0, 2.0], [3.0, 4.0]], "words": [["x", "y"], ["y"]], "flag": [True, False]}
    )
    frame.write_parquet(write(tmp_path, nodes_csv=None, edges_csv="source,target\na,b\n") / "nodes.parquet")
    data, _ = read_table(tmp_path)
    assert data.x.tolist() == [[1, 2, 1, 1, 1], [3, 4, 0, 1, 0]]
    frame.with_columns(pl.col("vector").cast(pl.Array(pl.Float64, 2))).write_parquet(tmp_path / "nodes.parquet")
    assert torch.equal(read_table(tmp_path)[0].x, data.x)
    frame.with_columns(vector=pl.Series([[1.0, 2.0], [3.0]])).write_parquet(tmp_path / "nodes.parquet")
    assert finding(errors(tmp_path), "wrong-length") == (
        "nodes.parquet, row 2: column 'vector' has a list of 1 numbers, but other rows have 2"
    )
    frame.with_columns(vector=pl.Series([[1.0, 2.0], None])).write_parquet(tmp_path / "nodes.parquet")
    assert "row 2: column 'vector' has a missing number" in finding(errors(tmp_path), "missing-feature")
    frame.with_columns(when=pl.date(2020, 1, 1)).write_parquet(tmp_path / "nodes.parquet")
    assert "column 'when' has the type Date, which cannot be a feature" in finding(errors(tmp_path), "unknown-kind")


def test_missing_numbers_are_filled_if_the_schema_says_so(tmp_path):
    nodes = "id,a,b\na,1,5\nb,,\nc,3,nan\n"
    data, report = nodes_of(tmp_path, nodes, fill="mean")
    assert data.x.tolist() == [[1, 5], [2, 5], [3, 5]]
    notes = [str(one) for one in report.findings if one.code == "filled-number"]
    assert notes == [
        "nodes.csv, line 3: column 'a' has a missing number, filled with 2",
        "nodes.csv, lines 3, 4: column 'b' has a missing number, filled with 5",
    ]
    assert [one["fill"] for one in data.encoding["nodes"]] == [2, 5]
    data, _ = nodes_of(tmp_path, nodes, fill=-1)
    assert data.x.tolist() == [[1, 5], [-1, -1], [3, -1]]


def test_large_numbers_are_standardized_and_reported(tmp_path):
    nodes = "id,age,pay\na,20,1000\nb,40,3000\nc,60,\nd,20,1000\ne,40,3000\n"
    data, report = nodes_of(tmp_path, nodes, fill="mean")
    assert data.x.tolist() == [[20, -1], [40, 1], [60, 0], [20, -1], [40, 1]]
    assert data.encoding["nodes"][1] | {"mean": [2000.0], "deviation": [1000.0]} == data.encoding["nodes"][1]
    assert finding(report, "standardized").endswith(
        "column 'pay' was standardized to mean 0 and standard deviation 1 "
        "(set standardize: false in schema.yaml to keep the values)"
    )
    write(tmp_path, nodes_csv="id,age,pay\na,5000,\nb,6,4000\n", edges_csv="source,target\na,b\n")
    new, report = read_table(tmp_path, json.loads(json.dumps(data.encoding)))
    assert new.x.tolist() == [[5000, 0], [6, 2]]  # as it was then, and not by what is large now
    assert "standardized" not in codes(report)


def test_which_columns_are_standardized_is_said_by_the_schema(tmp_path):
    nodes = "id,age,pay,same\na,20,1000,7\nb,40,3000,7\n"
    data, report = nodes_of(tmp_path, nodes, standardize=False)
    assert data.x.tolist() == [[20, 1000, 7], [40, 3000, 7]]
    assert "values up to 3000" in finding(report, "large-feature")
    data, report = nodes_of(tmp_path, nodes, standardize=True)
    assert data.x.tolist() == [[-1, -1, 0], [1, 1, 0]]
    assert [one.level for one in report.findings if one.code == "standardized"] == ["note"]
    assert "large-feature" not in codes(report)


def test_each_entry_of_a_list_is_standardized_alone(tmp_path):
    frame = pl.DataFrame({"id": ["a", "b"], "place": [[0.5, 1000.0], [0.1, 3000.0]]})
    write(tmp_path, nodes_csv=None, edges_csv="source,target\na,b\n")
    frame.write_parquet(tmp_path / "nodes.parquet")
    data, _ = read_table(tmp_path)
    torch.testing.assert_close(data.x, torch.tensor([[0.5, -1.0], [0.1, 1.0]]))
    assert data.encoding["nodes"][0]["mean"] == [0, 2000]


def test_a_number_that_is_filled_in_is_part_of_the_mean(tmp_path):
    data, _ = nodes_of(tmp_path, "id,built\na,2010\nb,2012\nc,\nd,2011\n", fill=0)
    x = data.x.flatten().double()
    assert x.mean() == pytest.approx(0, abs=1e-6)
    assert x.std(correction=0) == pytest.approx(1, abs=1e-6)
    assert x[2] == x.min()


def test_times_in_seconds_stay_distinct(tmp_path):
    data, _ = nodes_of(tmp_path, "id,when\na,1700000030\nb,1700000060\nc,1700000150\n")
    assert len(data.x.unique()) == 3


def test_a_number_far_from_all_others_is_reported(tmp_path):
    lines = "".join(f"{one},{i / 300}\n" for i, one in enumerate(["a", "b", *range(298)]))
    _, report = nodes_of(tmp_path, f"id,share\n{lines}x,9999\n")
    assert "column 'share' has a number 17 standard deviations from the mean" in finding(report, "far-feature")


def test_counts_that_are_mostly_0_stay_sparse(tmp_path):
    counts = np.tile(400 * np.eye(60, dtype=int), (2, 1))
    lines = "".join(f"{one},{','.join(map(str, row))}\n" for one, row in zip(["a", "b", *range(118)], counts))
    data, _ = nodes_of(tmp_path, f"id,{','.join(f'c{j}' for j in range(60))}\n{lines}")
    assert data.x.layout == torch.sparse_csr
    assert data.x.values().unique().tolist() == pytest.approx([60**0.5])


@hypothesis.given(st.lists(st.lists(st.floats(-1e6, 1e6)), max_size=6))
def test_moments_of_blocks_are_those_of_all(blocks):
    moments, whole = Moments(1), np.array([value for block in blocks for value in block]).reshape(-1, 1)
    for block in blocks:
        moments.update(np.array(block).reshape(-1, 1))
    assert moments.count == len(whole)
    if len(whole):
        assert moments.mean[0] == pytest.approx(whole.mean(), abs=1e-6)
        assert (moments.squares[0] / len(whole)) ** 0.5 == pytest.approx(whole.std(), rel=1e-9, abs=1e-6)
        assert (moments.least, moments.most) == (whole.min(), whole.max())


def test_too_many_categories_name_the_way_out(tmp_path):
    nodes = "id,name\n" + "".join(f"{one},{one}{one}\n" for one in "abcdefghijklmno")
    _, report = nodes_of(tmp_path, nodes)
    assert "has a different string in every row; if it is a name, set its type in schema.yaml" in finding(
        report, "feature-like-ids"
    )
    report = errors(tmp_path, schema={"max_categories": 10})
    assert finding(report, "many-categories").endswith(
        "(nodes: features: name: tokens), else use ignore or raise max_categories"
    )
    data, _ = nodes_of(tmp_path, nodes, max_categories=10, nodes={"features": {"name": "ignore"}})
    assert data.x is None


def test_constant_and_empty_columns(tmp_path):
    _, report = nodes_of(tmp_path, "id,a,b,c\na,1,,x\nb,1,,x\n")
    assert finding(report, "constant-feature").startswith("nodes.csv: the features 'a', 'c=x' are constant")
    assert finding(report, "empty-column") == "nodes.csv: column 'b' is empty and ignored"


def test_a_column_that_counts_the_rows_is_reported(tmp_path):
    nodes = "id,Unnamed: 0,a\n" + "".join(f"{one},{i},{i * i}\n" for i, one in enumerate("abcdefghijkl"))
    _, report = nodes_of(tmp_path, nodes)
    assert finding(report, "feature-like-ids").startswith("nodes.csv: column 'Unnamed: 0' counts the rows")


def test_the_kind_of_a_column(tmp_path):
    data, _ = nodes_of(tmp_path, "id,code\na,1\nb,x\nc,y\n")  # more words than numbers
    assert data.encoding["nodes"][0]["vocabulary"] == ["1", "x", "y"]
    data, _ = nodes_of(tmp_path, "id,code\na,01\nb,02\nc,01\n", nodes={"features": {"code": "categorical"}})
    assert data.encoding["nodes"][0]["vocabulary"] == ["01", "02"]


# ---- labels ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "y", "target", "said"),
    [
        (["3", "-1", "", "3"], [1, 0, -1, 1], {"task": "classes", "classes": [-1, 3]}, None),
        (["01", "1", "", "01"], [0, 1, -1, 0], {"task": "classes", "classes": ["01", "1"]}, None),
        (["1.0", "0.0", "nan", "1.0"], [1, 0, -1, 1], {"task": "classes", "classes": [0, 1]}, "classes-as-floats"),
        (["1.5", "0", "", "NA"], [1.5, 0.0, None, None], {"task": "regression"}, None),
        (["True", "False", "", "True"], [1, 0, -1, 1], {"task": "classes", "classes": ["False", "True"]}, None),
        (["a;b", "a", "", "a"], [1, 0, -1, 0], {"task": "classes", "classes": ["a", "a;b"]}, "labels-like-lists"),
    ],
)
def test_labels(tmp_path, labels, y, target, said):
    nodes = "id,label\n" + "".join(f"{one},{label}\n" for one, label in zip("abcd", labels))
    data, report = nodes_of(tmp_path, nodes)
    assert [None if v != v else v for v in data.y.tolist()] == y
    assert data.encoding["target"] == target | {"columns": ["label"]}
    assert said is None or said in codes(report)


def test_many_whole_numbers_may_be_meant_as_numbers(tmp_path):
    for count, said in ((10, False), (11, True)):
        _, report = nodes_of(tmp_path, "id,label\na,0\nb,1\n" + "".join(f"a{i},{i % count}\n" for i in range(60)))
        assert ("classes-as-numbers" in codes(report)) is said
    assert finding(report, "classes-as-numbers").endswith(
        "read as classes (for numbers set task: regression in schema.yaml)"
    )


def test_several_labels_in_one_cell(tmp_path):
    data, _ = nodes_of(tmp_path, "id,label\na,x;y\nb,y\nc,\n", task="multi-label")
    assert data.y[:2].tolist() == [[1, 1], [0, 1]]
    assert bool(data.y[2].isnan().all())
    assert data.encoding["target"]["classes"] == ["x", "y"]


def test_several_columns_of_labels(tmp_path):
    nodes = "id,x,y\na,0,1\nb,1,\nc,1,1\n"
    data, _ = nodes_of(tmp_path, nodes, nodes={"label": ["x", "y"]})
    assert data.encoding["target"]["task"] == "multi-label"
    assert data.y[0].tolist() == [0, 1]
    assert bool(data.y[1, 1].isnan())
    data, _ = nodes_of(tmp_path, nodes.replace("0,1", "0,7.5"), nodes={"label": ["x", "y"]})
    assert data.encoding["target"] == {"task": "regression", "columns": ["x", "y"]}
    report = errors(tmp_path, schema={"nodes": {"label": ["x", "y"]}, "task": "multi-label"})
    assert (
        finding(report, "not-a-number")
        == "nodes.csv, line 2: column 'y' contains '7.5', but multi-label labels must be 0 or 1"
    )
    report = errors(tmp_path, schema={"nodes": {"label": ["x", "y"]}, "task": "classes"})
    assert "task: classes needs one label column" in finding(report, "columns")


def test_a_task_that_is_said(tmp_path):
    data, _ = nodes_of(tmp_path, "id,label\na,1\nb,2\n", task="regression")
    assert data.y.tolist() == [1.0, 2.0]
    assert data.y.dtype == torch.float32
    write(tmp_path, nodes_csv="id,label\na,1\nb,two\n", edges_csv="source,target\na,b\n")
    report = errors(tmp_path, schema={"task": "regression"})
    assert finding(report, "not-a-number").startswith("nodes.csv, line 3: column 'label' contains ")


def test_who_has_no_label_is_in_no_part(tmp_path):
    data, report = nodes_of(tmp_path, "id,label,split\na,1,train\nb,,test\nc,0,test\n")
    assert data.test_mask.tolist() == [False, False, True]
    assert finding(report, "split-without-label").startswith("nodes.csv, line 3: ")
    data, report = nodes_of(tmp_path, "id,a,split\na,1,train\nb,2,test\n")
    assert "train_mask" not in data
    assert "ignored because there are no labels" in finding(report, "split-without-labels")


# ---- schema ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
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
        (
            "nodes: {label: 5}",
            "nodes.label is 5, but must be a name (in quotation marks if it is a number) or a list",
        ),
        ("- a\n- b", "expected keys and values such as 'undirected: false'"),
        ("a: [", "not valid YAML: expected the node content, but found '<stream end>' (line 1)"),
    ],
)
def test_a_wrong_schema(tmp_path, text, message):
    write(tmp_path, schema_yaml=text)
    with pytest.raises(DataError, match=re.escape(message)):
        read_table(tmp_path)


def test_a_schema_of_another_name(tmp_path):
    write(tmp_path)
    (tmp_path / "schema.yml").write_text("undirected: false")
    with pytest.raises(DataError, match=r"schema.yml is not read; rename it to schema.yaml"):
        read_table(tmp_path)


def test_a_class_that_may_be_none(tmp_path):
    data, report = nodes_of(tmp_path, "id,label\na,x\nb,NA\nc,NA\n")
    assert data.y.tolist() == [1, 0, 0]
    assert finding(report, "class-like-missing").endswith(
        "column 'label' has the class 'NA' (2 rows); leave cells empty for no label"
    )


def test_labels_that_differ_in_case_only(tmp_path):
    write(tmp_path, nodes_csv="id,Label,label\na,1,0\nb,0,1\n", edges_csv="source,target\na,b\n")
    assert "columns 'Label', 'label' could each be the label" in finding(errors(tmp_path), "columns")


def test_a_schema_that_names_columns_that_are_not_there(tmp_path):
    write(tmp_path, schema_yaml="nodes: {id: ID, label: lable, features: {twon: ignore}}\nedges: {weight: source}")
    report = errors(tmp_path)
    assert [f.message for f in report.findings if f.level == "error"] == [
        "there is no column 'twon' for nodes.features; did you mean 'town'?",
        "there is no column 'ID' for nodes.id; did you mean 'id'?",
        "there is no column 'lable' for nodes.label; did you mean 'label'?",
    ]
    report = errors(tmp_path, schema={"edges": {"weight": "source", "source": "source"}})
    assert "column 'source' has two roles, source and weight" in str(report)


def test_a_schema_that_speaks_of_what_is_not_there(tmp_path):
    schema = {"graphs": {"label": "kind"}, "nodes": {"graph": "town"}}
    report = errors(write(tmp_path), schema=schema)
    assert finding(report, "schema").endswith(
        "the section 'graphs' has no table graphs.csv; the folder has 'nodes', 'edges'"
    )
    report = errors(tmp_path, schema={"nodes": {"graph": "town"}, "edges": {"graph": "source"}})
    assert finding(report, "columns").endswith(
        "nodes.graph ('town') is only for data sets of many graphs, but there is no graph table (graphs.csv)"
    )
    (tmp_path / "nodes.csv").unlink()
    report = errors(tmp_path, schema={"nodes": {"label": "town"}})
    assert finding(report, "schema").endswith("the section 'nodes' has no table nodes.csv; the folder has 'edges'")


@pytest.mark.parametrize("role", ["label", "split"])
def test_labels_of_nodes_in_a_set_of_graphs(tmp_path, role):
    (tmp_path / "graphs.csv").write_text("id,label\nfirst,0\nsecond,1\n")
    (tmp_path / "nodes.csv").write_text("graph,id,size\nfirst,a,1\nsecond,a,3\n")
    (tmp_path / "edges.csv").write_text("graph,source,target\nfirst,a,a\n")
    message = f"nodes.{role} ('size') is only for a single graph; for a data set of many graphs set graphs.{role}"
    with pytest.raises(DataError, match=re.escape(message)):
        read_graph_tables(tmp_path, schema={"nodes": {role: "size"}})


def test_the_mean_of_each_entry_of_a_list_is_filled_in(tmp_path):
    rows = [[1000.0, 0.0], [1002.0, 0.2], None]
    pl.DataFrame({"id": list("abc"), "e": rows}).write_parquet(tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    listed, report = read_table(tmp_path, schema={"fill": "mean"})
    assert listed.encoding["nodes"][0]["fill"] == pytest.approx([1001.0, 0.1])
    assert "filled with the mean of each entry" in finding(report, "filled-number")
    assert "far-feature" not in codes(report)
    (tmp_path / "nodes.parquet").unlink()
    apart, _ = nodes_of(tmp_path, "id,a,b\na,1000,0\nb,1002,0.2\nc,,\n", fill="mean")
    assert torch.allclose(listed.x, apart.x)
    pl.DataFrame({"id": ["d"], "e": [None]}, schema={"id": pl.String, "e": pl.List(pl.Float64)}).write_parquet(
        tmp_path / "nodes.parquet"
    )
    (tmp_path / "nodes.csv").unlink()
    (tmp_path / "edges.csv").write_text("source,target\nd,d\n")
    again, _ = read_table(tmp_path, listed.encoding)
    assert torch.allclose(again.x[0], listed.x[2])


def test_a_list_that_begins_with_nothing(tmp_path):
    frame = pl.DataFrame({"id": list("abc"), "tags": [[], ["x", "y"], ["z"]], "none": [[], [], []]})
    frame.write_parquet(tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    data, report = read_table(tmp_path)
    assert data.x.to_dense().tolist() == [[0, 0, 0], [1, 1, 0], [0, 0, 1]]
    assert "'none' is empty" in finding(report, "empty-column")
    frame.with_columns(tags=pl.Series([[], [1.0, 2.0], [3.0, 4.0]])).write_parquet(tmp_path / "nodes.parquet")
    assert "has a list of 0 numbers, but other rows have 2" in finding(errors(tmp_path), "wrong-length")


def test_dates_are_no_labels(tmp_path):
    dates = pl.Series(["2020-01-01", "2021-01-01"]).str.to_date()
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    for values in (dates, dates - dates.shift(-1)):
        pl.DataFrame({"id": ["a", "b"], "label": values}).write_parquet(tmp_path / "nodes.parquet")
        assert "which cannot be a label; use strings or numbers" in finding(errors(tmp_path), "unknown-kind")
    pl.DataFrame({"id": dates - dates.shift(1)}).write_parquet(tmp_path / "nodes.parquet")
    assert "the id must be a string or a number" in finding(errors(tmp_path), "unknown-kind")


def test_new_data_may_have_a_split_of_its_own(tmp_path):
    trained, _ = nodes_of(tmp_path, "id,age,label,split\na,1,x,train\nb,2,y,test\n")
    for word in ("test", "holdout"):
        (tmp_path / "nodes.csv").write_text(f"id,age,label,split\na,1,x,{word}\nb,2,y,{word}\n")
        found, _ = read_table(tmp_path, trained.encoding)
        assert found.y.tolist() == [0, 1]
        assert "train_mask" not in found


def test_columns_of_graphs_that_are_not_used_are_reported(tmp_path):
    (tmp_path / "graphs.csv").write_text("id,label,temperature\nfirst,0,20\nsecond,1,30\n")
    (tmp_path / "nodes.csv").write_text("graph,id,size\nfirst,a,1\nsecond,a,3\n")
    (tmp_path / "edges.csv").write_text("graph,source,target\nfirst,a,a\n")
    _, report = read_graph_tables(tmp_path)
    assert "column 'temperature' ignored" in finding(report, "ignored-column")


def test_an_empty_schema_changes_nothing(tmp_path):
    expected, _ = read_table(write(tmp_path))
    found, _ = read_table(write(tmp_path, schema_yaml="# nothing yet\n"))
    assert found.encoding == expected.encoding


# ---- new data, encoded as before -------------------------------------------------------------------------------


def test_new_nodes_are_encoded_like_the_training_data(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    schema = {"nodes": {"id": "age", "label": "label", "features": {"text": "tokens"}}, "fill": "mean"}
    nodes = "size,town,text,label,age\n1,Rome,a b,red,7\n3,Oslo,b,blue,8\n,Rome,c,red,9\n"
    edges = "source,target,weight,kind\n7,8,0.5,x\n8,9,1,y\n"
    first, _ = read_table(write(old, nodes_csv=nodes, edges_csv=edges), schema=schema)
    encoding = json.loads(json.dumps(first.encoding))

    again, _ = read_table(old, encoding)
    assert again.encoding == encoding
    for key in ("x", "y", "edge_index", "edge_weight", "edge_attr"):
        assert torch.equal(again[key], first[key]), key

    nodes = "age,text,extra,town,size\n1,a d,0,Paris,\n2,b,0,Oslo,6\n"
    write(new, nodes_csv=nodes, edges_csv="source,target,weight,kind\n1,2,1,z\n", schema_yaml="undirected: false")
    data, report = read_table(new, encoding)
    assert data.x.tolist() == [[2, 0, 0, 1, 0, 0], [6, 1, 0, 0, 1, 0]]  # size, Oslo, Rome, a, b, c
    assert data.edge_attr.tolist() == [[0, 0], [0, 0]]
    assert data.edge_index.size(1) == 2
    assert data.y is None
    assert [f.message for f in report.findings if f.code == "unknown-category"] == [
        "column 'kind' has unknown categories, not in the training data: 'z'; encoded as zeros",
        "column 'town' has unknown categories, not in the training data: 'Paris'; encoded as zeros",
    ]
    assert finding(report, "unknown-token").startswith(
        "nodes.csv, line 2: column 'text' has unknown tokens, not in the training data: 'd'"
    )
    assert finding(report, "schema-unused").startswith("schema.yaml: the file is ignored")

    labeled = "age,text,town,size,label\n1,a,Rome,1,blue\n2,b,Oslo,6,green\n"
    data, report = read_table(write(new, nodes_csv=labeled, edges_csv="source,target,weight,kind\n1,2,1,x\n"), encoding)
    assert data.y.tolist() == [0, -1]
    assert "column 'label' has unknown classes, not in the training data: 'green'" in finding(report, "unknown-class")

    write(new, nodes_csv="age,text\n1,a\n2,b\n", edges_csv="source,target,weight,kind\n1,2,1,x\n")
    report = errors(new, encoding=encoding)
    assert finding(report, "missing-column").startswith(
        "nodes.csv: columns 'size', 'town' of the training data are missing"
    )
    (new / "nodes.csv").write_text("age,text,town\n1,a,Rome\n2,b,Oslo\n")
    report = errors(new, encoding=encoding)
    assert finding(report, "missing-column").startswith("nodes.csv: column 'size' of the training data is missing")
    write(new, nodes_csv="age,text,town,size\n1,a,x,\n2,b,x,1\n", edges_csv="source,target,kind\n1,2,x\n")
    assert "there is no column 'weight' for edges.weight" in finding(errors(new, encoding=encoding), "columns")
    edges = "source,target,kind,weight,label,split\n1,2,x,1,5,train\n"
    unweighted = {key: value for key, value in encoding["schema"]["edges"].items() if key != "weight"}
    less = encoding | {"schema": encoding["schema"] | {"edges": unweighted}}
    data, _ = read_table(write(new, nodes_csv="age,text,town,size\n1,a,x,1\n2,b,x,1\n", edges_csv=edges), less)
    assert "edge_weight" not in data  # what was learned without weights is given none
    with pytest.raises(ValueError, match="encoding has the format 'table' and the version 7"):
        read_table(new, encoding | {"version": 7})


def test_sparse_stays_sparse_for_new_nodes(tmp_path):
    words = " ".join(f"w{i}" for i in range(40))
    nodes = f"id,text\na,{words}\n" + "".join(f"n{i},w1\n" for i in range(30))
    schema = {"nodes": {"features": {"text": "tokens"}}}
    first, _ = nodes_of(tmp_path, nodes + "b,w1\n", **schema)
    assert first.x.layout == torch.sparse_csr
    write(tmp_path, nodes_csv=f"id,text\na,{words}\nb,{words}\n", edges_csv="source,target\na,b\n")
    again, _ = read_table(tmp_path, first.encoding)
    assert again.x.layout == torch.sparse_csr
    assert np.array_equal(again.x.to_dense().numpy(), np.ones((2, 40)))


CELLS = {
    "categorical": st.sampled_from(["007", "7", "7.0", "1e3", "a", "nan", ""]),
    "tokens": st.sampled_from(["7", "007 8", "8 a", "9;7", ""]),
    "numeric": st.sampled_from(["7", "-0.5", "1e3", "007"]),
    None: st.sampled_from(["7", "1e3", "007"]),
    "word": st.sampled_from(["a", "b", "c 7", ""]),
}


@hypothesis.given(data=st.data())
@hypothesis.settings(deadline=None, max_examples=60)
@pytest.mark.parametrize("many", [False, True])
def test_what_is_read_with_its_own_encoding_is_the_same(tmp_path_factory, many, data):
    """Columns of words that look like numbers, of nodes and of edges, in one graph and in many."""
    folder = tmp_path_factory.mktemp("tables")
    kinds = data.draw(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=4))
    count = data.draw(st.integers(2, 5))
    rows = [",".join(f'"{data.draw(CELLS[kind])}"' for kind in kinds) for _ in range(count)]
    names = ",".join(f"c{i}" for i in range(len(kinds)))
    schema = {"features": {f"c{i}": kind for i, kind in enumerate(kinds) if kind not in (None, "word")}}
    graph, in_graph = ("graph,", "g,") if many else ("", "")
    (folder / "nodes.csv").write_text(
        f"{graph}id,{names}\n" + "".join(f"{in_graph}n{i},{row}\n" for i, row in enumerate(rows))
    )
    (folder / "edges.csv").write_text(
        f"{graph}source,target,{names}\n" + "".join(f"{in_graph}n0,n{i},{row}\n" for i, row in enumerate(rows))
    )
    if many:
        (folder / "graphs.csv").write_text("id\ng\n")
    read = read_graph_tables if many else read_table
    first, _ = read(folder, schema={"nodes": schema, "edges": schema, "self_loops": "keep"})
    again, _ = read(folder, json.loads(json.dumps(first.encoding)))
    for name in ("x", "edge_attr"):
        one, other = getattr(first, name), getattr(again, name)
        assert (one is None and other is None) or torch.equal(one.to_dense(), other.to_dense()), name


@pytest.mark.parametrize(("fill", "taken"), [("mean", 20), (7, 7)])
def test_what_to_fill_in_is_known_for_new_data(tmp_path, fill, taken):
    data, _ = nodes_of(tmp_path, "id,age\na,10\nb,30\n", fill=fill)
    write(tmp_path, nodes_csv="id,age\na,\nb,3\n", edges_csv="source,target\na,b\n")
    new, _ = read_table(tmp_path, json.loads(json.dumps(data.encoding)))
    assert new.x.flatten().tolist() == [taken, 3]


def test_the_error_about_a_missing_number_in_new_data_does_not_suggest_the_schema_of_the_folder(tmp_path):
    data, _ = nodes_of(tmp_path, "id,age\na,10\nb,30\n")
    write(tmp_path, nodes_csv="id,age\na,\nb,3\n", edges_csv="source,target\na,b\n", schema_yaml="fill: mean")
    assert "add it, or train again with a fill value in schema.yaml (fill: mean)" in finding(
        errors(tmp_path, encoding=data.encoding), "missing-feature"
    )


def test_nodes_where_there_were_none(tmp_path):
    first, _ = read_table(write(tmp_path, nodes_csv=None))
    report = errors(write(tmp_path), encoding=first.encoding)
    assert finding(report, "columns") == ("nodes.csv: the training data had no table of nodes; remove this file")


def test_lists_where_there_were_words(tmp_path):
    first, _ = nodes_of(tmp_path, "id,town\na,Rome\nb,Oslo\n")
    write(tmp_path, nodes_csv=None, edges_csv="source,target\na,b\n")
    for town in ([["Rome"], ["Oslo"]], [{"a": 1}, {"a": 2}], [b"x", b"\xff"]):
        pl.DataFrame({"id": ["a", "b"], "town": town}).write_parquet(tmp_path / "nodes.parquet")
        assert "cannot be encoded as categorical" in finding(errors(tmp_path, encoding=first.encoding), "unknown-kind")


def test_the_task_that_is_said_is_the_task(tmp_path):
    nodes = "id,y1,y2\na,0,1\nb,1,0\n"
    columns = {"label": ["y1", "y2"]}
    for task, target in (("regression", "number"), ("multi-label", "labels")):
        data, _ = nodes_of(tmp_path, nodes, nodes=columns, task=task)
        assert (infer_dataset_info(data, "", "").target, infer_dataset_info(data, "", "").outputs) == (target, 2)
    data, _ = nodes_of(tmp_path, "id,a,label\na,1,red\nb,2,\n")
    assert (infer_dataset_info(data, "", "").target, infer_dataset_info(data, "", "").outputs) == ("classes", 1)
