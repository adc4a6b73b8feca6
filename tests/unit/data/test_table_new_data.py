"""New tables that are encoded as the training data, and differences between two encodings."""

from __future__ import annotations

import json

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from tests.unit.data.tables import errors, finding, nodes_of, write

from tgnn.data.readers.detect import read_path
from tgnn.data.tables.compare_encodings import first_difference

OLD_NODES = "size,town,text,label,age\n1,Rome,a b,red,7\n3,Oslo,b,blue,8\n,Rome,c,red,9\n"
OLD_EDGES = "source,target,weight,kind\n7,8,0.5,x\n8,9,1,y\n"
EDGE = "source,target,weight,kind\n1,2,1,x\n"


@pytest.fixture
def trained(tmp_path):
    schema = {"nodes": {"id": "age", "label": "label", "features": {"text": "tokens"}}, "fill": "mean"}
    data, _ = read_path(write(tmp_path, nodes_csv=OLD_NODES, edges_csv=OLD_EDGES, schema_yaml=schema))
    data.encoding = json.loads(json.dumps(data.encoding))
    return data


def test_new_nodes_are_encoded_like_the_training_data(tmp_path, trained):
    again, report = read_path(tmp_path, encoding=trained.encoding)
    assert again.encoding == trained.encoding
    for key in ("x", "y", "edge_index", "edge_weight", "edge_attr"):
        assert torch.equal(again[key], trained[key]), key
    assert finding(report, "schema-unused").startswith("schema.yaml: the file is ignored")

    nodes = "age,text,extra,town,size\n1,a d,0,Paris,\n2,b,0,Oslo,6\n"
    write(tmp_path, nodes_csv=nodes, edges_csv=EDGE.replace("x", "z"), schema_yaml="undirected: false")
    data, report = read_path(tmp_path, encoding=trained.encoding)
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
    for part in ("train", "holdout"):  # new data may have its own split
        nodes = f"age,text,town,size,label,split\n1,a,Rome,1,blue,{part}\n2,b,Oslo,6,green,{part}\n"
        data, report = read_path(write(tmp_path, nodes_csv=nodes, edges_csv=EDGE), encoding=trained.encoding)
        assert data.y.tolist() == [0, -1]
        assert "train_mask" not in data
        assert "unknown classes, not in the training data: 'green'" in finding(report, "unknown-class")


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ("age,text\n1,a\n2,b\n", EDGE, "nodes.csv: columns 'size', 'town' of the training data are missing"),
        ("age,text,town\n1,a,x\n2,b,x\n", EDGE, "nodes.csv: column 'size' of the training data is missing"),
        (
            "age,text,town,size\n1,a,x,\n2,b,x,1\n",
            "source,target,kind\n1,2,x\n",
            "there is no column 'weight' for edges.weight",
        ),
    ],
)
def test_new_data_without_a_column_of_the_training_data(tmp_path, trained, nodes, edges, message):
    assert message in str(errors(write(tmp_path, nodes_csv=nodes, edges_csv=edges), trained.encoding))


def test_new_data_that_does_not_fit_the_encoding(tmp_path, trained):
    less = json.loads(json.dumps(trained.encoding))
    del less["schema"]["edges"]["weight"]
    data, _ = read_path(tmp_path, encoding=less)
    assert "edge_weight" not in data  # a model that was trained without weights gets none
    with pytest.raises(ValueError, match="encoding has the format 'table' and the version 7"):
        read_path(tmp_path, encoding=trained.encoding | {"version": 7})
    alone, _ = read_path(write(tmp_path, nodes_csv=None, schema_yaml=None))
    expected = "nodes.csv: the training data had no table of nodes; remove this file"
    assert finding(errors(write(tmp_path), alone.encoding), "columns") == expected


def test_lists_where_there_were_words(tmp_path):
    first, _ = nodes_of(tmp_path, "id,town\na,Rome\nb,Oslo\n")
    (tmp_path / "nodes.csv").unlink()
    for town in ([["Rome"], ["Oslo"]], [{"a": 1}, {"a": 2}], [b"x", b"\xff"]):
        write(tmp_path, nodes_parquet={"id": ["a", "b"], "town": town}, edges_csv="source,target\na,b\n")
        assert "cannot be encoded as categorical" in finding(errors(tmp_path, first.encoding), "unknown-kind")


