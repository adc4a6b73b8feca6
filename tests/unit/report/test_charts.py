"""Charts of the report page, as plotly figures."""

from __future__ import annotations

import json
import re

import plotly.graph_objects as graph_objects

from tests.unit.report.make import around, charts_of, page_of, study, table, write_run
from tgnn.experiments.results import CellResult, Result
from tgnn.report.charts import TEMPLATE


def test_charts_next_to_the_paper(tmp_path):
    table().write(tmp_path / "x.json")
    cora, citeseer, ranks, speed, _ = charts_of(page_of(tmp_path))
    assert (cora["title"], citeseer["title"]) == ("cora", "citeseer")
    ours, paper = cora["data"]
    assert (ours["name"], ours["x"]) == ("ours", [0.8, None, 0.88])
    assert (paper["name"], paper["x"]) == ("paper", [0.87, 0.86, 0.8808])
    assert paper["error_x"]["array"] == [0.01, None, 0.0131]
    assert cora["layout"]["yaxis"]["ticktext"] == ["gcn ≠", "gat", "tgnn"]
    assert "gat, ours: missing; gat, paper: 0.8600" in cora["alternative"]
    assert ranks["alternative"] == "Average ranks, 1 is best: tgnn 1.00, gcn 2.00"
    assert speed["data"][0]["text"] == ["1.00\u00d7", "1.00\u00d7"]
    assert speed["data"][0]["customdata"][0] == "gcn: 20.0 ms per epoch"


def charts_of_cells(name, cells, tmp_path):
    Result(name, cells).write(tmp_path / f"{name}.json")
    return charts_of(page_of(tmp_path / f"{name}.json"))


def test_curves_against_rank(tmp_path):
    cells = [
        CellResult(f"{model} {size}", column, "accuracy", runs=around(0.8, runs=3))
        for column, models in (("cora", ("tgnn", "gcn")), ("pubmed", ("gcn",)))
        for model in models
        for size in (8, 16, 32)
    ]
    cora, pubmed = charts_of_cells("figure-rank", cells, tmp_path)
    assert (cora["title"], pubmed["title"]) == ("cora", "pubmed")
    assert [trace["name"] for trace in cora["data"]] == ["tgnn", "tgnn, epochs/s", "gcn", "gcn, epochs/s"]
    score, speed = cora["data"][:2]
    assert (score["x"], score["y"]) == ([8, 16, 32], [0.8] * 3)
    assert "yaxis" not in score
    assert (speed["yaxis"], speed["y"]) == ("y2", [50] * 3)
    assert cora["layout"]["xaxis"]["ticktext"] == ["8", "16", "32"]
    assert pubmed["data"][0]["line"]["color"] == cora["data"][2]["line"]["color"]  # a model has one color


def test_curves_of_mixing(tmp_path):
    series = {"a_high/convs.0": [0.5, 0.6, float("nan")], "a_low/convs.0": [0.5, 0.4, 0.3]}
    cells = [CellResult("tgnn", "cora", "accuracy", series=series)]
    (chart,) = charts_of_cells("figure-mixing", cells, tmp_path)
    assert [trace["y"] for trace in chart["data"]] == [[0.5, 0.6, None], [0.5, 0.4, 0.3]]
    assert [trace["line"]["dash"] for trace in chart["data"]] == ["solid", "dash"]
    assert chart["alternative"] == (
        "tgnn on cora: products, layer 1 from 0.5 to 0.6, sum, layer 1 from 0.5 to 0.3, against epoch"
    )


def test_curves_of_interactions(tmp_path):
    cells = [
        CellResult(f"{pooling} {size}", str(order), "accuracy", runs=around(0.9 - 0.01 * order, runs=3))
        for size in (16, 64)
        for pooling in ("cp", "sum")
        for order in (1, 2, 3)
    ]
    charts = charts_of_cells("figure-interactions", cells, tmp_path)
    assert [chart["title"] for chart in charts] == ["width 16", "width 64", "order 1", "order 2", "order 3"]
    assert all([trace["name"] for trace in chart["data"]] == ["cp", "sum"] for chart in charts)
    assert charts[-1]["layout"]["xaxis"]["title"]["text"] == "parameters"
    assert charts[2]["layout"]["yaxis"]["range"] == charts[4]["layout"]["yaxis"]["range"]  # comparable


def test_learning_curves(tmp_path):
    """Long curves are thinned, but keep their extremes. Epochs count from one."""
    write_run(tmp_path / "run", epochs=2000)
    charts = charts_of(page_of(tmp_path))
    curves = {trace["name"]: trace for chart in charts for trace in chart["data"]}
    assert set(curves) == {
        "training loss",
        "validation loss",
        "validation accuracy",
        "products, layer 1",
        "sum, layer 1",
    }
    assert all(len(curve["x"]) == len(curve["y"]) <= 400 for curve in curves.values())
    assert {(curve["x"][0], curve["x"][-1]) for curve in curves.values()} == {(1, 2000)}
    assert curves["training loss"]["y"][0] == 2
    best_epochs = [shape["x0"] for chart in charts for shape in chart["layout"].get("shapes", ())]
    assert best_epochs == [2000, 2000]


def test_plotly_accepts_every_chart(tmp_path):
    """``plotly.graph_objects`` raises an error for unknown properties and invalid values."""
    table().write(tmp_path / "table.json")
    cells = [CellResult(f"{model} {size}", "2", "accuracy", runs=around(0.8)) for model in "ab" for size in (8, 16)]
    series = {"a_high/0": [0.5, float("nan")], "a_low/0": [float("nan"), 0.4]}
    for name in ("figure-rank", "figure-interactions", "table-efficiency"):
        Result(name, cells).write(tmp_path / f"{name}.json")
    Result("figure-mixing", [CellResult("tgnn", "cora", "", series=series)]).write(tmp_path / "mixing.json")
    write_run(tmp_path / "run")
    study(tmp_path / "study")
    charts = charts_of(page_of(tmp_path))
    assert len(charts) == 16
    for chart in [*charts, {"data": [], "layout": {"template": TEMPLATE}}]:
        text = re.sub(r'"var\(--[a-z0-9]+\)"', '"#000000"', json.dumps([chart["data"], chart["layout"]]))
        data, layout = json.loads(text)
        graph_objects.Figure(data, layout)
    assert all(chart["alternative"] for chart in charts)
