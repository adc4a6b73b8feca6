"""The table of epidemics: simulated infections, networks of equal size, and reused runs."""

import pytest
import torch

from tgnn.experiments import spreading
from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.experiment import Selection
from tgnn.experiments.runner import run_experiment
from tgnn.experiments.spreading import ROWS, make_network, simulate_sir


def test_infections_are_independent():
    star = torch.tensor([[0, 1, 2, 3], [3, 3, 3, 4]])  # three infected neighbors of node 3
    infected, probability = torch.tensor([1, 1, 1, 0, 0]).bool(), torch.tensor([0.5, 0.2, 0.4, 1.0])
    found = simulate_sir(infected, star, probability, 20_000, torch.Generator().manual_seed(0))
    expected = 1 - 0.5 * 0.8 * 0.6
    torch.testing.assert_close(found[0], torch.tensor([1, 1, 1, expected, 0]), atol=0.01, rtol=0)
    torch.testing.assert_close(found[1], torch.tensor([1, 1, 1, expected, expected]), atol=0.01, rtol=0)


@pytest.mark.parametrize("row", ROWS)
def test_networks_have_about_the_same_number_of_weights(row):
    net = make_network(row, torch.tensor([0, 3, 2]), seed=0)
    assert abs(sum(parameter.numel() for parameter in net.parameters()) - 2000) < 150
    out = net(torch.ones(3, 1), torch.tensor([[0, 1], [1, 2]]), torch.rand(2, 1))
    assert out.shape == (4, 3)
    out.sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_runs_are_trained_once_and_reused(tmp_path, monkeypatch):
    for name, value in {"STEPS": 20, "SEARCH_STEPS": 1, "LEARNING_RATES": (0.01, 0.03)}.items():
        monkeypatch.setattr(spreading, name, value)
    monkeypatch.setattr(spreading, "_EPIDEMICS", {"train": (2, 20), "val": (1, 20), "test": (1, 20)})
    selection = Selection(models=["cp", "sum"], datasets=["cora"], runs=2)
    first = run_experiment(EXPERIMENTS["table-spreading"], selection, tmp_path)
    assert [len(cell.runs) for cell in first.cells] == [2, 2]
    assert all(0 < score < 1 for cell in first.cells for score in cell.tests)
    monkeypatch.setattr(spreading, "train_network", None)
    again = run_experiment(EXPERIMENTS["table-spreading"], selection, tmp_path)
    assert [cell.tests for cell in again.cells] == [cell.tests for cell in first.cells]
