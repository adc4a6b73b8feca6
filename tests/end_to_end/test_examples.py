"""The examples run and print the expected results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import warm

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    script = f"import runpy; runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')"
    done = warm.run(script, *arguments)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_your_own_model():
    output = run("your_own_model.py", "--epochs", "20")
    scores = [float(score) for score in re.findall(r": (0\.\d\d)\n", output)]
    assert len(scores) == 3
    assert min(scores) > 0.3  # chance level: 0.1
    assert "convs.1 (GATConv): SumAggregation() -> HighOrderAggregation" in output


def test_node_classification():
    output = run("node_classification.py", "--epochs", "40", "--seeds", "1")
    scores = [float(score) for score in re.findall(r"│\s+(0\.\d{3})\s+│", output)]
    assert len(scores) == 2
    assert min(scores) > 0.6


def test_graph_regression():
    output = run("graph_regression.py", "--epochs", "30", "--graphs", "800")
    sums, products = (float(score) for score in re.findall(r"test error (\d\.\d{3})", output))
    assert products < 0.8 * sums


def test_estimator():
    output = run("estimator.py", "--epochs", "15")
    scores = [float(score) for score in re.findall(r": (0\.\d{3})\n", output)]
    assert len(scores) == 4
    assert min(scores) > 0.8


def test_decoding():
    output = run("decoding.py", "--steps", "60", "--frames", "500")
    rates = [float(rate) for rate in re.findall(r"│ (0\.\d{4}) / ", output)[::2]]  # at 3 dB
    belief_propagation, product, *others = rates
    assert len(others) == 2
    assert belief_propagation < 0.02
    assert product < 0.6 * min(others)
