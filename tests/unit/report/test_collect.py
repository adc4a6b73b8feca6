"""Sources of the report page: found once, read again when they change, and reported if they are damaged."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.unit.report.make import page_of, study, table, write_run
from tgnn.report.collect import ReportReader, find_sources
from tgnn.report.render import render


def test_sources_are_found_once_at_any_depth(tmp_path):
    write_run(tmp_path / "a/b/c/run")
    write_run(tmp_path / "a/.hidden/run")
    table().write(tmp_path / "a/b/x.json")
    study(tmp_path / "a/d")
    (tmp_path / "a/other.json").write_text("{}")
    again = ("a", "a/b", "a/b/c/run", "a/b/x.json", "a/d", "a/d/study.json")
    sources = find_sources([tmp_path / name for name in again])
    assert [(source.source_type, source.name) for source in sources] == [
        ("result", "a/b/x.json"),
        ("run", "a/b/c/run"),
        ("study", "a/d/study.json"),
    ]


def test_unchanged_files_are_not_read_again(tmp_path):
    table().write(tmp_path / "x.json")
    write_run(tmp_path / "run")
    folder = study(tmp_path / "study")
    reader = ReportReader([tmp_path])
    first, again = reader.read(), reader.read()
    assert again.stamp == first.stamp
    assert again.sections[1:3] == first.sections[1:3]  # after the summary of the runs
    assert all(one is other for one, other in zip(again.sections[1:3], first.sections[1:3]))
    write_run(tmp_path / "run-2")
    (folder / "best.yaml").write_text("another: recipe\n")
    then = reader.read()
    assert then.stamp != first.stamp
    assert then.sections[1] is first.sections[1]
    assert then.sections[2] is not first.sections[2]
    assert then.counts["runs"] == 2
    assert "another: recipe" in render(then)


TRIAL = {"number": 0, "state": "complete", "params": {}}
CELL = '{"tgnn_result": 2, "name": "x", "cells": [{"row": "a", "column": "b", "metric": "c", '


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("run/metrics.json", "{", "metrics.json is damaged: not valid JSON"),
        ("run/metrics.json", "[1]", "metrics.json contains no mapping"),
        ("run/metrics.json", '{"test": "much"}', "metrics.json has no test score"),
        ("run/metrics.json", "[" * 100000, "metrics.json is damaged: not valid JSON: recursion limit"),
        ("run/config.yaml", "a: [", "config.yaml: not valid YAML"),
        ("run/config.yaml", "\x00\x01", "config.yaml: not valid YAML"),
        ("run/data.json", None, "data.json is missing"),
        ("run/environment.json", b"\xff\xfe", "environment.json is not a UTF-8 text file"),
        ("run/history.jsonl", '{"epoch": 0}\nnonsense\n{"epoch": 2}\n', "line 2 of history.jsonl is damaged"),
        ("run/history.jsonl", b"\xff\xfe\n{}\n", "line 1 of history.jsonl is damaged"),
        ("x.json", '{"tgnn_result": 2, "cells": [', "not valid JSON"),
        ("x.json", '{"tgnn_result": 1, "cells": []}', "has the result format 1"),
        ("x.json", '{"tgnn_result": 2, "cells": [{"row": 3}]}', "name is missing"),
        ("x.json", '{"tgnn_result": 2, "name": 3, "cells": []}', "name is 3"),
        ("x.json", CELL + '"runs": [3]}]}', "cells.0.runs.0"),
        ("x.json", CELL + '"runs": [], "series": {"x": "y"}}]}', "cells.0.series.x"),
        ("x.json", "[" * 100000, "recursion limit"),
        ("x.json", "[]", "is not a result of `tgnn reproduce`"),
        ("x.json", "\x00", "is not a result of `tgnn reproduce`"),
        ("study/study.json", "{", "is damaged: not valid JSON"),
        ("study/study.json", "[]", "is not a study"),
        ("study/study.json", "[" * 100000, "is damaged: "),
        ("study/study.json", {"splits": "many"}, "is damaged: splits is "),
        ("study/study.json", {"importance": {"a": "much"}}, "is damaged: importance.a is "),
        ("study/study.json", {"trials": [TRIAL | {"scores": [None]}]}, "trials.0.scores.0"),
        ("study/study.json", {"trials": [TRIAL | {"score": "x"}]}, "trials.0.score is "),
        ("study/study.json", {"space": {"a": 3}}, "is damaged: space.a"),
        ("study/study.json", {"unknown": 3}, "is damaged: unknown is an unknown key"),
    ],
)
def test_damaged_files_are_reported(file, content, reason, tmp_path):
    write_run(tmp_path / "run")
    table().write(tmp_path / "x.json")
    study(tmp_path / "study")
    path = tmp_path / file
    if content is None:
        path.unlink()
    elif isinstance(content, dict):
        path.write_text(json.dumps({**json.loads(path.read_text()), **content}))
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    contents = ReportReader([tmp_path / "run", tmp_path / "x.json", tmp_path / "study"]).read()
    ((name, why),) = contents.damaged
    assert name.endswith(file.removesuffix("/" + path.name) if file.startswith("run") else path.name)
    assert reason in why
    assert contents.counts["damaged"] == 1
    page = render(contents)
    assert 'id="damaged"' in page
    assert name in page


def test_values_of_wrong_types(tmp_path):
    folder = write_run(tmp_path / "run", test=None)
    (folder / "data.json").write_text('{"info": 3, "task": [], "split": null}')
    (folder / "config.yaml").write_text("data: [1]\nmodel: 4\ntrain: {epochs: many}\n")
    (folder / "history.jsonl").write_text('{"loss": "x"}\n{"loss": null, "seconds": []}\n')
    assert "No epoch has been recorded yet." in page_of(tmp_path)
    assert ReportReader([tmp_path]).read().runs[0].state == "unfinished"


@pytest.mark.slow
def test_optuna_is_not_imported():
    code = "import sys, tgnn.report.collect; sys.exit(bool({'optuna', 'sqlalchemy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
