"""Experiments: cells, runner, result files, statistics and output formats."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from tgnn.experiments import interactions
from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.experiment import Experiment, Selection
from tgnn.experiments.experiment_progress import CELLS_FOLDER, ExperimentProgress
from tgnn.experiments.interactions import draw_sets
from tgnn.experiments.merge_results import merge
from tgnn.experiments.paper_figures import find_paper_figure, load_paper_figures
from tgnn.experiments.result_pages import BEGIN, END, read_results, readme_table, results_page, with_table
from tgnn.experiments.results import CellResult, Result, ResultFileError, RunResult, read_result
from tgnn.experiments.runner import run_experiment
from tgnn.experiments.statistics import (
    average_ranks,
    best_rows,
    holm_correction,
    paired_p_value,
    paper_p_value,
    reference_p_values,
    summarize_scores,
)
from tgnn.experiments.write_formats import to_csv, to_latex, to_markdown, write_tables
from tgnn.models import MODELS
from tgnn.training.recipes import recipe_for
from tgnn.training.train import METRICS

ROOT = Path(__file__).parents[3]
QUICK = {"train.epochs": 2, "train.patience": 2}
KARATE = Experiment(
    "table-karate",
    "A table of karate",
    [("gcn", "gcn", {}), ("tgnn 4", "tgnn", {"model.rank": 4})],
    {"karate": ("karate", {})},
    runs=2,
)


def outcome(seed: int, test: float, split: str = "s") -> RunResult:
    return RunResult(seed, test, test, 10, 5, 2.0, 100, f"{split}{seed}", "d", "c")


def cell(row: str, column: str, tests: list[float], **more: object) -> CellResult:
    runs = tuple(outcome(seed, test) for seed, test in enumerate(tests))
    return CellResult(row, column, "accuracy", runs=runs, **more)  # type: ignore[arg-type]


@pytest.fixture
def result() -> Result:
    a = [0.80, 0.81, 0.83, 0.84, 0.86, 0.87]
    return Result(
        "table-1-citation",
        [
            cell("gcn", "cora", [x - 0.02 - i / 1000 for i, x in enumerate(a)], paper=0.8778, paper_spread=0.0096),
            cell("gcn", "pubmed", a, paper=0.889),
            cell("tgnn", "cora", a, paper=0.8808),
            cell("tgnn", "pubmed", [], failed="no data"),
        ],
        command="tgnn reproduce x",
    )


def test_columns_keep_their_order_where_the_first_row_has_few_of_them():
    few = Result("t", [cell("a", "y", [0.1]), cell("b", "x", [0.1]), cell("b", "y", [0.1])])
    assert few.columns == ["x", "y"]


def test_every_row_of_every_table_can_be_resolved():
    for experiment in EXPERIMENTS.values():
        for one in experiment.cells(Selection()):
            assert one.config.model.name in MODELS
            known = [f for f in load_paper_figures() if f.table == experiment.name]
            if known and experiment.only_reported:
                assert experiment.paper_figure(one.row, one.column) is not None


@pytest.mark.parametrize("name", ["table-1-citation", "table-1-ogb", "table-2-graph", "table-3-ablation", "table-tu"])
def test_every_figure_of_the_paper_has_its_cell(name):
    cells = {(one.row, one.column) for one in EXPERIMENTS[name].cells(Selection())}
    assert {(f.row, f.column) for f in load_paper_figures() if f.table == name} <= cells


def test_rows_of_a_table_have_the_same_data_and_budget():
    """But each scales features and chooses the epoch as its own search found best."""
    for name in ("table-1-citation", "table-2-graph", "table-tu"):
        by_column: dict[str, set[str]] = {}
        for one in EXPERIMENTS[name].cells(Selection()):
            data, train = one.config.data, one.config.train
            same = data.model_dump_json(exclude={"features"}) + train.model_dump_json(exclude={"select_by"})
            same += one.config.optimizer.model_dump_json(include={"schedule", "warmup", "grad_clip"})
            by_column.setdefault(one.column, set()).add(same)
        assert {len(found) for found in by_column.values()} == {1}
    chosen = {}
    for one in EXPERIMENTS["table-1-citation"].cells(Selection()):
        own = recipe_for(one.column, one.row, "node")["train"].get("select_by", "metric")
        chosen.setdefault(one.column, set()).add(own)
        assert one.config.train.select_by == own
    assert {"loss", "metric"} in chosen.values()


def test_a_part_of_a_table():
    cells = EXPERIMENTS["table-1-citation"].cells(Selection(models=["gcn"], datasets=["cora", "karate"]))
    assert [(one.row, one.column) for one in cells] == [("gcn", "cora"), ("gcn", "karate")]
    ranks = EXPERIMENTS["figure-rank"].cells(Selection(models=["tgnn"], datasets=["cora"], largest=32))
    assert [one.config.model.arguments["rank"] for one in ranks] == [8, 16, 32]


@pytest.mark.parametrize(
    ("ask", "words"),
    [(Selection(models=["gnc"]), "has no model 'gnc'"), (Selection(datasets=["coar"]), "did you mean cora")],
)
def test_a_part_that_is_not_there(ask, words):
    with pytest.raises(ValueError, match=words):
        EXPERIMENTS["table-1-citation"].cells(ask)


def test_parameters_of_the_efficiency_tables():
    """What the paper counts is what ours have (tests/unit/baselines counts them for other sizes)."""
    from tgnn.models import build_model
    from tgnn.models.data_shape import DataShape

    for name in ("table-efficiency", "table-pooling"):
        experiment = EXPERIMENTS[name]
        for one in experiment.cells(Selection(datasets=["cora"])):
            wanted = find_paper_figure(f"{name}/parameters", one.row, one.column)
            settings = one.config.model
            if wanted is None or settings.hidden_channels > 1000:
                continue
            shape = DataShape("node", 1433, None, 7)
            model = build_model(
                settings.name,
                shape,
                settings.hidden_channels,
                settings.num_layers,
                settings.dropout,
                settings.arguments,
            )
            assert sum(p.numel() for p in model.parameters()) == wanted.value, one.row


def test_cells_are_run_once(tmp_path):
    told = []

    def on_progress(progress):
        told.append((progress.done, progress.reused))

    ask = Selection(changes=QUICK)
    first = run_experiment(KARATE, ask, tmp_path, on_progress=on_progress)
    assert [len(one.runs) for one in first.cells] == [2, 2]
    assert told[-1] == (4, 0)
    again = run_experiment(KARATE, ask, tmp_path, on_progress=on_progress)
    assert told[-1] == (4, 4)
    assert again.cells == first.cells
    assert list(read_result(tmp_path / "table-karate.json").cells) == first.cells
    assert first.cells[0].runs[0].split_hash == first.cells[1].runs[0].split_hash
    assert "root" not in first.cells[0].config["data"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: json.dumps(json.loads(text) | {"data_hash": "another"}), "run on other data"),
        (lambda text: json.dumps(json.loads(text) | {"split_hash": "another"}), "run on other data"),
        (lambda text: text[:20], "is damaged"),
        (lambda text: "[3]", "is damaged"),
        (lambda text: "{}", "is damaged: it has no seed"),
    ],
)
def test_a_run_that_cannot_be_taken_fails_alone(damage, reason, tmp_path, caplog):
    run_experiment(KARATE, Selection(changes=QUICK, runs=1), tmp_path)
    path = next((tmp_path / CELLS_FOLDER).glob("karate-gcn-*")) / METRICS
    path.write_text(damage(path.read_text()))
    found = run_experiment(KARATE, Selection(changes=QUICK, runs=2), tmp_path)
    assert reason in found.cells[0].failed
    assert "remove the folder" in found.cells[0].failed
    assert [len(one.runs) for one in found.cells] == [2, 2]  # what the table had of that seed stays


def test_what_failed_is_on_disk_before_the_rest_is_done(tmp_path, caplog):
    broken = replace(KARATE, rows=[("gat", "gat", {"model.heads": 0}), *KARATE.rows])
    seen = []

    def on_progress(progress):
        if progress.failed and not progress.done:
            seen.append(read_result(tmp_path / "table-karate.json").cells[0].failed)

    run_experiment(broken, Selection(changes=QUICK, runs=1), tmp_path, on_progress=on_progress)
    assert "model.heads is 0" in seen[0]


def test_a_cell_that_fails_does_not_stop_the_rest(tmp_path, caplog):
    broken = replace(KARATE, rows=[("gat", "gat", {"model.heads": 0}), *KARATE.rows])
    found = run_experiment(broken, Selection(changes=QUICK, runs=1), tmp_path)
    assert "model.heads is 0" in found.cells[0].failed
    assert [len(one.runs) for one in found.cells] == [0, 1, 1]
    assert "failed: model.heads is 0" in to_markdown(found)
    assert "model.heads is 0" in caplog.text


def test_curves_of_the_first_run_are_kept(tmp_path):
    mixing = replace(KARATE, rows=[("tgnn", "tgnn", {"model.mix": "scalar"})], series=("a_high/",))
    found = run_experiment(mixing, Selection(changes=QUICK, runs=1), tmp_path)
    assert {len(curve) for curve in found.cells[0].series.values()} == {2}


def test_cells_of_other_settings_are_not_kept(tmp_path, caplog):
    run_experiment(KARATE, Selection(changes=QUICK, runs=1), tmp_path)
    other = Selection(models=["gcn"], changes=QUICK | {"model.hidden_channels": 4}, runs=1)
    found = run_experiment(KARATE, other, tmp_path, "a line")
    assert [(one.row, one.config["model"]["hidden_channels"]) for one in found.cells] == [("gcn", 4)]
    assert "no longer contains cells with other configurations: gcn on karate, tgnn 4 on karate" in caplog.text
    assert found.command == "a line"


def test_what_is_merged():
    """A cell is made of one data set, and a column of one split for each seed."""
    experiment = replace(KARATE, rows=[(row, "gcn", {}) for row in "abc"])
    then = Result("t", [cell("a", "x", [0.1, 0.2, 0.3]), cell("c", "x", [0.6]), cell("c", "y", [0.7])], "first")
    now = Result("t", [cell("b", "x", [0.5]), cell("a", "x", [0.4])], "second")
    found = merge(then, now, experiment)
    assert [(one.row, one.column, one.tests) for one in found.cells] == [
        ("a", "x", [0.4, 0.2, 0.3]),
        ("b", "x", [0.5]),
        ("c", "x", [0.6]),
        ("c", "y", [0.7]),
    ]
    assert found.command == "first; second"
    assert merge(found, replace(now, command="first"), experiment).command == "first; second"
    fresh = replace(
        now, cells=[replace(one, runs=(replace(one.runs[0], data_hash="e", split_hash="o"),)) for one in now.cells]
    )
    found = merge(then, fresh, experiment)
    assert [(one.row, one.column, one.tests) for one in found.cells] == [
        ("a", "x", [0.4]),
        ("b", "x", [0.5]),
        ("c", "y", [0.7]),
    ]
    assert merge(None, now, experiment) is now
    failed = replace(cell("a", "x", []), metric="", failed="its data was not found")
    drawn = replace(then, cells=[replace(then.cells[0], note="a note", series={"a_high": [0.5]})])
    (kept,) = merge(drawn, replace(now, cells=[failed]), experiment).cells
    assert (kept.tests, kept.metric, kept.failed) == ([0.1, 0.2, 0.3], "accuracy", "its data was not found")
    assert (kept.note, kept.series) == ("a note", {"a_high": [0.5]})


def test_rows_of_the_same_settings_are_one_run(tmp_path):
    twins = replace(KARATE, rows=[("one", "gcn", {}), ("other", "gcn", {})])
    told = []
    on_progress = lambda progress: told.append((progress.done, progress.reused, progress.failed))  # noqa: E731
    found = run_experiment(twins, Selection(changes=QUICK, jobs=2), tmp_path, on_progress=on_progress)
    assert found.cells[0].runs == found.cells[1].runs
    assert len(found.cells[0].runs) == 2
    assert told[-1] == (4, 0, 0)
    assert len(list((tmp_path / CELLS_FOLDER).iterdir())) == 2
    run_experiment(twins, Selection(changes=QUICK), tmp_path, on_progress=on_progress)
    assert told[-1] == (4, 4, 0)


def test_two_at_one_table(tmp_path):
    refused = []

    def on_progress(progress):
        if progress.running and not refused:
            with pytest.raises(ValueError, match="another process is running table-karate in") as error:
                run_experiment(KARATE, Selection(changes=QUICK), tmp_path)
            refused.append(error)

    found = run_experiment(KARATE, Selection(changes=QUICK), tmp_path, on_progress=on_progress)
    assert refused
    assert [len(one.runs) for one in found.cells] == [2, 2]


def test_what_is_not_a_number_is_read_as_it_was_written(tmp_path):
    written = Result("t", [cell("tgnn", "x", [0.4, float("nan")]), cell("gcn", "x", [0.3, 0.5])])
    written.write(tmp_path / "t.json")
    found = read_result(tmp_path / "t.json")
    assert summarize_scores(found.cells[0].tests).mean == 0.4
    assert reference_p_values(found, "x") == {}
    (tmp_path / "t.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ResultFileError, match=r"t\.json"):
        read_result(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("table-1-citation", {"data.name": "pubmed"}, "data.name cannot be set for all cells: use --datasets"),
        ("table-1-citation", {"model.name": "gcn"}, "use --models"),
        ("table-1-citation", {"train.seed": 7}, "seeds are 0, 1"),
        ("figure-rank", {"model.rank": 16}, "tgnn 8 on cora already sets it"),
        ("table-3-ablation", {"model.low_order": "gcn"}, "cp on cora already sets it"),
        ("table-stratified", {"data.split": "random"}, "already sets it"),
    ],
)
def test_what_a_row_or_a_column_is_cannot_be_set(name, changes, words):
    with pytest.raises(ValueError, match=words):
        EXPERIMENTS[name].cells(Selection(changes=changes))


def test_points_that_go_are_told(tmp_path, caplog):
    points = replace(
        KARATE, rows=(), columns={}, points=[("a", "x"), ("b", "x")], measure=lambda row, *_: cell(row, "x", [0.5])
    )
    run_experiment(points, Selection(), tmp_path)
    assert "no longer contains" not in caplog.text
    run_experiment(points, Selection(models=["a"]), tmp_path)
    assert "points that are not selected: b on x" in caplog.text


def test_few_runs_have_no_interval():
    assert summarize_scores([0.1, 0.2, 0.3, 0.4]).interval is None
    low, high = summarize_scores([0.1, 0.2, 0.3, 0.4, 0.5]).interval
    assert low < 0.3 < high
    few = Result("t", [cell("gcn", "cora", [0.1, 0.2, 0.3], paper=0.2)])
    assert "| gcn | 0.2000 ± 0.1000 (3); paper" in to_markdown(few)


def test_time_to_go_counts_runs_at_once():
    progress = ExperimentProgress(10, done=4, seconds=[10.0, 20.0], jobs=2)
    assert progress.seconds_left == 45
    assert replace(progress, jobs=100).seconds_left == 15
    assert ExperimentProgress(10).seconds_left is None


def test_long_reasons_are_told_once():
    reason = "cora was not found. Looked in:\n  one place\n  another"
    cells = [cell(row, "cora", [], failed=reason, paper=0.5) for row in ("gcn", "gat")] + [cell("a", "x", [0.5])]
    text = to_markdown(Result("t", cells))
    assert "| gcn | failed: cora was not found …; paper 0.5000 |" in text
    assert text.count("another") == 1
    assert "- gcn on cora, gat on cora failed: cora was not found. Looked in: one place another" in text


def test_ranks_of_one_column_are_no_average():
    one = Result("t", [cell(row, "x", [0.5]) for row in "ab"])
    assert average_ranks(one) is None
    assert "Average ranks" not in to_markdown(one)


def test_statistics_are_scipys(result):
    ours, gcn = result.cell("tgnn", "cora"), result.cell("gcn", "cora")
    found = summarize_scores(ours.tests)
    assert found.low < found.mean < found.high
    assert paper_p_value(ours) == pytest.approx(scipy.stats.ttest_1samp(ours.tests, 0.8808).pvalue)  # no spread
    assert paired_p_value(gcn, ours) == pytest.approx(scipy.stats.wilcoxon(gcn.tests, ours.tests).pvalue)
    assert reference_p_values(result, "cora") == {"gcn": pytest.approx(paired_p_value(gcn, ours))}
    assert summarize_scores([]) is None
    assert paired_p_value(cell("a", "b", [0.1] * 4), cell("a", "b", [0.2] * 4)) is None


def test_the_papers_spread_counts():
    """Our mean is off by more than our own spread explains, and well within the paper's."""
    ours = cell("a", "d", [0.800, 0.801, 0.802, 0.803], paper=0.81, paper_spread=0.05, paper_runs=10)
    assert paper_p_value(replace(ours, paper_spread=None)) < 0.01
    assert paper_p_value(ours) > 0.5
    theirs = [0.81 + 0.05 * z for z in scipy.stats.zscore(range(10), ddof=1)]
    welch = scipy.stats.ttest_ind(ours.tests, theirs, equal_var=False).pvalue
    assert paper_p_value(ours) == pytest.approx(welch)
    assert paper_p_value(replace(ours, runs=ours.runs[:2])) is None
    assert paper_p_value(replace(ours, paper=None)) is None


