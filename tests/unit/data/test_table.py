"""Tables of one graph: nodes, ids, edges and the examples of the documentation."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
import torch
import yaml
from tests.unit.data.tables import EDGES, NODES, codes, errors, finding, write
from torch_geometric.data import Data
from torch_geometric.loader.utils import filter_data
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected

from tgnn.data.readers.detect import read_path
from tgnn.data.tables.read_folder import read_table
from tgnn.data.tables.schema import Schema, make_schema

# ---- nodes and ids ----------------------------------------------------------------------------------------------


def test_nodes_and_edges(tmp_path):
    data, report = read_path(write(tmp_path))
    assert data.x.tolist() == [[31, 0, 1], [27.5, 1, 0], [45, 0, 1], [8, 0, 0]]
    assert data.x.dtype == torch.float32
    assert data.edge_index.t().tolist() == [[1, 0], [0, 1], [2, 1], [1, 2]]
    assert data.y.tolist() == [1, 0, 1, -1]
    assert data.node_id.tolist() == ["ann", "bob", "carol", "dan"]
    assert torch.stack([data.train_mask, data.val_mask, data.test_mask]).equal(torch.eye(3, 4, dtype=torch.bool))
    assert data.encoding["target"] == {"task": "classification", "columns": ["label"], "classes": ["blue", "red"]}
    assert data.encoding["nodes"] == [
        {"column": "age", "kind": "numeric", "width": 1},
        {"column": "town", "kind": "categorical", "vocabulary": ["Oslo", "Rome"]},
    ]
    assert json.loads(json.dumps(data.encoding)) == data.encoding
    assert report.ok
    assert codes(report) == ["single-member"]
    assert finding(report, "missing-category") == "nodes.csv, line 5: column 'town' is empty; encoded as zeros"
    assert finding(report, "missing-label").startswith("nodes.csv, line 5: no label")
    assert finding(report, "isolated-node").startswith("nodes.csv, line 5: ")
    assert "2 reverse edges added (set undirected: false" in finding(report, "undirected")
    counts = {"nodes": 4, "edge rows": 2, "edges": 4, "features": 3, "sparse": False}
    counts |= {"task": "classification", "classes": 2, "labeled": 3, "train": 1, "val": 1, "test": 1}
    assert report.statistics == counts
    again, report = read_path(write(tmp_path, schema_yaml="# nothing yet\n"))
    (tmp_path / "schema.yaml").unlink()
    assert again.encoding == read_path(tmp_path)[0].encoding
    age = np.array([31, 27.5, 45, 8])
    assert again.x[:, 0].tolist() == pytest.approx((age - age.mean()) / age.std())  # by default
    assert "column 'age' was standardized" in finding(report, "standardized")


def test_the_graph_works_with_pyg(tmp_path):
    data, _ = read_path(write(tmp_path))
    data.validate(raise_on_error=True)
    assert data.clone().to("cpu").encoding == data.encoding
    assert np.asarray(data.node_id).tolist() == list(data.node_id) == ["ann", "bob", "carol", "dan"]
    for one in (data, read_path(write(tmp_path, nodes_csv=None, edges_csv="source,target\n5,6\n6,7\n"))[0]):
        part = torch.tensor([1, 2])
        assert one.subgraph(part).edge_index.tolist() == [[1, 0], [0, 1]]
        sampled = filter_data(one, part, torch.tensor([0]), torch.tensor([1]), torch.tensor([0]))  # as loaders do
        assert sampled.num_nodes == 2
    assert sampled.node_id.tolist() == [6, 7]


@pytest.mark.parametrize("form", ["csv", "tsv", "csv.gz", "tsv.gz", "parquet", "semicolons", "crlf", "bom", "no-end"])
def test_every_form_of_file_gives_the_same(tmp_path, form):
    folder = tmp_path / "a[1]*?"  # not a glob pattern
    folder.mkdir()
    write(tmp_path)
    (tmp_path / "schema.yaml").unlink()
    expected, _ = read_path(tmp_path)
    for stem, text in (("nodes", NODES), ("edges", EDGES)):
        suffix = form if "." in form or form in ("tsv", "parquet") else "csv"
        content = text.replace(",", "\t") if "tsv" in form else text.replace(",", ";") if form == "semicolons" else text
        content = content.replace("\n", "\r\n") if form == "crlf" else content
        raw = content.encode("utf-8-sig" if form == "bom" else "utf-8")
        raw = raw.rstrip(b"\n") if form == "no-end" else raw
        path = folder / f"{stem}.{suffix}"
        path.write_bytes(gzip.compress(raw) if "gz" in form else raw)
        if form == "parquet":
            pl.read_csv(raw).write_parquet(path)
    found, report = read_path(folder)
    for key in ("x", "y", "edge_index", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(found[key], expected[key]), key
    assert found.node_id.tolist() == expected.node_id.tolist()
    assert found.encoding == expected.encoding
    assert ("byte-order-mark" in codes(report, "note")) == (form == "bom")
    unit = "row 4" if form == "parquet" else "line 5"
    assert finding(report, "missing-label").split(": ")[0].endswith(unit)


def test_edges_alone(tmp_path):
    data, report = read_path(write(tmp_path, nodes_csv=None, edges_csv="from,to\n7,9\n9,-3\n"))
    assert data.node_id.tolist() == [-3, 7, 9]
    degree = np.log1p([1, 1, 2])
    assert data.x[:, 0].tolist() == pytest.approx((degree - degree.mean()) / degree.std())
    assert data.edge_index.t().tolist() == [[2, 0], [2, 1], [0, 2], [1, 2]]
    assert codes(report) == ["no-features"]


def test_no_rows(tmp_path):
    data, report = read_path(write(tmp_path, edges_csv="source,target\n"))
    assert data.edge_index.shape == (2, 0)
    assert finding(report, "no-rows") == "edges.csv: the table has no rows"
    data, report = read_path(write(tmp_path, nodes_csv="id,a,label\n", edges_csv="source,target\n"))
    assert data.num_nodes == 0


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["3", "1", "2"], [3, 1, 2]),
        (["007", "1", "7"], ["007", "1", "7"]),
        (["a b", "x,y", 'say "hi"'], ["a b", "x,y", 'say "hi"']),
        (["9223372036854775808", "1", "2"], ["9223372036854775808", "1", "2"]),
        (["1.0", "1", "2"], ["1.0", "1", "2"]),
        (np.array([2**63 + 5, 17, 3], dtype=np.uint64), [str(2**63 + 5), "17", "3"]),
        (np.array([1e300, 2, 3]), ["1e+300", "2", "3"]),
    ],
)
def test_ids_of_any_kind_in_the_order_of_the_file(tmp_path, ids, kept):
    nodes = pl.DataFrame({"id": ids, "x": [0.0, 1.0, 2.0]})
    edges = pl.DataFrame({"source": ids[:2], "target": ids[1:]})
    files = {"nodes_csv": nodes.write_csv(), "edges_csv": edges.write_csv()}
    if isinstance(ids, np.ndarray):
        files = {"nodes_parquet": nodes.to_dict(), "edges_parquet": edges.to_dict()}
    data, _ = read_path(write(tmp_path, **files, schema_yaml={"undirected": False}))
    assert data.node_id.tolist() == kept
    assert data.edge_index.tolist() == [[0, 1], [1, 2]]
    assert data.x.flatten().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "edges", [{"edges_csv": "source,target\n6,5\n"}, {"edges_parquet": {"source": [6.0], "target": [5.0]}}]
)
def test_ids_of_other_types_are_equal(tmp_path, edges):
    data, _ = read_path(write(tmp_path, nodes_parquet={"id": [5, 6], "x": [0.5, 1.5]}, **edges))
    assert data.edge_index.t().tolist() == [[1, 0], [0, 1]]


def test_columns_by_other_names_and_by_place(tmp_path):
    nodes, edges = "Node,Y,Split\nb,1,train\na,0,test\n", "src,dst,Weight\na,b,0.5\n"
    data, _ = read_path(write(tmp_path, nodes_csv=nodes, edges_csv=edges))
    assert data.y.tolist() == [1, 0]
    assert data.edge_weight.tolist() == [0.5, 0.5]
    data, report = read_path(write(tmp_path, nodes_csv="who,size\nb,1\na,0\n", edges_csv="one,two\na,b\n"))
    assert data.node_id.tolist() == ["b", "a"]
    assert [str(f) for f in report.findings if f.code == "guessed-column"] == [
        "nodes.csv: no column is named 'id'; column 'who' is used as id",
        "edges.csv: no column is named 'source'; column 'one' is used as source",
        "edges.csv: no column is named 'target'; column 'two' is used as target",
    ]


def test_the_index_that_pandas_writes_is_no_feature(tmp_path):
    data, report = read_path(write(tmp_path, nodes_csv=",id,size\n0,ann,5\n1,bob,6\n2,carol,7\n"))
    assert data.x.tolist() == [[5], [6], [7]]
    assert "an index written by pandas" in finding(report, "ignored-column")
    data, report = read_path(write(tmp_path, nodes_csv=",size\nann,5\nbob,6\ncarol,7\n"))
    assert data.node_id.tolist() == ["ann", "bob", "carol"]


def test_quoted_commas_line_ends_and_empty_lines_keep_their_line_numbers(tmp_path):
    nodes = 'id,text,a\n"lee, ann","a\nb",1\n\nbob,"x,\n""y""",\n"carol",z,2\n\n\n'
    report = errors(write(tmp_path, nodes_csv=nodes, edges_csv="source,target\nbob,carol\n"))
    assert finding(report, "empty-line") == "nodes.csv, line 4: empty line ignored"
    assert finding(report, "missing-feature").startswith("nodes.csv, line 5: ")
    (tmp_path / "nodes.csv").write_text(nodes.replace('y""",', 'y""",3'))
    data, _ = read_path(tmp_path)
    assert data.node_id.tolist() == ["lee, ann", "bob", "carol"]
    assert data.encoding["nodes"][0]["vocabulary"] == ["a\nb", 'x,\n"y"', "z"]


