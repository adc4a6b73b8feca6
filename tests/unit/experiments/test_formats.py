"""Result files and their Markdown, CSV, LaTeX and README output."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tools.result_pages import BEGIN, END, read_results, readme_table, results_page, with_table

from tests.unit.experiments.make import cell, citation_result
from tgnn.experiments.formats import to_csv, to_latex, to_markdown, write_tables
from tgnn.experiments.results import CellResult, Result, ResultFileError, read_result
from tgnn.experiments.statistics import reference_p_values, summarize_scores

ROOT = Path(__file__).parents[3]


@pytest.fixture
def result() -> Result:
    return citation_result()


def test_columns_are_ordered_by_the_longest_row():
    few = Result("t", [cell("a", "y", [0.1]), cell("b", "x", [0.1]), cell("b", "y", [0.1])])
    assert few.columns == ["x", "y"]


def test_nan_scores_are_written_and_read(tmp_path):
    written = Result("t", [cell("tgnn", "x", [0.4, float("nan")]), cell("gcn", "x", [0.3, 0.5])])
    written.write(tmp_path / "t.json")
    found = read_result(tmp_path / "t.json")
    assert summarize_scores(found.cells[0].tests).mean == 0.4
    assert reference_p_values(found, "x") == {}


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"tgnn_result": 2}', b'{"tgnn_result": 1}', b"\xff\xfe{}"])
def test_invalid_result_files(text, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(text)
    with pytest.raises(ResultFileError, match=r"x\.json"):
        read_result(path)


def test_long_failure_messages_are_shown_once():
    reason = "cora was not found. Looked in:\n  one place\n  another"
    cells = [cell(row, "cora", [], failed=reason, paper=0.5) for row in ("gcn", "gat")] + [cell("a", "x", [0.5])]
    text = to_markdown(Result("t", cells))
    assert "| gcn | failed: cora was not found …; paper 0.5000 |" in text
    assert text.count("another") == 1
    assert "- gcn on cora, gat on cora failed: cora was not found. Looked in: one place another" in text


def test_markdown_csv_and_latex(result, tmp_path):
    assert [path.suffix for path in write_tables(result, tmp_path)] == [".md", ".csv", ".tex"]
    text = to_markdown(result)
    found = summarize_scores(result.cell("tgnn", "cora").tests)
    ours = f"0.8350 ± 0.0274 (6; {found.low:.4f} to {found.high:.4f}); paper 0.8808, -0.0458\\*"
    assert f"| tgnn | {ours} | failed: no data |" in text
    assert "cora: statistically significant difference from tgnn for gcn (p = .031)." in text
    rows = list(csv.DictReader(io.StringIO(to_csv(result))))
    assert float(rows[0]["difference"]) == pytest.approx(summarize_scores(result.cells[0].tests).mean - 0.8778)
    assert rows[3]["failed"] == "no data"
    tex = to_latex(result)
    assert r"\begin{tabular}{lrrrr}" in tex
    assert r" & \multicolumn{2}{c}{cora} & \multicolumn{2}{c}{pubmed} \\" in tex
    assert r"tgnn & \textbf{0.8350 $\pm$ 0.0274}$^{*}$ & 0.8808 & failed &  \\" in tex
    assert r"$^{*}$ & 0.8778 $\pm$ 0.0096 &" in tex


def test_few_runs_have_no_interval_and_one_run_has_no_standard_deviation():
    one = Result("t", [cell("gcn", "cora", [0.8])])
    assert "| gcn | 0.800 |" in to_markdown(one)
    assert "Average ranks" not in to_markdown(one)
    assert "| gcn | 0.8000 (1); paper 0.9000, -0.1000 |" in to_markdown(Result("t", [replace(one.cells[0], paper=0.9)]))
    assert "gcn & 0.8000 \\\\" in to_latex(one)
    (row,) = csv.DictReader(io.StringIO(to_csv(one)))
    assert (row["mean"], row["std"], row["low"], row["high"], row["runs"]) == ("0.8", "", "", "", "1")
    three = Result("t", [cell("gcn", "cora", [0.1, 0.2, 0.3], paper=0.2)])
    assert "| gcn | 0.2000 ± 0.1000 (3); paper" in to_markdown(three)


def test_cells_without_a_value_of_the_paper():
    cells = [cell("a", "x", [0.5], paper=0.5), cell("a", "y", [0.5]), cell("b", "y", [0.25], paper=0.5)]
    found = Result("t", cells)
    assert "| b |  | 0.2500 (1); paper 0.5000, -0.2500 |" in to_markdown(found)
    assert "b &  &  & 0.2500 & 0.5000 \\\\" in to_latex(found)
    assert len(to_csv(found).splitlines()) == 4
    unreported = Result("t", [cell("a", "x", [0.5]), cell("a", "y", [0.5]), cell("b", "y", [0.25])])
    assert "| b |  | 0.250 |" in to_markdown(unreported)


def test_names_are_escaped():
    nasty = "a|b<script> 50% x_y^2 {~} \\ & #$\nnew"
    found = Result(nasty, [cell(nasty, nasty, [0.5, 0.6], note=nasty), cell("b", nasty, [], failed=nasty)])
    text = to_markdown(found)
    assert "<script>" not in text
    (row,) = [line for line in text.splitlines() if line.startswith("| a")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 3
    tex = to_latex(found)
    assert len(tex.splitlines()) == 9
    words = r"a\textbar{}b\textless{}script\textgreater{} 50\% x\_y\textasciicircum{}2 \{\textasciitilde{}\} "
    assert words + r"\textbackslash{} \& \#\$ new" in tex
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert rows[0]["row"] == nasty
    assert rows[1]["failed"] == nasty


def test_efficiency_and_theorem_tables():
    costly = Result("table-efficiency", [cell("tgnn 8", "3", [0.8, 0.9, 0.85])])
    assert "| tgnn 8 | 3 | 100 [58,128] | 2.0 [" in to_markdown(costly)
    assert "tgnn 8 & 3 & 100 & 2.0 & 10 & 0.8500" in to_latex(costly)
    failed = Result("table-efficiency", [cell("tgnn 8", "full", [], failed="no memory")])
    assert "tgnn 8 & full &  &  &  & failed &" in to_latex(failed)
    holds = CellResult("Theorem 1", "k=3", "holds", note="error 0")
    both = Result("theorems", [holds, replace(holds, failed="it does not")])
    assert "| Theorem 1 | k=3 | no | it does not; error 0 |" in to_markdown(both)
    assert "Theorem 1 & k=3 & yes" in to_latex(both)


def test_result_pages(result):
    page = results_page([result])
    assert "tgnn reproduce x" in page
    table = readme_table([result, replace(result, name="theorems")])
    found = summarize_scores(result.cell("tgnn", "cora").tests)
    ours = f"0.835 ± 0.027 | {found.low:.3f} to {found.high:.3f}"
    assert f"| cora | accuracy | 6 | {ours} | 0.881 | 0.812 ± 0.026 |  |" in table
    assert "pubmed" not in table  # tgnn has no mean there
    assert "docs/results.md):\n\n- Numerical checks of the three theorems of the paper" in table
    assert "applied to all models. See [how" in table
    cells = [cell("tgnn without prior correction", "cora", [0.5, 0.7]), cell("gcn", "cora", [0.9])]
    uncorrected = Result("table-prior-correction", cells)
    assert "all models. Without it, the scores with the same hyperparameters are tGNN 0.600 on cora. See [how" in (
        readme_table([result, uncorrected])
    )
    text = with_table(f"before\n{BEGIN}\nold\n{END}\nafter\n", table)
    assert text == f"before\n{BEGIN}\n\n{table}\n\n{END}\nafter\n"
    with pytest.raises(ValueError, match="no results block"):
        with_table("nothing", table)
    assert "No results have been measured yet" in readme_table([])


def test_the_best_other_model_has_the_lowest_error():
    rows = (("tgnn", 0.3), ("gcn", 0.5), ("gat", 0.4), ("mlp", 0.7))
    cells = [replace(cell(row, "zinc", [mean]), metric="mae") for row, mean in rows]
    table = readme_table([Result("table-tu", cells)])
    assert "| zinc | MAE (lower is better) | 1 | 0.300 |  |  | 0.500 | gat 0.400 |" in table
    named = [replace(one, column="atoms", config={"data": {"name": "zinc"}}) for one in cells]
    assert "| zinc, atoms | MAE" in readme_table([Result("table-zinc", named)])


@pytest.mark.slow
def test_result_pages_of_the_repository_are_up_to_date():
    """The pages are generated by `make results`."""
    results = read_results(ROOT / "results")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert (ROOT / "docs/results.md").read_text(encoding="utf-8") == results_page(results)
    assert readme == with_table(readme, readme_table(results))