def test_equal_differences_are_ties_whatever_their_last_digits():
    """Multiples of a 406th, as on Cora, kept as 32-bit floats."""
    base = [350, 351, 352, 353, 354, 355, 356]
    steps = [1, 1, 1, -1, 1, 1, 2]
    one, other = ([float(np.float32(n / 406)) for n in counts] for counts in (np.add(base, steps), base))
    assert paired_p_value(cell("a", "d", one), cell("b", "d", other)) == scipy.stats.wilcoxon(steps).pvalue


def test_pairs_without_a_score_or_a_difference():
    one = cell("a", "d", [0.1, 0.2, 0.3, 0.4, 0.5, float("nan")])
    assert paired_p_value(one, one) == 1.0
    assert paired_p_value(one, replace(one, runs=one.runs[1:])) is None  # four are left


def test_the_row_that_others_are_tested_against():
    tests = [0.8, 0.81, 0.82, 0.83, 0.84]

    def tested(*rows: str) -> list[str]:
        return list(reference_p_values(Result("t", [cell(row, "d", tests) for row in rows]), "d"))

    assert tested("gcn", "tgnn") == ["gcn"]
    assert tested("gcn without prior correction", "gcn", "tgnn without prior correction", "tgnn") == [
        "gcn without prior correction",
        "gcn",
        "tgnn without prior correction",
    ]
    assert tested("tgnn 8", "mean 32") == ["mean 32"]
    assert tested("cp", "sum", "cp+sum") == ["cp", "sum"]
    assert tested("tgnn 8", "tgnn 16", "gcn 8") == []
    assert tested("gcn", "") == []