def test_spaces_around_names_and_values(tmp_path):
    nodes = " id , age ,label\nann , 31 , red\n bob,27 ,blue\ncarol,45,red \n"
    data, report = read_path(write(tmp_path, nodes_csv=nodes))
    assert data.x.flatten().tolist() == [31, 27, 45]
    assert data.encoding["target"]["classes"] == ["blue", "red"]
    assert finding(report, "header-spaces").startswith("nodes.csv, line 1: spaces around column names")


# ---- edges ------------------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> Data:
    n = draw(st.integers(1, 12))
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40))
    numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
    words = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=5)
    ids = draw(st.lists(st.integers(-(10**12), 10**12) | words, min_size=n, max_size=n, unique_by=str))
    return Data(
        x=torch.tensor(draw(st.lists(st.tuples(numbers, numbers), min_size=n, max_size=n))),
        edge_index=torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t(),
        y=torch.tensor(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))),
        ids=[str(one) for one in ids],
    )


@hypothesis.given(graph=graphs(), undirected=st.booleans(), parquet=st.booleans())
@hypothesis.settings(deadline=None, max_examples=60)
def test_a_graph_that_is_written_is_read_again(tmp_path_factory, graph, undirected, parquet):
    folder = tmp_path_factory.mktemp("graph")
    nodes = {"id": graph.ids, "a": graph.x[:, 0].numpy(), "label": graph.y.numpy(), "b": graph.x[:, 1].numpy()}
    ends = {side: [graph.ids[i] for i in row] for side, row in zip(("source", "target"), graph.edge_index)}
    schema = {"source": pl.String, "target": pl.String}
    for stem, frame in (("nodes", pl.DataFrame(nodes)), ("edges", pl.DataFrame(ends, schema=schema))):
        frame.write_parquet(folder / f"{stem}.parquet") if parquet else frame.write_csv(folder / f"{stem}.csv")
    data, report = read_table(folder, schema={"undirected": undirected, "standardize": False})
    assert list(map(str, data.node_id.tolist())) == graph.ids
    assert torch.equal(data.x, graph.x)
    assert [data.encoding["target"]["classes"][i] for i in data.y] == graph.y.tolist()
    expected, _ = remove_self_loops(graph.edge_index)
    loops, distinct = graph.edge_index.size(1) - expected.size(1), len(set(map(tuple, expected.t().tolist())))
    duplicates = expected.size(1) - distinct
    expected = to_undirected(expected, num_nodes=len(graph.y)) if undirected else expected
    assert torch.equal(data.edge_index, coalesce(expected, num_nodes=len(graph.y), sort_by_row=False))
    for code, count in (("self-loop", loops), ("duplicate-edge", duplicates)):
        assert sum(f.count for f in report.findings if f.code == code) == count


