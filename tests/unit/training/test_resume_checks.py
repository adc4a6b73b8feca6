"""``tgnn.train(..., resume=True)`` refuses folders of other runs, and leaves them as they are."""

from __future__ import annotations

import pytest

import tgnn
from tgnn.training.run_folder import RunError

QUICK = {"train.epochs": 1, "model.rank": 2}


def test_a_finished_run_with_another_configuration(tmp_path):
    run = tgnn.train("karate", out=tmp_path / "run", options=QUICK)
    assert tgnn.train("karate", out=run.path, options=QUICK, resume=True).metrics == run.metrics
    with pytest.raises(RunError, match="holds a finished run with another configuration"):
        tgnn.train("karate", "gcn", out=run.path, options={"train.epochs": 1}, resume=True)
    with pytest.raises(RunError, match="holds a single run"):
        tgnn.train("karate", out=run.path, options=QUICK, runs=2, resume=True)
    assert tgnn.load_run(run.path).metrics == run.metrics


def test_several_runs_with_another_configuration(tmp_path):
    group = tgnn.train("karate", out=tmp_path / "runs", options=QUICK, runs=2, jobs=1)
    before = group.metrics
    with pytest.raises(RunError, match="holds runs with another configuration"):
        tgnn.train("karate", "gcn", out=group.path, options={"train.epochs": 1}, runs=2, jobs=1, resume=True)
    with pytest.raises(RunError, match="holds several runs"):
        tgnn.train("karate", out=group.path, options=QUICK, resume=True)
    assert tgnn.load_run(group.path).metrics == before
