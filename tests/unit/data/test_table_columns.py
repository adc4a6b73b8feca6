"""Features and labels of tables."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
import torch
from tests.unit.data.tables import codes, errors, finding, nodes_of, write

from tgnn.data.dataset_info import infer_dataset_info
from tgnn.data.readers.detect import read_path

# ---- features ---------------------------------------------------------------------------------------------------


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
    write(tmp_path, nodes_csv=f"id,text\na,{' '.join(words)}\nb,{' '.join(words)}\n", edges_csv="source,target\na,b\n")
    again, _ = read_path(tmp_path, encoding=data.encoding)
    assert again.x.layout == torch.sparse_csr  # new data stays sparse
    assert torch.equal(again.x.to_dense(), torch.ones(2, 60))


@pytest.mark.parametrize("separator", [None, "|"])
def test_separators_of_tokens(tmp_path, separator):
    nodes = "id,text\na,red wine;beer\nb,beer\n".replace(";", separator or ";")
    data, _ = nodes_of(tmp_path, nodes, nodes={"features": {"text": "tokens"}}, separator=separator)
    encoding = {"column": "text", "kind": "tokens", "separator": separator or ";", "vocabulary": ["beer", "red wine"]}
    assert data.encoding["nodes"][0] == encoding
    assert data.x.tolist() == [[1, 1], [1, 0]]  # few columns: dense


def test_many_columns_of_zeros_are_stored_sparse(tmp_path):
    counts = np.tile(400 * np.eye(60, dtype=int), (2, 1))
    lines = "".join(f"{one},{','.join(map(str, row))}\n" for one, row in zip(["a", "b", *range(118)], counts))
    data, _ = nodes_of(tmp_path, f"id,{','.join(f'c{j}' for j in range(60))}\n{lines}")
    assert data.x.layout == torch.sparse_csr
    assert torch.allclose(data.x.to_dense(), torch.eye(60).repeat(2, 1))  # scaled, but not shifted


def test_lists_of_parquet(tmp_path):
    nodes = {"id": ["a", "b"], "vector": [[1.0, 2.0], [3.0, 4.0]], "words": [["x", "y"], ["y"]], "flag": [True, False]}
    data, _ = nodes_of(tmp_path, nodes)
    assert data.x.tolist() == [[1, 2, 1, 1, 1], [3, 4, 0, 1, 0]]
    array, _ = nodes_of(tmp_path, nodes | {"vector": pl.Series(nodes["vector"], dtype=pl.Array(pl.Float64, 2))})
    assert torch.equal(array.x, data.x)
    write(tmp_path, nodes_parquet=nodes | {"vector": [1.0, 2.0]}, edges_csv="source,target\na,b\n")
    assert "column 'vector' must contain lists of 2 numbers" in finding(errors(tmp_path, data.encoding), "wrong-length")
    data, report = nodes_of(tmp_path, {"id": list("abc"), "tags": [[], ["x", "y"], ["z"]], "none": [[], [], []]})
    assert data.x.to_dense().tolist() == [[0, 0, 0], [1, 1, 0], [0, 0, 1]]
    assert "'none' is empty" in finding(report, "empty-column")


def test_missing_numbers_are_filled_if_the_schema_says_so(tmp_path):
    nodes = "id,a,b\na,1,5\nb,,\nc,3,nan\n"
    data, report = nodes_of(tmp_path, nodes, fill="mean")
    assert data.x.tolist() == [[1, 5], [2, 5], [3, 5]]
    assert [str(one) for one in report.findings if one.code == "filled-number"] == [
        "nodes.csv, line 3: column 'a' has a missing number, filled with 2",
        "nodes.csv, lines 3, 4: column 'b' has a missing number, filled with 5",
    ]
    assert [one["fill"] for one in data.encoding["nodes"]] == [2, 5]
    data, _ = nodes_of(tmp_path, nodes, fill=-1)
    assert data.x.tolist() == [[1, 5], [-1, -1], [3, -1]]


@pytest.mark.parametrize(
    ("fill", "message"), [("mean", None), (7, None), (None, "or train again with a fill value in schema.yaml")]
)
def test_new_data_is_filled_with_the_values_of_the_training_data(tmp_path, fill, message):
    data, _ = nodes_of(tmp_path, "id,age\na,10\nb,30\n", fill=fill)
    write(tmp_path, nodes_csv="id,age\na,\nb,3\n", edges_csv="source,target\na,b\n", schema_yaml="fill: mean")
    if message:  # the schema of the folder is not used
        assert message in finding(errors(tmp_path, data.encoding), "missing-feature")
    else:
        new, _ = read_path(tmp_path, encoding=json.loads(json.dumps(data.encoding)))
        assert new.x.flatten().tolist() == [20 if fill == "mean" else 7, 3]


def test_the_mean_of_each_entry_of_a_list_is_filled_in(tmp_path):
    nodes = {"id": list("abc"), "e": [[1000.0, 0.0], [1002.0, 0.2], None]}
    listed, report = nodes_of(tmp_path, nodes, fill="mean")
    assert listed.encoding["nodes"][0]["fill"] == pytest.approx([1001.0, 0.1])
    assert listed.encoding["nodes"][0]["mean"] == pytest.approx([1001.0, 0.0])  # the second entry is small
    assert "filled with the mean of each entry" in finding(report, "filled-number")
    assert "far-feature" not in codes(report)
    missing = pl.Series([None, None], dtype=pl.List(pl.Float64))
    write(tmp_path, nodes_parquet={"id": ["a", "b"], "e": missing}, edges_csv="source,target\na,b\n")
    again, _ = read_path(tmp_path, encoding=listed.encoding)
    assert torch.allclose(again.x[0], listed.x[2])
    (tmp_path / "nodes.parquet").unlink()
    apart, _ = nodes_of(tmp_path, "id,a,b\na,1000,0\nb,1002,0.2\nc,,\n", fill="mean")
    assert torch.allclose(listed.x, apart.x)


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
    new, report = read_path(tmp_path, encoding=json.loads(json.dumps(data.encoding)))
    assert new.x.tolist() == [[5000, 0], [6, 2]]  # with the statistics of the training data
    assert "standardized" not in codes(report)


def test_the_schema_decides_which_columns_are_standardized(tmp_path):
    nodes = "id,age,pay,same\na,20,1000,7\nb,40,3000,7\n"
    data, report = nodes_of(tmp_path, nodes, standardize=False)
    assert data.x.tolist() == [[20, 1000, 7], [40, 3000, 7]]
    assert "values up to 3000" in finding(report, "large-feature")
    data, report = nodes_of(tmp_path, nodes, standardize=True)
    assert data.x.tolist() == [[-1, -1, 7], [1, 1, 7]]  # a constant column stays as it is
    assert [one.level for one in report.findings if one.code == "standardized"] == ["note"]
    assert "large-feature" not in codes(report)


def test_a_number_that_is_filled_in_is_part_of_the_mean(tmp_path):
    data, _ = nodes_of(tmp_path, "id,built\na,2010\nb,2012\nc,\nd,2011\n", fill=0)
    x = data.x.flatten().double()
    assert x.mean() == pytest.approx(0, abs=1e-6)
    assert x.std(correction=0) == pytest.approx(1, abs=1e-6)
    assert x[2] == x.min()


def test_times_in_seconds_stay_distinct(tmp_path):
    data, _ = nodes_of(tmp_path, "id,when\na,1700000030\nb,1700000060\nc,1700000150\n")
    assert len(data.x.unique()) == 3


FAR = "id,share\n" + "".join(f"{one},{i / 300}\n" for i, one in enumerate(["a", "b", *range(298)])) + "x,9999\n"
NAMES = "id,name\n" + "".join(f"{one},{one}{one}\n" for one in "abcdefghijklmno")
COUNTED = "id,Unnamed: 0,c\n" + "".join(f"{one},{i},{i * i}\n" for i, one in enumerate("abcdefghijkl"))
MANY_NUMBERS = "id,label\na,10\nb,12\n" + "".join(f"a{i},{i % 15}\n" for i in range(60))
MANY_CLASSES = "id,label\na,0\nb,1\n" + "".join(f"a{i},{i % 11}\n" for i in range(60))


@pytest.mark.parametrize(
    ("nodes", "code", "message"),
    [
        (FAR, "far-feature", "column 'share' has a number 17 standard deviations from the mean"),
        (
            NAMES,
            "feature-like-ids",
            "has a different string in every row and is ignored; to use it, set its type",
        ),
        (COUNTED, "feature-like-ids", "nodes.csv: column 'Unnamed: 0' contains consecutive integers"),
        ("id,c,b,d\na,1,,x\nb,1,,x\n", "constant-feature", "nodes.csv: the features 'c', 'd=x' are constant"),
        ("id,c,b,d\na,1,,x\nb,1,,x\n", "empty-column", "nodes.csv: column 'b' is empty and ignored"),
        ("id;c\na;1,5\nb;2,5\n", "decimal-comma", "column 'c' is read as categorical, but has decimal commas"),
        (
            "id,label\na,x\nb,NA\nc,NA\n",
            "class-like-missing",
            "column 'label' has the class 'NA' (2 rows); leave",
        ),
        ("id,label\na,a;b\nb,a\n", "labels-like-lists", "column 'label' contains ';'; if cells are lists of labels"),
        (
            "id,label\na,1.0\nb,0.0\n",
            "classes-as-floats",
            "column 'label' has integers written as 1.0; read",
        ),
        (MANY_NUMBERS, "integers-as-numbers", "column 'label' has 15 different integers; read as numbers (for classes"),
        (MANY_CLASSES, "classes-as-numbers", "column 'label' has 11 different integers; read as classes (for numbers"),
        ("id,label,split\na,1,train\nb,,test\nc,0,test\n", "split-without-label", "nodes.csv, line 3: column 'split'"),
        ("id,c,split\na,1,train\nb,2,test\n", "split-without-labels", "ignored because there are no labels"),
    ],
)
def test_columns_that_look_odd_are_reported(tmp_path, nodes, code, message):
    _, report = nodes_of(tmp_path, nodes)
    assert message in finding(report, code)
    assert code in codes(report, "warning")


def test_too_many_categories_name_the_way_out(tmp_path):
    schema = {"max_categories": 10, "nodes": {"features": {"name": "categorical"}}}
    report = errors(write(tmp_path, nodes_csv=NAMES, edges_csv="source,target\na,b\n", schema_yaml=schema))
    assert finding(report, "many-categories").endswith(
        "(nodes: features: name: tokens), else use ignore or raise max_categories"
    )
    data, _ = nodes_of(tmp_path, NAMES, max_categories=10, nodes={"features": {"name": "ignore"}})
    assert data.encoding["nodes"] == []


def test_the_kind_of_a_column(tmp_path):
    data, _ = nodes_of(tmp_path, "id,code\na,1\nb,x\nc,y\n")  # more words than numbers
    assert data.encoding["nodes"][0]["vocabulary"] == ["1", "x", "y"]
    data, _ = nodes_of(tmp_path, "id,code\na,01\nb,02\nc,01\n", nodes={"features": {"code": "categorical"}})
    assert data.encoding["nodes"][0]["vocabulary"] == ["01", "02"]


# ---- labels -----------------------------------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("nodes", "schema", "y", "target"),
    [
        ("label\n3\n-1\n\n3", {}, [1, 0, -1, 1], {"task": "classification", "classes": [-1, 3]}),
        ("label\n01\n1\n\n01", {}, [0, 1, -1, 0], {"task": "classification", "classes": ["01", "1"]}),
        ("label\n1.0\n0.0\nnan\n1.0", {}, [1, 0, -1, 1], {"task": "classification", "classes": [0, 1]}),
        ("label\n1.5\n0\n\nNA", {}, [1.5, 0, NAN, NAN], {"task": "regression"}),
        ("label\n1.0\n1e20\n2.0", {}, [1, 1e20, 2], {"task": "regression"}),
        ("label\n" + "\n".join(f"{i}.0" for i in range(12)), {}, list(range(12)), {"task": "regression"}),
        ("label\nTrue\nFalse\n\nTrue", {}, [1, 0, -1, 1], {"task": "classification", "classes": ["False", "True"]}),
        ("label\na;b\na\n\na", {}, [1, 0, -1, 0], {"task": "classification", "classes": ["a", "a;b"]}),
        ("label\nx\nNA\nNA", {}, [1, 0, 0], {"task": "classification", "classes": ["NA", "x"]}),
        ("label\n1\n2", {"task": "regression"}, [1, 2], {"task": "regression"}),
        (
            "label\nx;y\ny\n",
            {"task": "multi-label"},
            [[1, 1], [0, 1], [NAN, NAN]],
            {"task": "multi-label", "classes": ["x", "y"], "separator": ";"},
        ),
        ("u,v\n0,1\n1,\n1,1", {}, [[0, 1], [1, NAN], [1, 1]], {"task": "multi-label", "classes": ["u", "v"]}),
        ("u,v\n0,1\n1,0", {"task": "regression"}, [[0, 1], [1, 0]], {"task": "regression"}),
        ("u,v\n0,7.5\n1,", {}, [[0, 7.5], [1, NAN]], {"task": "regression"}),
    ],
)
def test_labels(tmp_path, nodes, schema, y, target):
    header, *rows = nodes.split("\n")
    columns = header.split(",")
    lines = [f"id,{header}", *(f"{one},{row}" for one, row in zip("abcdefghijkl", rows))]
    data, _ = nodes_of(tmp_path, "\n".join(lines) + "\n", nodes={"label": columns}, **schema)
    np.testing.assert_array_equal(data.y.numpy(), np.array(y, dtype=data.y.numpy().dtype))
    assert data.encoding["target"] == target | {"columns": columns}


@pytest.mark.parametrize(
    ("nodes", "schema", "code", "message"),
    [
        ("id,u,v\na,0,7.5\nb,1,\n", {"task": "multi-label"}, "not-a-number", "line 2: column 'v' contains '7.5', but"),
        (
            "id,u,v\na,0,7.5\nb,1,\n",
            {"task": "classification"},
            "columns",
            "task: classification needs one label column",
        ),
        ("id,u,v\na,1,1\nb,two,1\n", {"task": "regression"}, "not-a-number", "line 3: column 'u' contains 'two', but"),
    ],
)
def test_labels_that_do_not_fit_the_task(tmp_path, nodes, schema, code, message):
    schema = schema | {"nodes": {"label": ["u", "v"]}}
    report = errors(write(tmp_path, nodes_csv=nodes, edges_csv="source,target\na,b\n", schema_yaml=schema))
    assert message in finding(report, code)


@pytest.mark.parametrize(
    ("nodes", "schema", "target", "outputs"),
    [
        ("id,u,v\na,0,1\nb,1,0\n", {"task": "regression", "nodes": {"label": ["u", "v"]}}, "regression", 2),
        ("id,u,v\na,0,1\nb,1,0\n", {"task": "multi-label", "nodes": {"label": ["u", "v"]}}, "multi-label", 2),
        ("id,a,label\na,1,red\nb,2,\n", {}, "classification", 1),
    ],
)
def test_the_schema_decides_the_task(tmp_path, nodes, schema, target, outputs):
    info = infer_dataset_info(nodes_of(tmp_path, nodes, **schema)[0], "", "")
    assert (info.target, info.outputs) == (target, outputs)


def test_a_comma_separates_thousands(tmp_path):
    nodes = 'id,pay,debt,label\na,"1,000",5,"1,250,000"\nb,"-2,500.5",n/a,"900"\n'
    data, report = nodes_of(tmp_path, nodes, standardize=False, fill=0, task="regression")
    assert data.x.tolist() == [[1000.0, 5.0], [-2500.5, 0.0]]
    assert data.y.tolist() == [1_250_000.0, 900.0]
    data, report = nodes_of(tmp_path, "id;pay\na;1,000\nb;1,5\n")
    assert data.encoding["nodes"][0]["kind"] == "categorical"
    assert "decimal-comma" in codes(report)


def test_wide_tables_are_checked_in_linear_time(tmp_path):
    columns = 30_000  # a check that is quadratic in the columns would not end
    header = ",".join(["id", *(f"w{number}" for number in range(columns))])
    rows = "".join(
        f"{name}," + ",".join("01"[number % 7 == row] for number in range(columns)) + "\n"
        for row, name in enumerate("abc")
    )
    data, report = nodes_of(tmp_path, f"{header}\n{rows}")
    assert (data.x.size(1), report.ok) == (columns, True)
