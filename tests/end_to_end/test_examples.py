"""The examples run and print the expected results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import warm

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, arguments: str, pattern: str) -> tuple[str, list[float]]:
    """Run an example, and return its output and the numbers that match a pattern."""
    script = f"import runpy; runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')"
    done = warm.run(script, *arguments.split())
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, [float(number) for number in re.findall(pattern, done.stdout)]


@pytest.mark.parametrize(
    ("name", "arguments", "pattern", "count", "least"),
    [
        ("your_own_model.py", "--epochs 20", r": (0\.\d\d)\n", 1, 0.7),  # PyG's GAT: 0.83
        ("node_classification.py", "--epochs 40 --seeds 1", r"│\s+(0\.\d{3})\s+│", 2, 0.6),
        ("estimator.py", "--epochs 15", r": (0\.\d{3})\n", 4, 0.8),
    ],
)
def test_scores(name, arguments, pattern, count, least):
    output, scores = run(name, arguments, pattern)
    assert len(scores) == count
    assert min(scores) > least
    message = "convs.1 (GATConv): SumAggregation() -> HighOrderAggregation"
    assert (message in output) == (name == "your_own_model.py")


def test_graph_regression():
    _, (sums, products) = run("graph_regression.py", "--epochs 30 --graphs 800", r"test error (\d\.\d{3})")
    assert products < 0.8 * sums


def test_decoding():
    _, rates = run("decoding.py", "--steps 60 --frames 500", r"│ (0\.\d{4}) / ")
    belief_propagation, product, *others = rates[::2]  # at 3 dB
    assert len(others) == 2
    assert belief_propagation < 0.02
    assert product < 0.6 * min(others)