def test_several_labels_of_new_data(tmp_path):
    first, _ = nodes_of(tmp_path, "id,label\na,x;y\nb,y\n", task="multi-label")
    write(tmp_path, nodes_csv="id,label\na,y;z\nb,x\n", edges_csv="source,target\na,b\n")
    new, report = read_path(tmp_path, encoding=first.encoding)
    assert new.y.tolist() == [[0, 1], [1, 0]]
    assert "line 2: column 'label' has unknown labels, not in the" in finding(report, "unknown-class")


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
def test_tables_are_equal_after_reading_with_their_own_encoding(tmp_path_factory, many, data):
    """Columns of words that look like numbers, of nodes and of edges, in one graph and in many."""
    folder = tmp_path_factory.mktemp("tables")
    kinds = data.draw(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=4))
    rows = [",".join(f'"{data.draw(CELLS[k])}"' for k in kinds) for _ in range(data.draw(st.integers(2, 5)))]
    names = ",".join(f"c{i}" for i in range(len(kinds)))
    schema = {"features": {f"c{i}": kind for i, kind in enumerate(kinds) if kind not in (None, "word")}}
    graph, in_graph = ("graph,", "g,") if many else ("", "")
    nodes = "".join(f"{in_graph}n{i},{row}\n" for i, row in enumerate(rows))
    edges = "".join(f"{in_graph}n0,n{i},{row}\n" for i, row in enumerate(rows))
    write(
        folder,
        nodes_csv=f"{graph}id,{names}\n{nodes}",
        edges_csv=f"{graph}source,target,{names}\n{edges}",
        graphs_csv="id\ng\n" if many else None,
        schema_yaml={"nodes": schema, "edges": schema, "self_loops": "keep"},
    )
    first, _ = read_path(folder)
    again, _ = read_path(folder, encoding=json.loads(json.dumps(first.encoding)))
    for name in ("x", "edge_attr"):
        one, other = getattr(first, name), getattr(again, name)
        assert (one is None and other is None) or torch.equal(one.to_dense(), other.to_dense()), name


# ---- differences between two encodings --------------------------------------------------------------------------

AGE = {"column": "age", "kind": "numeric", "width": 1}
SCALED = AGE | {"mean": [2.0], "deviation": [4.0]}
TOWN = {"column": "town", "kind": "categorical", "vocabulary": ["Oslo", "Rome"]}
KNOWN = {"nodes": [AGE, TOWN], "edges": [], "largest_weight": 1.0, "schema": {"undirected": True}, "sparse": False}


@pytest.mark.parametrize(
    ("known", "found", "text"),
    [
        ({}, {}, None),
        ({}, {"sparse": True, "target": {"classes": ["x"]}, "schema": {}}, None),
        ({}, {"nodes": [TOWN, AGE]}, "different order ('town' instead of 'age')"),
        ({}, {"nodes": [AGE]}, "no column 'town' of nodes"),
        ({}, {"nodes": [AGE, TOWN, AGE | {"column": "size"}]}, "a column 'size' of nodes"),
        ({}, {"nodes": [AGE | {"width": 2}, TOWN]}, "'age' has the width 2 instead of 1"),
        ({}, {"nodes": [AGE | {"kind": "tokens"}, TOWN]}, "'age' is encoded as 'tokens' instead of 'numeric'"),
        (
            {},
            {"nodes": [AGE, TOWN | {"vocabulary": ["Oslo", "Paris"]}]},
            "'town' has a different vocabulary ('Paris' is not in the training data)",
        ),
        ({}, {"nodes": [AGE, TOWN | {"vocabulary": ["Oslo"]}]}, "a different vocabulary ('Rome' is missing)"),
        ({}, {"nodes": [AGE, TOWN | {"vocabulary": ["Rome", "Oslo"]}]}, "has its vocabulary in a different order"),
        ({}, {"nodes": [SCALED, TOWN]}, "'age' is standardized with mean 2 and"),
        ({"nodes": [SCALED]}, {"nodes": [SCALED | {"mean": [2 + 1e-12]}]}, None),
        ({"nodes": [SCALED]}, {"nodes": [SCALED | {"mean": [3.0]}]}, "with mean 3 and standard deviation 4 instead of"),
        ({"nodes": [AGE | {"fill": 1 / 3}]}, {"nodes": [AGE | {"fill": 1 / 3 + 1e-12}]}, None),
        ({"nodes": [AGE | {"fill": 1}]}, {"nodes": [AGE | {"fill": 2}]}, "that were filled with 2 instead of 1"),
        ({"nodes": [AGE]}, {"nodes": [AGE | {"fill": 2}]}, "with 2, and no fill value is known from training"),
        ({}, {"edges": [AGE]}, "a column 'age' of edges"),
        ({}, {"largest_weight": 2.0}, "divided by 2 instead of 1"),
        ({}, {"schema": {"undirected": False}}, "undirected: false instead of true"),
    ],
)
def test_the_first_difference_is_named(known, found, text):
    difference = first_difference(KNOWN | known, KNOWN | known | found)
    assert difference is None if text is None else text in str(difference)
