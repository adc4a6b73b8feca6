"""Contents of the report page."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from filelock import FileLock

from tests.unit.report.make import NASTY, around, charts_of, outcomes, page_of, table, write_run
from tgnn.experiments.results import CellResult, Result
from tgnn.report.collect import NoRunsFoundError, ReportReader, find_sources
from tgnn.report.number_format import MINUS
from tgnn.report.render import render, script_json


def text_of(page: str) -> str:
    main = page.partition("<main")[2].partition("</main")[0]
    return re.sub(r"\s+", " ", re.sub(r"<script.*?</script>|<[^>]+>", " ", main, flags=re.S))


# ---- results ---------------------------------------------------------------------------------------------------


def test_scores_next_to_the_paper(tmp_path):
    table().write(tmp_path / "x.json")
    page = page_of(tmp_path)
    text = text_of(page)
    assert "0.8000 ± 0.0075" in text
    assert "6 runs" in text
    assert f"paper 0.8700 ± 0.0100, {MINUS}0.0700 ≠" in text
    assert "paper 0.7000 ± 0.0200, +0.0000 ≈" in text
    assert "out of memory" in text
    assert page.count('class="badge"') == 2  # the best of each column
    (row,) = re.findall(r'<tr>\s*<th scope=row[^>]*><span class="main">gat.*?</tr>', page, flags=re.S)
    assert '<span class="pill">failed</span>' in row
    assert re.search(r'<td class=" number"></td>', row)  # a missing cell is empty


def test_figures_and_tests_of_a_table(tmp_path):
    table().write(tmp_path / "x.json")
    text = text_of(page_of(tmp_path))
    for words in (
        "Our scores and those of the paper",
        "Critical difference diagram",
        "Paired significance tests against tgnn",
        "Speed",
    ):
        assert words in text
    assert "0.031 ▲" in text  # six of six pairs: the smallest possible p-value


def test_lower_is_better_for_mae(tmp_path):
    cells = [CellResult(row, "zinc", "mae", runs=around(mean)) for row, mean in (("gcn", 0.5), ("tgnn", 0.3))]
    table(cells=cells).write(tmp_path / "x.json")
    page = page_of(tmp_path)
    assert "zinc, mae (lower is better)" in page
    assert re.search(r'best number"[^>]*><span class="badge"[^>]*>★</span> <span class="main">0\.3000', page)


def test_efficiency(tmp_path):
    cells = [CellResult(f"tgnn {rank}", "3", "accuracy", runs=outcomes(0.8, 0.9, 0.85)) for rank in (8, 64)]
    table("table-efficiency", cells=cells).write(tmp_path / "x.json")
    page = page_of(tmp_path)
    for header in ("parameters", "seconds", "epochs", "epochs/s", "accuracy"):
        assert f">{header}</button>" in page
    assert ">1,002<" in page
    assert ">50.0<" in page  # 100 epochs in 2 seconds


def test_efficiency_next_to_the_paper(tmp_path):
    cells = [CellResult("tgnn 8", column, "accuracy", runs=outcomes(0.8, 0.9, 0.85)) for column in ("3", "10")]
    table("table-efficiency", cells=cells).write(tmp_path / "x.json")
    page = page_of(tmp_path)
    assert ">neighbors</button>" in page
    assert "<small>paper 58,128</small>" in page  # parameters, appendix
    assert "<figcaption>3 neighbors</figcaption>" not in page  # the paper has no scores there


def test_significance_tests_of_an_ablation(tmp_path):
    cells = [CellResult(row, "cora", "accuracy", runs=around(m)) for row, m in (("cp", 0.8), ("cp+sum", 0.9))]
    table(cells=cells).write(tmp_path / "x.json")
    text = text_of(page_of(tmp_path))
    assert "Paired significance tests against cp+sum" in text
    assert "0.031 ▲" in text


def test_theorem_checks(tmp_path):
    cells = [
        CellResult("Theorem 1", "n = 5", "", note="error 3e-12"),
        CellResult("Theorem 2", "", "", failed="too big"),
    ]
    Result("theorems", cells).write(tmp_path / "x.json")
    page = page_of(tmp_path)
    assert ">holds</button>" in page
    first, second = re.findall(r'data-value="(✓ yes|✗ no)"[^>]*><span class="main">(.*?)</td>', page)
    assert first == ("✓ yes", "✓ yes</span>")
    assert second == ("✗ no", "✗ no</span><small>too big</small>")
    assert "error 3e-12" in page


NAMES = ["table-tu", "table-efficiency", "figure-rank", "figure-mixing", "figure-interactions", "theorems", "unknown"]


@pytest.mark.parametrize("name", NAMES)
def test_every_layout_accepts_empty_and_odd_results(name, tmp_path):
    Result(name, []).write(tmp_path / "a.json")
    odd = [
        CellResult("", "", "", runs=outcomes(0.5)),
        CellResult("a 0", "b", "mystery", runs=outcomes(float("nan"), 0.5, seconds=0.0)),
        CellResult("tgnn", "b", "accuracy", paper=0.5, failed="no", series={"a_high": [], "x": [0.5]}),
    ]
    Result(name, odd).write(tmp_path / "b.json")
    contents = ReportReader([tmp_path]).read()
    assert contents.counts["results"] == 2
    assert "<main" in render(contents)


def test_runs_without_a_score_are_reported(tmp_path):
    cells = [CellResult("tgnn", "cora", "accuracy", runs=outcomes(0.5, float("nan")))]
    table(cells=cells).write(tmp_path / "x.json")
    assert "some runs failed: 1 of 2 runs have no score" in page_of(tmp_path)


# ---- runs ------------------------------------------------------------------------------------------------------


def test_a_run_and_its_curves(tmp_path):
    write_run(tmp_path / "runs/one", epochs=2000)
    page = page_of(tmp_path / "runs")
    for words in ("runs/one", "finished", "0.8500", "12,345", "aaa111", "bbb222", "ccc333", "model.rank"):
        assert words in page
    curves = {trace["name"]: trace for chart in charts_of(page) for trace in chart["data"]}
    assert set(curves) == {"loss", "val_loss", "val_accuracy", "a_high/convs.0", "a_low/convs.0"}
    assert all(len(curve["x"]) == len(curve["y"]) <= 400 for curve in curves.values())
    assert curves["loss"]["y"][0] == 2  # a thinned curve keeps its extremes


def test_a_run_that_was_stopped_is_not_running(tmp_path):
    """The lock of the run decides, not the age of its files."""
    folder = write_run(tmp_path / "run", test=None)
    reader = ReportReader([tmp_path])
    first = reader.read()
    assert (first.counts["running"], first.counts["unfinished"]) == (0, 1)
    with FileLock(folder / ".lock"):
        assert reader.read().counts["running"] == 1
    last = reader.read()
    assert (last.counts["running"], last.counts["unfinished"]) == (0, 1)


def test_a_running_run(tmp_path):
    folder = write_run(tmp_path / "run", test=None)
    with (folder / "history.jsonl").open("a") as file:
        file.write('{"epoch": 30, "lo')  # being written
    with FileLock(folder / ".lock"):
        contents = ReportReader([tmp_path]).read()
    assert contents.counts["running"] == 1
    assert contents.runs[0].metrics["val"] == pytest.approx(0.9 - 0.5 / 30)
    assert "30 of 50" in render(contents)


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


def test_long_failure_messages_are_shown_once(tmp_path):
    reason = "cora was not found. Looked in:\n  one place\n  another"
    cells = [CellResult(row, "cora", "accuracy", failed=reason) for row in ("gcn", "gat")]
    table(cells=cells).write(tmp_path / "x.json")
    page = page_of(tmp_path)
    assert page.count("cora was not found …") == 2
    assert page.count("another") == 1
    assert "difference from the paper" not in text_of(page)  # there is nothing of the paper's
    table("figure-rank", cells=cells).write(tmp_path / "x.json")
    assert page_of(tmp_path).count("another") == 1


def test_repeated_runs(tmp_path):
    for seed, test in enumerate((0.86, 0.88)):
        write_run(tmp_path / f"many/seed-{seed}", test=test, seed=seed)
    (tmp_path / "many/runs.json").write_text('{"runs": 3}')
    text = text_of(page_of(tmp_path / "many"))
    assert "0.8700 ± 0.0141" in text
    assert "2 of 3" in text
    assert f"0.8808 ± 0.0131 difference {MINUS}0.0108" in text  # the paper's


def test_sources_are_found_once_at_any_depth(tmp_path):
    write_run(tmp_path / "a/b/c/run")
    write_run(tmp_path / "a/.hidden/run")
    table().write(tmp_path / "a/b/x.json")
    (tmp_path / "a/other.json").write_text("{}")
    sources = find_sources([tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/c/run", tmp_path / "a/b/x.json"])
    assert [(source.source_type, source.name) for source in sources] == [("result", "a/b/x.json"), ("run", "a/b/c/run")]


def test_no_runs_is_an_error(tmp_path):
    with pytest.raises(NoRunsFoundError, match="no runs or results were found in"):
        find_sources([tmp_path])
    with pytest.raises(NoRunsFoundError, match="does not exist"):
        find_sources([tmp_path / "nowhere"])


# ---- damage ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("metrics.json", "{", "metrics.json cannot be read"),
        ("metrics.json", "[1]", "metrics.json contains no mapping"),
        ("metrics.json", '{"test": "much"}', "metrics.json has no test score"),
        ("metrics.json", "[" * 100000, "metrics.json cannot be read"),
        ("config.yaml", "a: [", "config.yaml cannot be read"),
        ("config.yaml", "\x00\x01", "config.yaml cannot be read"),
        ("data.json", None, "data.json is missing"),
        ("environment.json", b"\xff\xfe", "environment.json cannot be read"),
        ("history.jsonl", '{"epoch": 0}\nnonsense\n{"epoch": 2}\n', "line 2 of history.jsonl is damaged"),
        ("history.jsonl", b"\xff\xfe\n{}\n", "line 1 of history.jsonl is damaged"),
    ],
)
def test_damaged_runs(file, content, reason, tmp_path):
    path = write_run(tmp_path / "run") / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    contents = ReportReader([tmp_path]).read()
    assert contents.counts["damaged"] == 1
    assert reason in contents.runs[0].reason
    assert reason in render(contents)


def test_values_of_wrong_types(tmp_path):
    folder = write_run(tmp_path / "run", test=None)
    (folder / "data.json").write_text('{"info": 3, "task": [], "split": null}')
    (folder / "config.yaml").write_text("data: [1]\nmodel: 4\ntrain: {epochs: many}\n")
    (folder / "history.jsonl").write_text('{"loss": "x"}\n{"loss": null, "seconds": []}\n')
    assert ReportReader([tmp_path]).read().runs[0].state == "unfinished"


START = '{"tgnn_result": 2, "name": "x", "cells": [{"row": "a", "column": "b", "metric": "c", '


@pytest.mark.parametrize(
    "content",
    [
        '{"tgnn_result": 2, "cells": [',
        '{"tgnn_result": 1, "cells": []}',
        '{"tgnn_result": 2, "cells": [{"row": 3}]}',
        '{"tgnn_result": 2, "name": 3, "cells": []}',
        START + '"runs": [3]}]}',
        START + '"runs": [], "series": {"x": "y"}}]}',
        "[]",
        "\x00",
    ],
)
def test_damaged_results(content, tmp_path):
    (tmp_path / "bad.json").write_text(content)
    write_run(tmp_path / "run")
    contents = ReportReader([tmp_path / "bad.json", tmp_path / "run"]).read()
    assert contents.counts["damaged"] == 1
    page = render(contents)
    assert "bad.json" in page
    assert 'id="damaged"' in page


def test_a_damaged_plan(tmp_path):
    write_run(tmp_path / "many/seed-0")
    (tmp_path / "many/runs.json").write_text("{")
    assert "runs.json cannot be read" in page_of(tmp_path)


# ---- safety ----------------------------------------------------------------------------------------------------


def test_names_are_escaped(tmp_path):
    result = table(name=NASTY, command=NASTY)
    cells = [replace(cell, row=cell.row + NASTY, column=NASTY, note=NASTY) for cell in result.cells]
    replace(result, cells=cells).write(tmp_path / "x.json")
    series = {f"a_high/{NASTY}": [0.1, 0.2]}
    Result("figure-mixing", [CellResult(NASTY, NASTY, NASTY, series=series)]).write(tmp_path / "m.json")
    write_run(tmp_path / "run", data=NASTY, model=NASTY)
    page = page_of(tmp_path)
    assert "<script>alert" not in page
    assert page.count("<script>") == 3  # the scripts of the page
    assert page.count("</title>") == 1 + page.count("<title>") - 1
    assert "&lt;script&gt;alert(1)" in page
    texts = json.dumps([(chart["data"], chart["layout"]) for chart in charts_of(page)])
    assert "&lt;script&gt;alert(1)" in texts
    assert "<script" not in texts  # plotly interprets tags


def test_json_cannot_close_its_script():
    text = script_json({"name": NASTY + "<!--"})
    assert "<" not in text
    assert ">" not in text


def test_the_page_is_self_contained(tmp_path):
    table().write(tmp_path / "x.json")
    write_run(tmp_path / "run")
    page = page_of(tmp_path)
    assert not re.findall(r"(?:src|href)=(?!\"(?:#|data:))", page)
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["connect-src"] == "'none'"
    assert re.fullmatch(r"('sha256-[\w+/=]+' ?){3}", rules["script-src"])


def test_a_page_without_javascript(tmp_path):
    table().write(tmp_path / "x.json")
    page = page_of(tmp_path)
    assert '<noscript><p class="lead">Charts and the details of runs need JavaScript. The tables do not.</p>' in page
    for chart in charts_of(page):
        assert f'<noscript><p class="note">{chart["alternative"]}</p></noscript>' in page


# ---- reading again ---------------------------------------------------------------------------------------------


def test_unchanged_files_are_not_read_again(tmp_path, monkeypatch):
    table().write(tmp_path / "x.json")
    write_run(tmp_path / "run")
    reader = ReportReader([tmp_path])
    first = reader.read()
    again = reader.read()
    assert again.stamp == first.stamp
    assert again.sections[0] is first.sections[0]
    write_run(tmp_path / "run-2")
    then = reader.read()
    assert then.stamp != first.stamp
    assert then.sections[0] is first.sections[0]
    assert then.counts["runs"] == 2