def test_edge_weights_and_attributes_follow_their_edges(tmp_path):
    edges = "source,target,weight,kind,years\ncarol,bob,0.5,friend,1\nann,bob,0.25,boss,2\nbob,ann,1,friend,3\n"
    data, _ = read_path(write(tmp_path, edges_csv=edges))
    details = zip(data.edge_weight.tolist(), data.edge_attr.tolist())
    assert dict(zip(map(tuple, data.edge_index.t().tolist()), details)) == {
        (2, 1): (0.5, [0, 1, 1]),
        (1, 2): (0.5, [0, 1, 1]),  # added, with the same weight
        (0, 1): (0.25, [1, 0, 2]),
        (1, 0): (1, [0, 1, 3]),  # an edge of the file keeps its own weight
    }
    assert data.edge_index[1].tolist() == sorted(data.edge_index[1].tolist())


LOOPED = "source,target,years\nann,bob,1\nann,ann,2\nann,bob,1\nann,bob,3\nbob,ann,4\n"


def test_self_loops_and_duplicate_edges_are_reported(tmp_path):
    _, report = read_path(write(tmp_path, edges_csv=LOOPED))
    assert finding(report, "self-loop").startswith("edges.csv, line 3: self-loop dropped")
    assert finding(report, "duplicate-edge") == "edges.csv, lines 4, 5: duplicate edge dropped"
    assert finding(report, "duplicate-edge-differs").startswith("edges.csv, line 5: duplicate edges differ in years")
    assert "no reverse edges are added" in finding(report, "undirected")