def test_the_best_of_a_column():
    cells = [cell("a", "d", [0.5]), cell("b", "d", [0.7]), cell("c", "d", [0.7]), cell("d", "d", [])]
    assert best_rows(Result("t", cells), "d") == {"b", "c"}
    assert best_rows(Result("t", [replace(one, metric="mae") for one in cells]), "d") == {"a"}
    assert best_rows(Result("t", cells[:1]), "d") == set()


def test_runs_are_paired_by_split_and_not_by_place():
    one = cell("a", "d", [0.1, 0.2, 0.3, 0.4, 0.5])
    runs = tuple(outcome(seed, one.tests[seed] + 0.01, "other") for seed in range(5))
    assert paired_p_value(one, replace(one, runs=runs)) is None


def test_holm():
    assert holm_correction({}) == {}
    assert holm_correction({"a": 0.5, "b": 0.9}) == {"a": 1.0, "b": 1.0}


def test_ranks():
    cells = [cell(row, column, [value]) for column in "xyz" for row, value in (("a", 0.9), ("b", 0.5), ("c", 0.7))]
    found = average_ranks(Result("t", cells))
    assert found.ranks == {"a": 1, "c": 2, "b": 3}
    # Demšar 2006, table 5
    assert found.critical_difference == pytest.approx(2.343 * (3 * 4 / (6 * 3)) ** 0.5, abs=2e-3)
    errors = [replace(one, metric="mae") for one in cells]
    assert list(average_ranks(Result("t", errors)).ranks) == ["b", "c", "a"]
    assert average_ranks(Result("t", cells[:1])) is None


