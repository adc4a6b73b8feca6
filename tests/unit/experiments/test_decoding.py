"""The table of decoders: equal numbers of weights, cached runs, tables and figures."""

from dataclasses import replace

import pytest
import torch

from tgnn.data.codes import load_code
from tgnn.experiments import decoding
from tgnn.experiments.decoder_networks import make_network
from tgnn.experiments.decoding import AGGREGATIONS, RECIPES, describe_decoding
from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.experiment import Selection
from tgnn.experiments.formats import to_latex, to_markdown
from tgnn.experiments.results import read_result
from tgnn.experiments.runner import run_experiment
from tgnn.report.result_section import read_result_section

TABLE = EXPERIMENTS["table-decoding"]


@pytest.fixture
def small(monkeypatch):
    """Train for two steps and test on a few frames."""
    recipes = {name: replace(recipe, steps=10, max_frames=200) for name, recipe in RECIPES.items()}
    monkeypatch.setattr(decoding, "RECIPES", recipes)
    count = decoding.count_errors
    monkeypatch.setattr(decoding, "count_errors", lambda *a, **k: count(*a, **{**k, "min_frames": 100}))


def scores(result):
    return [(cell.row, cell.column, cell.tests, cell.series) for cell in result.cells]


def test_the_name_of_a_code_selects_all_of_its_columns():
    columns = [cell.column for cell in TABLE.cells(Selection(models=["cp"], datasets=["ldpc-121-60"]))]
    assert columns == ["ldpc-121-60 4 dB", "ldpc-121-60 5 dB"]


@pytest.mark.parametrize("name", ["bch-63-45", "peg-96-48"])
def test_all_networks_have_the_same_number_of_weights(name):
    code, sizes = load_code(name), {}
    for aggr in AGGREGATIONS:
        options = describe_decoding(aggr, f"{name} 4 dB")["train"]
        net = make_network(options, code, seed=0)
        sizes[aggr] = sum(parameter.numel() for parameter in net.parameters())
        again = make_network(options, code, seed=0)
        assert all(torch.equal(one, other) for one, other in zip(net.parameters(), again.parameters()))
    assert max(sizes.values()) < 1.05 * min(sizes.values()), sizes
    assert max(sizes.values()) <= 9640


def test_every_aggregation_has_gradients_for_all_weights():
    code = load_code("bch-63-45")
    for aggr in AGGREGATIONS:
        recipe = {"hidden_channels": 8, "rounds": 2, "aggr": aggr}
        net = make_network(recipe, code, seed=0)
        net(torch.randn(63, 4, 1), code.edge_index, code.num_checks).square().sum().backward()
        missing = [name for name, parameter in net.named_parameters() if parameter.grad is None]
        assert not missing, (aggr, missing)


def test_cells_are_cached_merged_and_drawn(small, tmp_path):
    peg = Selection(models=["cp", "sum-product 5"], datasets=["peg-96-48 3 dB"], runs=2)
    first = run_experiment(TABLE, peg, tmp_path, "first")
    cells = tmp_path / "cells"
    times = {path: path.stat().st_mtime_ns for path in cells.iterdir()}
    assert [len(cell.runs) for cell in first.cells] == [2, 2]
    assert first.cell("cp", "peg-96-48 3 dB").runs[0].parameters == 3010
    more = replace(peg, models=["cp"], datasets=["peg-96-48 with 20 rounds 3 dB"])
    both = run_experiment(TABLE, more, tmp_path, "second")
    assert both.columns == ["peg-96-48 3 dB", "peg-96-48 with 20 rounds 3 dB"]
    assert both.command == "first; second"
    assert scores(run_experiment(TABLE, peg, tmp_path, "first")) == scores(both)
    assert {path: path.stat().st_mtime_ns for path in times} == times

    text = to_markdown(both)
    assert "**peg-96-48 with 20 rounds**" in text
    assert "| cp | 3,010 | 10 | 2 |" in text
    assert "e-0" in to_latex(both)
    section = read_result_section(tmp_path / "table-decoding.json", "key")
    assert [table.title for table in section.tables] == ["peg-96-48", "peg-96-48 with 20 rounds"]
    (figure,) = section.figures
    assert [chart.layout["yaxis"]["type"] for chart in figure.charts] == ["log", "log"]


def test_cells_with_another_configuration_are_dropped(small, tmp_path, monkeypatch, caplog):
    selection = Selection(models=["sum-product 5"], datasets=["peg-96-48 3 dB", "peg-96-48 4 dB"], runs=1)
    run_experiment(TABLE, selection, tmp_path)
    changed = {**decoding.RECIPES, "peg-96-48": replace(decoding.RECIPES["peg-96-48"], max_frames=300)}
    monkeypatch.setattr(decoding, "RECIPES", changed)
    found = run_experiment(TABLE, replace(selection, datasets=["peg-96-48 3 dB"]), tmp_path)
    assert [cell.column for cell in found.cells] == ["peg-96-48 3 dB"]
    assert "no longer contains cells that are not selected" in caplog.text


def test_a_missing_file_fails_only_the_cells_that_need_it(small, tmp_path, monkeypatch):
    monkeypatch.delenv("TGNN_DATA", raising=False)
    selection = Selection(models=["sum-product 5"], datasets=["ccsds-128-64 3 dB", "bch-63-36 4 dB"], runs=1)
    found = run_experiment(TABLE, selection, tmp_path)
    assert "failed: ccsds-128-64 needs the file" in to_markdown(found)
    assert "needs the file CCSDS_N128_K64.alist" in found.cell("sum-product 5", "ccsds-128-64 3 dB").failed
    assert found.cell("sum-product 5", "bch-63-36 4 dB").runs


@pytest.mark.slow
def test_parallel_processes_give_the_same_cells(tmp_path):
    selection = Selection(models=["sum-product 5", "min-sum 5"], datasets=["peg-96-48 2 dB"], runs=1)
    one = run_experiment(TABLE, selection, tmp_path / "one")
    two = run_experiment(TABLE, replace(selection, jobs=2), tmp_path / "two")
    assert scores(one) == scores(two) == scores(read_result(tmp_path / "two" / "table-decoding.json"))


def test_published_rates_stand_beside_ours(small, tmp_path):
    found = run_experiment(TABLE, Selection(models=["min-sum 5"], datasets=["bch-63-45 5 dB"], runs=1), tmp_path)
    assert "published GNN 10 | 9,640 |  |  | 1.73e-03 |" in to_markdown(found)
