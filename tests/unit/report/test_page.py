"""Contents of the report page: results and runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from filelock import FileLock

from tests.unit.report.make import (
    NASTY,
    around,
    charts_of,
    outcomes,
    page_of,
    rows_of,
    study,
    table,
    text_of,
    write_run,
)
from tgnn.experiments.results import CellResult, Result
from tgnn.report.collect import ReportReader
from tgnn.report.number_format import MINUS
from tgnn.report.render import render, script_json
from tgnn.tuning.results import Trial

# ---- results ----------------------------------------------------------------------------------------------------


def test_a_table_next_to_the_paper(tmp_path):
    table().write(tmp_path / "x.json")
    page = page_of(tmp_path)
    text = text_of(page)
    for words in (
        *("0.8000 ± 0.0075", "6 runs", "out of memory", "Our scores and those of the paper", "Speed"),
        f"paper 0.8700 ± 0.0100, {MINUS}0.0700 ≠",
        "paper 0.7000 ± 0.0200, +0.0000 ≈",
        "Critical difference diagram",
        "Paired significance tests against tgnn",
        "0.031 ▲",  # six of six pairs: the smallest possible p-value
    ):
        assert words in text
    assert page.count('class="badge"') == 2  # the best of each column
    assert '<span class="pill">failed</span>' in page
    assert rows_of(page)[2] == ["gat", "failed", "paper", "0.8600", "out", "of", "memory"]  # a missing cell is empty


@pytest.mark.parametrize(
    ("metric", "rows", "reference", "sign"),
    [
        ("mae", {"gcn": 0.5, "tgnn": 0.3}, "tgnn", "▲"),  # lower is better
        ("accuracy", {"gcn": 0.5, "tgnn": 0.3}, "tgnn", "▼"),
        ("accuracy", {"cp": 0.8, "cp+sum": 0.9}, "cp+sum", "▲"),
    ],
)
def test_significance_tests(tmp_path, metric, rows, reference, sign):
    cells = [CellResult(row, "data", metric, runs=around(mean)) for row, mean in rows.items()]
    table(cells=cells).write(tmp_path / "x.json")
    page = page_of(tmp_path)
    assert f"Paired significance tests against {reference}" in page
    assert f"0.031 {sign}" in page
    assert ("data, mae (lower is better)" in page) == (metric == "mae")
    best = rows["tgnn"] if metric == "mae" else max(rows.values())
    assert re.search(rf'best number"[^>]*><span class="badge"[^>]*>★</span> <span class="main">{best:.4f}', page)


@pytest.mark.parametrize("columns", [("3",), ("3", "10")])
def test_efficiency(tmp_path, columns):
    cells = [CellResult("tgnn 8", column, "accuracy", runs=outcomes(0.8, 0.9, 0.85)) for column in columns]
    table("table-efficiency", cells=cells).write(tmp_path / "x.json")
    headers, first, *_ = rows_of(page_of(tmp_path))
    neighbors = ["neighbors"] if len(columns) > 1 else []
    assert headers == ["row", *neighbors, "parameters", "seconds", "epochs", "epochs/s", "accuracy"]
    assert " ".join(first[2 + len(neighbors) : 5 + len(neighbors)]) == "1,002 paper 58,128"
    assert "50.0" in first  # 100 epochs in 2 seconds


def test_theorem_checks(tmp_path):
    failed = CellResult("Theorem 2", "", "", failed="too big")
    Result("theorems", [CellResult("Theorem 1", "n = 5", "", note="error 3e-12"), failed]).write(tmp_path / "x.json")
    rows = [" ".join(row) for row in rows_of(page_of(tmp_path))]
    assert rows == ["theorem case holds check", "Theorem 1 n = 5 ✓ yes error 3e-12", "Theorem 2 ✗ no too big"]


NAMES = ["table-tu", "table-efficiency", "figure-rank", "figure-mixing", "figure-interactions", "theorems", "unknown"]


@pytest.mark.parametrize("name", NAMES)
def test_every_layout_accepts_empty_and_odd_results(name, tmp_path):
    Result(name, []).write(tmp_path / "a.json")
    odd = [
        CellResult("", "", "", runs=outcomes(0.5)),
        CellResult("a 0", "b", "mystery", runs=outcomes(float("nan"), 0.5, seconds=0.0)),
        CellResult("c 8", "2", "mystery", runs=outcomes(float("nan")), failed="no"),
        CellResult("tgnn", "b", "accuracy", paper=0.5, failed="no", series={"a_high": [], "x": [0.5]}),
    ]
    Result(name, odd).write(tmp_path / "b.json")
    contents = ReportReader([tmp_path]).read()
    assert contents.counts["results"] == 2
    page = render(contents)
    if name in ("table-tu", "unknown"):
        assert "some runs failed: 1 of 2 runs have no score" in page
        assert "no; 1 of 1 runs have no score" in page


def test_duplicate_titles_show_their_files(tmp_path):
    for folder in ("a", "b"):
        table().write(tmp_path / folder / "x.json")
    table("theorems").write(tmp_path / "a/y.json")
    contents = page_of(tmp_path).partition("<nav")[2].partition("</nav")[0]
    assert re.findall(r">([^<]*?)(?: <small>[^<]*(./.\.json)</small>)?</a>", contents) == [
        ("table-x", "a/x.json"),
        ("table-x", "b/x.json"),
        ("Numerical checks of the three theorems of the paper", ""),
    ]


@pytest.mark.parametrize("name", ["table-x", "figure-rank"])
def test_long_failure_messages_are_shown_once(tmp_path, name):
    reason = "cora was not found. Looked in:\n  one place\n  another"
    cells = [CellResult(row, "cora", "accuracy", failed=reason) for row in ("gcn", "gat")]
    table(name, cells=cells).write(tmp_path / "x.json")
    page = page_of(tmp_path)
    assert page.count("cora was not found …") == 2
    assert page.count("another") == 1
    assert "difference from the paper" not in text_of(page)  # the paper has no score for these cells


# ---- runs -------------------------------------------------------------------------------------------------------


def test_a_finished_run(tmp_path):
    write_run(tmp_path / "runs/one")
    page = page_of(tmp_path / "runs")
    assert " ".join(rows_of(page)[1]) == "runs/one 0.8500 0.8600 tgnn cora accuracy finished 30 3.50 12,345"
    for words in ("aaa111", "bbb222", "ccc333", "model.rank", "seed 0", "validation 0.8600 at epoch 30"):
        assert words in page


def test_a_running_run(tmp_path):
    """The lock of the run decides whether it is running, not the age of its files."""
    folder = write_run(tmp_path / "run", test=None)
    with (folder / "history.jsonl").open("a") as file:
        file.write('{"epoch": 30, "lo')  # being written
    reader = ReportReader([tmp_path])
    for states in ((0, 1), (1, 0), (0, 1)):
        with FileLock(folder / (".lock" if states == (1, 0) else "other")):
            contents = reader.read()
        assert (contents.counts["running"], contents.counts["unfinished"]) == states
    assert contents.runs[0].metrics["val"] == pytest.approx(0.9 - 0.5 / 30)
    assert "30 of 50" in render(contents)


def test_repeated_runs(tmp_path):
    for seed, test in enumerate((0.86, 0.88)):
        write_run(tmp_path / f"many/seed-{seed}", test=test, seed=seed)
    (tmp_path / "many/runs.json").write_text('{"runs": 3}')
    write_run(tmp_path / "started/seed-0", model="mystery", test=None)
    (tmp_path / "started/runs.json").write_text("{")
    page = page_of(tmp_path)
    _, many, started = (" ".join(row) for row in rows_of(page))
    assert many.endswith(
        f"0.9971 tgnn cora accuracy 0.8808 ± 0.0131 difference {MINUS}0.0108 2 of 3"
    )  # the paper's value
    assert "0.8700 ± 0.0141" in many
    assert "mystery cora accuracy damaged runs.json is damaged: not valid JSON" in started


# ---- safety -----------------------------------------------------------------------------------------------------


def test_names_are_escaped(tmp_path):
    result = table(name=NASTY, command=NASTY)
    cells = [replace(cell, row=cell.row + NASTY, column=NASTY, note=NASTY) for cell in result.cells]
    replace(result, cells=cells).write(tmp_path / "x.json")
    series = {f"a_high/{NASTY}": [0.1, 0.2]}
    Result("figure-mixing", [CellResult(NASTY, NASTY, NASTY, series=series)]).write(tmp_path / "m.json")
    write_run(tmp_path / "run", data=NASTY, model=NASTY)
    trial = Trial(0, "complete", {NASTY: NASTY}, 0.5, (0.5,), 1.0)
    names = dict.fromkeys(("name", "data", "model", "metric", "split", "command", "data_hash"), NASTY)
    more = {"trials": [trial], "space": {NASTY: [NASTY]}, "importance": {NASTY: 1.0}, "environment": {NASTY: NASTY}}
    (study(tmp_path / "study", **names, **more) / "best.yaml").write_text(f"# {NASTY}\n")
    page = page_of(tmp_path)
    assert "<script>alert" not in page
    assert page.count("<script>") == 3  # the scripts of the page
    assert page.count("</title>") == page.count("<title>")
    assert "&lt;script&gt;alert(1)" in page
    texts = json.dumps([(chart["data"], chart["layout"]) for chart in charts_of(page)])
    assert "&lt;script&gt;alert(1)" in texts
    assert "<script" not in texts  # plotly interprets tags
    assert not {"<", ">"} & set(script_json({"name": NASTY + "<!--"}))  # JSON cannot close its script


def test_the_page_is_self_contained(tmp_path):
    table().write(tmp_path / "x.json")
    write_run(tmp_path / "run")
    page = page_of(tmp_path)
    assert not re.findall(r"(?:src|href)=(?!\"(?:#|data:))", page)
    assert not [text for text in ("http://", "https://", "@import") if text in page]
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["connect-src"] == "'none'"
    assert re.fullmatch(r"('sha256-[\w+/=]+' ?){3}", rules["script-src"])
    for chart in charts_of(page):  # without JavaScript
        assert f'<noscript><p class="note">{chart["alternative"]}</p></noscript>' in page