def test_texts(result, tmp_path):
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


def test_one_run_has_no_spread():
    one = Result("t", [cell("gcn", "cora", [0.8])])
    assert "| gcn | 0.800 |" in to_markdown(one)
    assert "| gcn | 0.8000 (1); paper 0.9000, -0.1000 |" in to_markdown(Result("t", [replace(one.cells[0], paper=0.9)]))
    assert "gcn & 0.8000 \\\\" in to_latex(one)
    (row,) = csv.DictReader(io.StringIO(to_csv(one)))
    assert (row["mean"], row["std"], row["low"], row["high"], row["runs"]) == ("0.8", "", "", "", "1")


def test_cells_that_the_paper_leaves_empty_stay_empty():
    cells = [cell("a", "x", [0.5], paper=0.5), cell("a", "y", [0.5]), cell("b", "y", [0.25], paper=0.5)]
    found = Result("t", cells)
    assert "| b |  | 0.2500 (1); paper 0.5000, -0.2500 |" in to_markdown(found)
    assert "b &  &  & 0.2500 & 0.5000 \\\\" in to_latex(found)
    assert len(to_csv(found).splitlines()) == 4


def test_names_stay_names():
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


def test_texts_of_costs_and_theorems():
    costly = Result("table-efficiency", [cell("tgnn 8", "3", [0.8, 0.9, 0.85])])
    assert "| tgnn 8 | 3 | 100 [58,128] | 2.0 [" in to_markdown(costly)
    assert "tgnn 8 & 3 & 100 & 2.0 & 10 & 0.8500" in to_latex(costly)
    holds = CellResult("Theorem 1", "k=3", "holds", note="error 0")
    both = Result("theorems", [holds, replace(holds, failed="it does not")])
    assert "| Theorem 1 | k=3 | no | it does not; error 0 |" in to_markdown(both)
    assert "Theorem 1 & k=3 & yes" in to_latex(both)


