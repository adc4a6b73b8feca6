"""Experiments: their cells, running them, and what is written of them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
import scipy.stats

from tgnn.baselines import MODELS
from tgnn.paper import figures
from tgnn.reproduce import interactions
from tgnn.reproduce.experiment import Ask, Experiment
from tgnn.reproduce.experiments import EXPERIMENTS
from tgnn.reproduce.interactions import draw_sets
from tgnn.reproduce.pages import BEGIN, END, readme_table, results_page, with_table
from tgnn.reproduce.result import CellResult, Outcome, Result, WrongResult, read_result
from tgnn.reproduce.run import CELLS, run_experiment
from tgnn.reproduce.statistics import against, differs_from_paper, holm, paired, ranking, summary
from tgnn.reproduce.write import as_csv, latex, markdown, write_texts
from tgnn.training.run import METRICS, WrongRun

QUICK = {"train.epochs": 2, "train.patience": 2}
KARATE = Experiment(
    "table-karate",
    "A table of karate",
    [("gcn", "gcn", {}), ("tgnn 4", "tgnn", {"model.rank": 4})],
    {"karate": ("karate", {})},
    runs=2,
)


def outcome(seed: int, test: float, split: str = "s") -> Outcome:
    return Outcome(seed, test, test, 10, 5, 2.0, 100, f"{split}{seed}", "d", "c")


def cell(row: str, column: str, tests: list[float], **more: object) -> CellResult:
    runs = tuple(outcome(seed, test) for seed, test in enumerate(tests))
    return CellResult(row, column, "accuracy", runs=runs, **more)  # type: ignore[arg-type]


@pytest.fixture
def result() -> Result:
    a = [0.80, 0.81, 0.83, 0.84, 0.86, 0.87]
    return Result(
        "table-1-citation",
        "A title with | and <script>",
        [
            cell("gcn", "cora", [x - 0.02 - i / 1000 for i, x in enumerate(a)], paper=0.8778, paper_spread=0.0096),
            cell("gcn", "pubmed", a, paper=0.889),
            cell("tgnn", "cora", a, paper=0.8808),
            cell("tgnn", "pubmed", [], failed="no data"),
        ],
        command="tgnn reproduce x",
    )


def test_every_row_of_every_table_can_be_resolved():
    for experiment in EXPERIMENTS.values():
        for one in experiment.cells(Ask()):
            assert one.config.model.name in MODELS
            known = [f for f in figures() if f.table == experiment.name]
            if known and experiment.only_reported:
                assert experiment.figure(one.row, one.column) is not None


@pytest.mark.parametrize("name", ["table-1-citation", "table-1-ogb", "table-2-graph", "table-3-ablation", "table-tu"])
def test_every_figure_of_the_paper_has_its_cell(name):
    cells = {(one.row, one.column) for one in EXPERIMENTS[name].cells(Ask())}
    assert {(f.row, f.column) for f in figures() if f.table == name} <= cells


def test_rows_of_a_table_have_the_same_data_and_budget():
    for name in ("table-1-citation", "table-2-graph", "table-tu"):
        by_column: dict[str, set[str]] = {}
        for one in EXPERIMENTS[name].cells(Ask()):
            same = one.config.data.model_dump_json() + one.config.train.model_dump_json()
            same += one.config.optimizer.model_dump_json(include={"schedule", "warmup", "clip"})
            by_column.setdefault(one.column, set()).add(same)
        assert {len(found) for found in by_column.values()} == {1}


def test_a_part_of_a_table():
    cells = EXPERIMENTS["table-1-citation"].cells(Ask(models=["gcn"], datasets=["cora", "karate"]))
    assert [(one.row, one.column) for one in cells] == [("gcn", "cora"), ("gcn", "karate")]
    ranks = EXPERIMENTS["figure-rank"].cells(Ask(models=["tgnn"], datasets=["cora"], largest=32))
    assert [one.config.model.arguments["rank"] for one in ranks] == [8, 16, 32]


@pytest.mark.parametrize(
    ("ask", "words"), [(Ask(models=["gnc"]), "there is no 'gnc'"), (Ask(datasets=["coar"]), "did you mean cora")]
)
def test_a_part_that_is_not_there(ask, words):
    with pytest.raises(ValueError, match=words):
        EXPERIMENTS["table-1-citation"].cells(ask)


def test_parameters_of_the_efficiency_tables():
    """What the paper counts is what ours have (tests/unit/baselines counts them for other sizes)."""
    from tgnn.baselines import build_model
    from tgnn.baselines.shape import Shape

    for name in ("table-efficiency", "table-pooling"):
        experiment = EXPERIMENTS[name]
        for one in experiment.cells(Ask(datasets=["cora"])):
            wanted = experiment.figure(one.row, one.column, "parameters")
            settings = one.config.model
            if wanted is None or settings.hidden > 1000:
                continue
            shape = Shape("node", 1433, None, 7)
            model = build_model(
                settings.name, shape, settings.hidden, settings.layers, settings.dropout, settings.arguments
            )
            assert sum(p.numel() for p in model.parameters()) == wanted.value, one.row


def test_cells_are_run_once(tmp_path):
    told = []
    ask = Ask(changes=QUICK)
    first = run_experiment(
        KARATE, ask, tmp_path, tell=lambda progress, now: told.append((progress.done, progress.found))
    )
    assert [len(one.runs) for one in first.cells] == [2, 2]
    assert told[-1] == (4, 0)
    again = run_experiment(
        KARATE, ask, tmp_path, tell=lambda progress, now: told.append((progress.done, progress.found))
    )
    assert told[-1] == (4, 4)
    assert again.cells == first.cells
    assert list(read_result(tmp_path / "table-karate.json").cells) == first.cells
    assert first.cells[0].runs[0].split_hash == first.cells[1].runs[0].split_hash
    assert "root" not in first.cells[0].config["data"]


def test_a_run_of_other_data_is_refused(tmp_path):
    run_experiment(KARATE, Ask(changes=QUICK, runs=1), tmp_path)
    path = next((tmp_path / CELLS).glob("*")) / METRICS
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data_hash": "another"}))
    with pytest.raises(WrongRun, match="run of other data"):
        run_experiment(KARATE, Ask(changes=QUICK, runs=1), tmp_path)


def test_a_cell_that_fails_does_not_stop_the_rest(tmp_path, caplog):
    broken = replace(KARATE, rows=[("gat", "gat", {"model.heads": 0}), *KARATE.rows])
    found = run_experiment(broken, Ask(changes=QUICK, runs=1), tmp_path)
    assert "model.heads is 0" in found.cells[0].failed
    assert [len(one.runs) for one in found.cells] == [0, 1, 1]
    assert "failed: model.heads is 0" in markdown(found)
    assert "model.heads is 0" in caplog.text


def test_curves_of_the_first_run_are_kept(tmp_path):
    mixing = replace(KARATE, rows=[("tgnn", "tgnn", {"model.mix": "scalar"})], series=("a_high/",))
    found = run_experiment(mixing, Ask(changes=QUICK, runs=1), tmp_path)
    assert {len(curve) for curve in found.cells[0].series.values()} == {2}


def test_statistics_are_scipys(result):
    ours, gcn = result.cell("tgnn", "cora"), result.cell("gcn", "cora")
    found = summary(ours.tests)
    assert found.low < found.mean < found.high
    assert differs_from_paper(ours) == pytest.approx(scipy.stats.ttest_1samp(ours.tests, 0.8808).pvalue)
    assert paired(gcn, ours) == pytest.approx(scipy.stats.wilcoxon(gcn.tests, ours.tests).pvalue)
    assert against(result, "cora") == {"gcn": pytest.approx(paired(gcn, ours))}
    assert summary([]) is None
    assert paired(cell("a", "b", [0.1] * 4), cell("a", "b", [0.2] * 4)) is None


def test_runs_are_paired_by_split_and_not_by_place():
    one = cell("a", "d", [0.1, 0.2, 0.3, 0.4, 0.5])
    runs = tuple(outcome(seed, one.tests[seed] + 0.01, "other") for seed in range(5))
    assert paired(one, replace(one, runs=runs)) is None


def test_holm():
    assert holm({}) == {}
    assert holm({"a": 0.5, "b": 0.9}) == {"a": 1.0, "b": 1.0}


def test_ranks():
    cells = [cell(row, column, [value]) for column in "xyz" for row, value in (("a", 0.9), ("b", 0.5), ("c", 0.7))]
    found = ranking(Result("t", "t", cells))
    assert found.ranks == {"a": 1, "c": 2, "b": 3}
    assert found.critical == pytest.approx(2.343 * (3 * 4 / (6 * 3)) ** 0.5, abs=2e-3)  # Demšar 2006, table 5
    errors = [replace(one, metric="mae") for one in cells]
    assert list(ranking(Result("t", "t", errors)).ranks) == ["b", "c", "a"]
    assert ranking(Result("t", "t", cells[:1])) is None


def test_texts(result, tmp_path):
    assert [path.suffix for path in write_texts(result, tmp_path)] == [".md", ".csv", ".tex"]
    text = markdown(result)
    assert "| tgnn | 0.8350 ± 0.0274 (6) [0.8808*] | failed: no data |" in text
    assert "p of a difference from tgnn" in text
    rows = list(csv.DictReader(io.StringIO(as_csv(result))))
    assert float(rows[0]["difference"]) == pytest.approx(summary(result.cells[0].tests).mean - 0.8778)
    assert rows[3]["failed"] == "no data"
    assert "tgnn & \\textbf{0.8350 $\\pm$ 0.0274} &  \\\\" in latex(result)


def test_pages(result):
    page = results_page([result])
    assert "tgnn reproduce x" in page
    table = readme_table([result])
    assert "| cora | accuracy | 6 | 0.835 ± 0.027 | 0.881 | 0.812 ± 0.026 |  |" in table
    text = with_table(f"before\n{BEGIN}\nold\n{END}\nafter\n", table)
    assert "old" not in text
    assert text.startswith("before")
    assert text.endswith("after\n")
    with pytest.raises(ValueError, match="no place"):
        with_table("nothing", table)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"tgnn_result": 1}', '{"tgnn_result": 2, "cells": []}'])
def test_a_file_that_is_no_result(text, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(WrongResult, match=r"x\.json"):
        read_result(path)


def test_labels_of_planted_interactions():
    import torch

    sets = draw_sets(50, 3, torch.Generator().manual_seed(0))
    for x, y in zip(sets.x, sets.y):
        role, value = x[:, :8].argmax(1), x[:, 8:].sum(1)
        product = 1.0
        for r in range(3):
            product *= float(value[role == r])
        assert int(product > 0) == int(y)


def test_interactions_and_theorems(tmp_path, monkeypatch):
    for name, value in (("_TRAIN", 50), ("_VAL", 20), ("_TEST", 20), ("_EPOCHS", 1), ("WIDTHS", (4,))):
        monkeypatch.setattr(interactions, name, value)
    found = run_experiment(EXPERIMENTS["figure-interactions"], Ask(runs=1), tmp_path)
    assert len(found.cells) == 6 * 8
    again = run_experiment(EXPERIMENTS["figure-interactions"], Ask(runs=1), tmp_path)
    assert again.cells == found.cells
    checked = run_experiment(EXPERIMENTS["theorems"], Ask(), tmp_path)
    assert not any(one.failed for one in checked.cells)
    assert "holds" in markdown(checked)