@pytest.mark.parametrize(
    ("schema", "pairs", "years"),
    [
        ({}, [[1, 0], [0, 1]], [4, 1]),
        ({"undirected": False}, [[1, 0], [0, 1]], [4, 1]),
        ({"self_loops": "keep"}, [[0, 0], [1, 0], [0, 1]], [2, 4, 1]),
        ({"duplicates": "keep"}, [[1, 0], [0, 1], [0, 1], [0, 1]], [4, 1, 1, 3]),
        ({"duplicates": "keep", "undirected": False}, [[1, 0], [0, 1], [0, 1], [0, 1]], [4, 1, 1, 3]),
    ],
)
def test_edge_options_of_the_schema(tmp_path, schema, pairs, years):
    data, _ = read_path(write(tmp_path, edges_csv=LOOPED, schema_yaml=schema))
    assert data.edge_index.t().tolist() == pairs
    assert data.edge_attr.flatten().tolist() == years


def test_other_options_of_the_schema(tmp_path):
    data, report = read_path(write(tmp_path, edges_csv=EDGES + "ann,eve\nzoe,zoe\n", schema_yaml={"dangling": "drop"}))
    assert data.num_edges == 4
    assert finding(report, "dangling-id").endswith("unknown nodes 'zoe', 'eve', not in nodes.csv; edge dropped")
    schema = {"edges": {"features": {"weight": "numeric"}}}
    data, _ = read_path(write(tmp_path, edges_csv="source,target,weight\nann,bob,20\n", schema_yaml=schema))
    assert "edge_weight" not in data
    assert data.edge_attr.tolist() == [[20], [20]]


def test_weights_can_be_scaled_and_are_scaled_alike_for_new_data(tmp_path):
    edges = "source,target,weight\nann,bob,20\nbob,carol,5\n"
    data, report = read_path(write(tmp_path, edges_csv=edges, schema_yaml={"scale_weights": True}))
    assert data.edge_weight.tolist() == [1, 1, 0.25, 0.25]
    assert finding(report, "scaled-weights") == "edges.csv: edge weights are divided by 20, the largest weight"
    less, _ = read_path(write(tmp_path, edges_csv=edges.replace("20", "0.5").replace(",5", ",0")))
    assert less.edge_weight.tolist() == [0.5, 0.5, 0, 0]
    new, _ = read_path(write(tmp_path, edges_csv="source,target,weight\nann,bob,2\n"), encoding=data.encoding)
    assert new.edge_weight.tolist() == pytest.approx([0.1, 0.1])
    assert "weight-outside" in codes(errors(write(tmp_path, edges_csv=edges.replace("20", "30")), data.encoding))


# ---- the documentation ------------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[3] / "docs" / "own_data.md"


def test_the_report_of_the_documented_example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    nodes, edges, *_ = re.findall(r"```csv\n(.*?)```", text, flags=re.S)
    (tmp_path / "friends").mkdir()
    Path("friends/nodes.csv").write_text(nodes)
    Path("friends/edges.csv").write_text(edges)
    _, report = read_path(Path("friends"))
    (said,) = re.findall(r"```text\n(.*?)```", text, flags=re.S)
    assert str(report) == said.rstrip()


def test_the_documented_schema_has_every_key():
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.S)
    schema = make_schema(yaml.safe_load(text))
    assert set(Schema.model_fields) - schema.model_fields_set == {"graphs"}
    assert set(type(schema.edges).model_fields) - schema.edges.model_fields_set == {"graph"}
    assert set(type(schema.nodes).model_fields) - schema.nodes.model_fields_set == {"graph"}