def test_pages(result):
    page = results_page([result])
    assert "tgnn reproduce x" in page
    table = readme_table([result, replace(result, name="theorems")])
    found = summarize_scores(result.cell("tgnn", "cora").tests)
    ours = f"0.835 ± 0.027 | {found.low:.3f} to {found.high:.3f}"
    assert f"| cora | accuracy | 6 | {ours} | 0.881 | 0.812 ± 0.026 |  |" in table
    assert "pubmed" not in table  # tgnn has no mean there
    assert "docs/results.md):\n\n- Numerical checks of the three theorems of the paper" in table
    assert "applied to all models. [Diff" in table
    cells = [cell("tgnn without prior correction", "cora", [0.5, 0.7]), cell("gcn", "cora", [0.9])]
    uncorrected = Result("table-prior-correction", cells)
    assert "all models (without it, with the same hyperparameters: tGNN 0.600 on cora). [Diff" in (
        readme_table([result, uncorrected])
    )
    text = with_table(f"before\n{BEGIN}\nold\n{END}\nafter\n", table)
    assert "old" not in text
    assert text.startswith("before")
    assert text.endswith("after\n")
    assert with_table(text, table) == text
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


def test_pages_of_the_repository_are_generated():
    """Change nothing there by hand: `make results`."""
    results = read_results(ROOT / "results")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert (ROOT / "docs/results.md").read_text(encoding="utf-8") == results_page(results)
    assert readme == with_table(readme, readme_table(results))


