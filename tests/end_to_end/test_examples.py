"""The examples run as a user runs them, and show what they say."""

from __future__ import annotations

import re
from pathlib import Path

from tests import warm

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    script = f"import runpy; runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')"
    done = warm.run(script, *arguments)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_your_own_model():
    said = run("your_own_model.py", "--epochs", "20")
    scores = [float(found) for found in re.findall(r": (0\.\d\d)\n", said)]
    assert len(scores) == 3
    assert min(scores) > 0.3  # by chance: 0.1
    assert "convs.1 (GATConv): SumAggregation() -> HighOrderAggregation" in said


def test_node_classification():
    said = run("node_classification.py", "--epochs", "40", "--seeds", "1")
    scores = [float(found) for found in re.findall(r"│\s+(0\.\d{3})\s+│", said)]
    assert len(scores) == 2
    assert min(scores) > 0.6


def test_graph_regression():
    said = run("graph_regression.py", "--epochs", "30", "--graphs", "800")
    sums, products = (float(found) for found in re.findall(r"test error (\d\.\d{3})", said))
    assert products < 0.8 * sums


def test_estimator():
    said = run("estimator.py", "--epochs", "15")
    scores = [float(found) for found in re.findall(r": (0\.\d{3})\n", said)]
    assert len(scores) == 4
    assert min(scores) > 0.8
