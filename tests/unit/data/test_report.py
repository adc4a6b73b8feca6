"""Findings, validation reports, and checks of graphs in memory."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import torch
from tests.unit.data.tables import findings
from torch_geometric.data import Data

from tgnn.data import DatasetInfo, TaskType
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.validation.report import DataError, Finding, Reporter, ValidationReport


def test_a_finding_lists_ten_places_and_counts_them_all():
    file = Reporter(ValidationReport("mine", "table"), "edges.csv", "line", lambda rows: rows + 2)
    file.error("dangling-id", "names no node", np.arange(1200))
    assert not file.warning("odd", "is odd", np.zeros(5, dtype=bool))
    assert list(map(str, file.report.findings)) == [
        "edges.csv, lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... (1,200 in total): names no node"
    ]


def test_a_report_raises_all_errors_at_once_and_is_plain_as_json():
    report = ValidationReport("mine", "table", {"nodes": 1200, "sparse": False})
    report.raise_for_errors()
    report.add(Finding("note", "a", "first"), Finding("error", "b", "second"), Finding("error", "c", "third"))
    with pytest.raises(DataError, match="mine cannot be used:\n- second\n- third") as caught:
        report.raise_for_errors()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert str(report).splitlines() == [
        "mine: table",
        "  nodes: 1,200",
        "  sparse: no",
        "  error: second",
        "  error: third",
        "  note: first",
        "2 errors, 0 warnings, 1 note",
    ]
    plain = json.loads(json.dumps(report.to_dict()))
    assert (plain["ok"], plain["findings"][1]["code"], plain["statistics"]["nodes"]) == (False, "b", 1200)


def odd_graph() -> Data:
    """Loop at edge 1, edge 0 again as edge 2, node 3 alone, weight 2; a NaN, an inf, a constant; a class of one."""
    return Data(
        edge_index=torch.tensor([[0, 1, 0, 1], [1, 1, 1, 2]]),
        edge_weight=torch.tensor([0.5, 1.0, 0.0, 2.0]),
        x=torch.tensor([[1.0, 0.0, 7.0], [float("nan"), 1.0, 7.0], [2.0, float("inf"), 7.0], [3.0, 2.0, 7.0]]),
        y=torch.tensor([0, 0, 1, -1]),
    )


def test_findings_of_a_graph():
    found = {finding.code: finding for finding in findings(odd_graph())}
    expected = {
        "self-loop": ("note", (1,)),
        "duplicate-edge": ("warning", (2,)),
        "isolated-node": ("note", (3,)),
        "weight-outside": ("error", (3,)),
        "missing-feature": ("error", (1,)),
        "infinite-feature": ("error", (2,)),
        "constant-feature": ("warning", ()),
        "missing-label": ("note", (3,)),
        "single-member": ("warning", ()),
    }
    assert {code: (finding.level, finding.locations) for code, finding in found.items()} == expected
    assert "must lie between 0" in found["weight-outside"].message
    assert "the feature 2 is constant" in found["constant-feature"].message


def test_findings_of_sparse_features():
    data = odd_graph()
    data.x = data.x.to_sparse_csr()
    assert [f.locations for f in findings(data) if f.code in ("missing-feature", "infinite-feature")] == [(1,), (2,)]
    data = Data(x=torch.tensor([[0.0, 1.0, 5.0], [0.0, 0.0, 5.0]]).to_sparse_csr(), edge_index=torch.tensor([[0], [1]]))
    assert [f.message for f in findings(data)] == ["the features 0, 2 are constant, so that a model cannot use them"]


@pytest.mark.parametrize(
    ("x", "messages"),
    [
        ([[1.0, 9.0], [2.0, 25000.0]], ["the feature 1 has values up to 25000; scale it or take its logarithm so"]),
        ([[-300.0, 25000.0], [2.0, 3.0]], ["the features 0, 1 have values up to 25000; scale them or take their"]),
        ([[7], [2000]], []),  # categories
    ],
)
def test_large_features(x, messages):
    found = findings(Data(x=torch.tensor(x), edge_index=torch.tensor([[0], [1]])))
    assert len(found) == len(messages)
    assert all(finding.message.startswith(text) for finding, text in zip(found, messages))


@pytest.mark.parametrize(
    ("y", "codes"),
    [
        (torch.arange(20), ["labels-like-ids"]),
        (torch.zeros(20, dtype=torch.int64), ["one-class"]),
        (torch.full((20,), -1), ["missing-label", "no-labels"]),
        (torch.rand(20), []),
        (torch.full((20,), float("inf")), ["infinite-label"]),
        (torch.full((20, 2), float("nan")), ["missing-label", "no-labels"]),
        (torch.tensor([0.5, float("nan")] * 10), ["missing-label"]),
    ],
)
def test_labels(y, codes):
    assert [f.code for f in findings(Data(x=torch.rand(20, 2), y=y))] == codes


def test_findings_of_many_graphs():
    arrays = {
        "num_nodes": [2, 0, 3, 1],
        "num_edges": [2, 0, 3, 0],
        "edge_index": [[0, 1, 0, 0, 1], [1, 0, 1, 1, 1]],
        "x": [[1.0], [2.0], [float("nan")], [1.0], [2.0], [3.0]],
        "y": [0, 1, 1, 0],
    }
    found = {f.code: (f.unit, f.locations) for f in findings(GraphDataset(arrays | {"directed": True}))}
    expected = {"empty-graph": (1,), "self-loop": (2,), "duplicate-edge": (2,), "isolated-node": (2, 3)}
    assert found == {code: ("graph", places) for code, places in (expected | {"missing-feature": (2,)}).items()}
    both = {f.code: f.locations for f in findings(GraphDataset(arrays | {"directed": False}))}
    assert both["duplicate-edge"] == (0, 2)  # there an edge and its reverse are one


@pytest.mark.parametrize(
    ("level", "target", "outputs", "name"),
    [
        ("node", "classification", 7, "node classification"),
        ("graph", "multi-label", 1, "binary graph classification"),
        ("node", "multi-label", 39, "multi-label node classification"),
        ("graph", "regression", 1, "graph regression"),
    ],
)
def test_task_names(level, target, outputs, name):
    info = DatasetInfo("a", level, target, "accuracy", outputs, "")
    assert (info.task, info.task_type) == (name, TaskType(target))