def test_what_the_notes_say_of_our_recipes():
    """`_OUR_TGNN`, beside the recipes."""
    found = {one.column: one.config for one in EXPERIMENTS["table-1-citation"].cells(Selection(models=["tgnn"]))}
    assert {config.train.num_neighbors for config in found.values()} == {None}
    settings = [config.model.arguments for config in found.values()]
    assert {(config.model.num_layers, config.model.arguments.get("jk")) for config in found.values()} == {
        (2, None),
        (3, "cat"),
    }
    assert {own["low_order"] for own in settings} == {"gcn"}
    assert {name for name, config in found.items() if config.model.arguments.get("mix") == "scalar"} == {"cora"}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"tgnn_result": 2}', '{"tgnn_result": 1, "cells": []}'])
def test_a_file_that_is_no_result(text, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ResultFileError, match=r"x\.json"):
        read_result(path)


def test_folds_are_found_again(tmp_path):
    small = {"data.split": "fold", "train.epochs": 1, "model.hidden_channels": 4, "model.num_layers": 1}
    ask = Selection(models=["gin"], datasets=["digits-graphs"], runs=2, changes=small)
    first = run_experiment(EXPERIMENTS["table-tu"], ask, tmp_path)
    again = run_experiment(EXPERIMENTS["table-tu"], ask, tmp_path)
    assert [len(one.runs) for one in first.cells] == [2]
    assert again.cells == first.cells


