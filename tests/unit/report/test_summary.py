"""The summary of own runs, the charts of a result's details, and hidden empty columns."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.report.make import charts_of, page_of, rows_of, text_of, write_run
from tgnn.report.sections import ReportTable, TableCell, text_cell

CLASSES = [
    {"name": name, "precision": 1.0, "recall": 1.0, "f1": 1.0, "train": 5, "test": 2} for name in ("coffee", "<b>tea")
]
DETAILS = {
    "scores": {"accuracy": 0.75},
    "classes": CLASSES,
    "confusion": [[2, 0], [1, 1]],
    "calibration": {"error": 0.1, "error_before": 0.3, "temperature": 2.0, "bins": [[0.6, 0.5, 2], [0.9, 1.0, 2]]},
    "errors_by": "degree",
    "errors": [{"low": 0, "high": 0, "count": 1, "error": 1.0}, {"low": 1, "high": 3, "count": 3, "error": 0.25}],
}


def add(folder: Path, **fields: object) -> None:
    path = folder / "metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_the_best_model_on_the_validation_set_is_shown_first(tmp_path):
    for seed, test in enumerate((0.80, 0.84)):
        add(write_run(tmp_path / f"a/seed-{seed}", model="gcn", test=test, seed=seed), val=0.9)
    write_run(tmp_path / "a/copy of seed-1", model="gcn", test=0.84, seed=1)
    run = write_run(tmp_path / "b", test=0.95)
    names = {"majority class": 0.3, "gradient boosting": 0.99}
    add(run, val=0.85, baselines=[{"name": n, "test": s, "scores": {"accuracy": s}} for n, s in names.items()])
    page = page_of(tmp_path)
    card = text_of(page.partition('class="cards">')[2].partition("</ul>")[0].join(["<main>", "</main>"]))
    assert "cora 0.8200 gcn test accuracy, mean of 2 runs 95% confidence interval 0.5659 to 1.0000" in card
    assert "majority class: 0.3000 gradient boosting: 0.9900 (better than the model) best of 2 models on" in card
    headers, first, second = rows_of(page)  # by test metric
    assert headers[:4] == ["model", "test", "95%", "interval"]
    assert (first[0], second[:4]) == ("tgnn", ["gcn", "0.8200", "±", "0.0283"])
    assert "Show all 4 runs" in page
    assert any(chart["title"] == "cora" for chart in charts_of(page))


def test_runs_are_sorted_by_score_and_one_model_has_no_table(tmp_path):
    for name, test in (("low", 0.5), ("high", 0.7), ("middle", 0.6)):
        write_run(tmp_path / name, test=test, model=name)
    page = page_of(tmp_path).partition('id="runs-table"')[2]
    names = [row[0].partition("/")[2] for row in rows_of(page)[1:]]
    assert names == ["high", "middle", "low"]
    write_run(tmp_path / "alone/run")
    assert 'id="summary-table"' not in page_of(tmp_path / "alone")


def test_details_of_a_result_are_drawn(tmp_path):
    add(write_run(tmp_path / "run"), details=DETAILS)
    page = page_of(tmp_path)
    charts = charts_of(page)
    matrix, reliability, errors = charts[:3]
    assert matrix["alternative"] == "3 of 4 correct; true <b>tea, predicted coffee: 1"
    assert matrix["data"][0]["z"] == [[1.0, 0.0], [0.5, 0.5]]
    assert matrix["layout"]["xaxis"]["ticktext"] == ["coffee", "&lt;b&gt;tea"]
    assert reliability["data"][1]["x"] == [0.6, 0.9]
    assert "Expected calibration error 0.1000 with temperature 2.00, 0.3000 without scaling." in page
    assert errors["layout"]["yaxis"]["ticktext"] == ["0", "1 to 3"]
    points = [[1.0, 1.5], [2.0, 1.0]]
    targets = [{"name": name, "mae": 0.5, "rmse": 0.6, "r2": 0.1, "points": points} for name in ("length", "mass")]
    add(tmp_path / "run", details={"scores": {}, "targets": targets})
    titles = [chart["title"] for chart in charts_of(page_of(tmp_path))]
    assert titles[:2] == ["length: mae 0.5, rmse 0.6, r2 0.1", "mass: mae 0.5, rmse 0.6, r2 0.1"]
    add(tmp_path / "run", details={"scores": "many"})
    assert "Confusion matrix" not in page_of(tmp_path)


def test_empty_columns_are_hidden():
    table = ReportTable(["a", "b", "c"], [[text_cell("x"), TableCell(), text_cell("z")], [TableCell()] * 3])
    shown = table.without_empty_columns
    assert (shown.headers, [cell.text for cell in shown.rows[0]]) == (["a", "c"], ["x", "z"])
    assert ReportTable(["a", "b"], []).without_empty_columns.headers == ["a", "b"]