def test_labels_of_planted_interactions():
    import torch

    sets = draw_sets(50, 3, torch.Generator().manual_seed(0))
    for x, y in zip(sets.x, sets.y):
        mark, value, other = x.unbind(1)
        assert mark.tolist().count(1) == 3
        assert (value[mark == 1] != 0).all()
        assert (other[mark == 0] != 0).all()
        assert int(math.prod(value[mark == 1].tolist()) > 0) == int(y)


def test_interactions_and_theorems(tmp_path, monkeypatch):
    for name, value in (("_TRAIN", 50), ("_VAL", 20), ("_TEST", 20), ("_EPOCHS", 1)):
        monkeypatch.setattr(interactions, name, value)
    small = Selection(runs=1, largest=8)
    found = run_experiment(EXPERIMENTS["figure-interactions"], small, tmp_path)
    assert len(found.cells) == 6 * 8
    assert "parameters" in to_markdown(found)
    again = run_experiment(EXPERIMENTS["figure-interactions"], small, tmp_path)
    assert again.cells == found.cells
    checked = run_experiment(EXPERIMENTS["theorems"], Selection(), tmp_path)
    assert not any(one.failed for one in checked.cells)
    assert "holds" in to_markdown(checked)


def test_points_that_are_measured():
    points = EXPERIMENTS["figure-interactions"].select_points(Selection(models=["cp", "sum 32"], datasets=["2"]))
    assert points == [("cp 8", "2"), ("cp 32", "2"), ("sum 32", "2")]
    with pytest.raises(ValueError, match="theorems has no 'cora'; it has F=2, k=3"):
        EXPERIMENTS["theorems"].select_points(Selection(datasets=["cora"]))
    with pytest.raises(ValueError, match=r"model\.rank cannot be set"):
        EXPERIMENTS["theorems"].select_points(Selection(changes={"model.rank": 3, "data.root": "x"}))


def test_a_point_that_fails_does_not_stop_the_rest(tmp_path):
    def measure(row, column, runs, store):
        if row == "b":
            raise RuntimeError("too big")
        return cell(row, column, [0.5] * runs)

    told = []
    points = replace(KARATE, rows=(), columns={}, points=[("a", "x"), ("b", "x"), ("c", "x")], measure=measure)
    found = run_experiment(
        points, Selection(), tmp_path, on_progress=lambda now: told.append((now.done, now.failed, now.left))
    )
    assert [(one.row, len(one.runs), one.failed) for one in found.cells] == [
        ("a", 2, ""),
        ("b", 0, "too big"),
        ("c", 2, ""),
    ]
    assert told == [(0, 0, 3), (1, 0, 2), (1, 1, 1), (2, 1, 0)]
    assert list(read_result(tmp_path / "table-karate.json").cells) == list(found.cells)
