"""The command ``tgnn tune``."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests import warm
from tests.end_to_end.cli.conftest import write_friends, write_tables
from tgnn.training.config import make_config

pytest.importorskip("optuna")

QUICK = "tune karate --model gcn --trials 5 --splits 1 --jobs 1 --set train.epochs=5"


def trials(folder: Path) -> list[dict[str, object]]:
    found = json.loads((folder / "study.json").read_text())["trials"]
    return [{key: value for key, value in trial.items() if key != "seconds"} for trial in found]


@pytest.mark.slow
def test_a_search_and_its_recipe(run, read, tmp_path):
    code, out, err = run(f"{QUICK} --search model.hidden_channels=4,8")
    assert code == 0, err
    assert "5 of 5 trials finished\n" in out
    assert all(f"[{number + 1}/5] trial {number}: " in err for number in range(5))
    assert "tgnn train --recipe runs/tune/karate-gcn/best.yaml --runs 10" in err
    folder = tmp_path / "runs/tune/karate-gcn"
    study = json.loads((folder / "study.json").read_text())
    final = max(study["finals"], key=lambda trial: trial["score"])
    assert len(final["scores"]) == 3
    count = len(study["finals"])
    assert [f"[final evaluation {number}/{count}] trial " in err for number in range(1, count + 1)] == count * [True]
    assert f"final evaluation on new splits: best {final['score']:.4f} (trial {final['number']})\n" in out
    best = next(t for t in study["trials"] if t["number"] == final["number"])

    text = (folder / "best.yaml").read_text()
    trials = f"{count} trial{'s' * (count > 1)}"
    score = f"{final['score']:.4f} in the final evaluation (best of {trials}, mean over 3 new splits)"
    search = f"{best['score']:.4f} in the search (5 trials, mean over 1 split)"
    assert f"\n# Validation accuracy: {score}, {search}. Split protocol: stratified.\n" in text
    command = "tgnn tune karate --model gcn --trials 5 --splits 1 --jobs 1 --search model.hidden_channels=4,8"
    found_by = f"# Found by trial {best['number']} of study karate-gcn (seed 0)"
    assert text.startswith(f"{found_by}: {command} --set train.epochs=5\n")

    found = read(f"train --recipe {folder / 'best.yaml'} --dry-run")
    assert found.pop("hash")
    wanted = json.loads(json.dumps(study["config"]))
    for key, value in best["params"].items():
        section, _, field = key.partition(".")
        wanted[section][field] = value
    for config in (wanted, found):
        config["data"].pop("root", None), config["data"].pop("offline", None)
    assert found == wanted
    make_config(found)

    code, _, err = run(f"{QUICK} --search model.hidden_channels=4,8")  # again: it is done
    assert code == 0
    assert "resuming study karate-gcn: 5 of 5 trials finished" in err
    assert "trial 0: " not in err
    assert "[final evaluation" not in err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Python on Windows has no modules pty, fcntl and termios")
def test_on_a_terminal_of_80_columns(tmp_path):
    """The live table fits into the terminal: columns that exceed its width are left out."""
    import fcntl
    import pty
    import struct
    import subprocess
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    arguments = f"{QUICK} --model tgnn --trials 3 --finals 1".split()
    environ = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tgnn", *arguments],
        cwd=tmp_path,
        stdout=theirs,
        stderr=theirs,
        env={**environ, "TERM": "xterm", "OMP_NUM_THREADS": "1"},
    )
    os.close(theirs)
    seen = b""
    try:
        while block := os.read(ours, 65536):
            seen += block
    except OSError:  # Linux raises it when the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0, seen
    assert b"\x1b[?25l" in seen  # a live table hides the cursor
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode()).splitlines()
    header, *rows = lines[len(lines) - 1 - next(n for n, line in enumerate(lines[::-1]) if line.startswith("trial ")) :]
    assert header.split()[:2] == ["trial", "accuracy"]
    assert len(header) <= 80
    assert all(re.match(r"\d +0\.\d{4} ", row) for row in rows[:3]), rows
    assert re.match(r"\d+ more columns: see tgnn report", rows[3])
    assert "…" not in "".join(lines)


def test_two_studies_in_the_same_folder(run, succeed):
    for study in ("first", "second"):
        succeed(f"{QUICK} --trials 1 --study {study}")
    assert sorted(path.name for path in Path("runs/tune").iterdir()) == ["first", "second"]
    code, _, err = run(f"{QUICK} --trials 1 --study second --out runs/tune/first")
    assert (code, "holds study first" in err) == (2, True)


def test_the_best_recipe_overrides_the_packaged_recipe(read, tmp_path):
    """The packaged recipe of tgnn for cora sets ``optimizer.cp_lr``; the best of the search does not."""
    from tgnn.training.recipes import recipe_for
    from tgnn.tuning.results import StudyResult, Trial
    from tgnn.tuning.search_space import SearchPlan
    from tgnn.tuning.study import write_files

    packaged = recipe_for("cora", "tgnn")
    config = make_config({**packaged, "data": {**packaged.get("data", {}), "name": "cora"}})
    plan = SearchPlan(config, {"optimizer.cp_lr": (None, 0.3), "model.rank": (5,), "train.patience": (7,)})
    values = {"optimizer.cp_lr": None, "model.rank": 5, "train.patience": 7}
    names = ("cora-tgnn", "cora", "tgnn", "accuracy")
    trial = Trial(0, "complete", values, 0.5, (0.5,))
    write_files(StudyResult(*names, True, "per-class-quota", 1, [trial], 1, plan.space, {}), plan, tmp_path)
    found = read(f"train --recipe {tmp_path / 'best.yaml'} --dry-run")
    wanted = plan.trial_config(values).model_dump(mode="json")
    wanted["train"] |= {"seed": 0, "threads": None}
    assert {key: value for key, value in found.items() if key != "hash"} == wanted


@pytest.fixture
def planned(read) -> Callable[[str], dict[str, list[object]]]:
    """Return the search space that a dry run prints."""
    return lambda command: read(f"{command} --dry-run")["space"]


@pytest.mark.slow
def test_json_and_dry_run(run, succeed, planned, tmp_path):
    out = succeed(f"{QUICK} --dry-run")
    assert "optimizer.lr" in out
    assert "0.01" in out
    assert "5 trials, each scored by its mean validation metric over 1 split\n" in out
    space = planned(f"{QUICK} --search optimizer.lr=")
    assert "optimizer.lr" not in space
    assert space["model.dropout"]
    assert not (tmp_path / "runs").exists()
    code, out, err = run(f"{QUICK} --out here --json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["recipe"] == "here/best.yaml"
    assert len(found["study"]["trials"]) == 5
    assert found["best"]["score"] == max(trial["score"] or 0 for trial in found["study"]["trials"])
    assert str(tmp_path) not in out


@pytest.mark.parametrize("sign", [1, -1])
def test_row_scaling_is_searched_for_non_negative_features(succeed, planned, tmp_path, sign):
    numbers = np.arange(20)
    nodes = {"id": numbers, "a": sign * (numbers % 5 + 0.5), "b": 20 * [1], "label": 10 * ["x", "y"]}
    write_tables(tmp_path, nodes, numbers, (numbers + 1) % 20)
    (tmp_path / "schema.yaml").write_text("standardize: false")
    succeed("data convert . stored")
    for data in (".", "stored"):
        assert ("data.features" in planned(f"tune --data {data}")) == (sign > 0)


def test_the_search_space_depends_on_other_options(planned):
    """Depth is not searched with neighbor sampling, and weight decays depend on the optimizer."""
    for option in ("--set=train.num_neighbors=5,5,5,5", "--search=train.num_neighbors=[5,5,5,5],[3,3,3,3]"):
        assert not {"model.num_layers", "model.powers"} & set(planned(f"tune karate --model mixhop {option}"))
    spaces = [planned(f"tune karate --set=optimizer.name={name}") for name in ("adam", "adamw")]
    adam, adamw = (space["optimizer.weight_decay"] for space in spaces)
    assert max(adam) == 0.005
    assert {0.0, 0.2} < set(adamw)
    assert not {0.0001, 0.001} & set(adamw)
    both = planned("tune karate --search optimizer.name=adam,adamw --search optimizer.weight_decay=0,0.1,0")
    assert both["optimizer.weight_decay"].count(0) == 1  # repeated values are tried once


@pytest.mark.slow
def test_own_data_and_the_stored_command(succeed, tmp_path):
    write_friends(tmp_path / "friends")
    (tmp_path / "mine.yaml").write_text("model: {hidden_channels: 4}\n")
    options = "--recipe mine.yaml --set optimizer.grad_clip=null --out study --study mine"
    succeed(f"{QUICK.replace('karate', '--data friends')} {options}")
    command = json.loads((tmp_path / "study/study.json").read_text())["command"]
    assert command.startswith("tgnn tune --data friends --model gcn --recipe mine.yaml --study mine --trials 5")
    assert {"--set optimizer.grad_clip=null", "--set train.epochs=5"} <= set(re.findall(r"--set \S+", command))
    assert "friends" in yaml.safe_load((tmp_path / "study/best.yaml").read_text())["data"]["name"]


def test_without_optuna(run, monkeypatch):
    monkeypatch.delitem(sys.modules, "tgnn.tuning.study", raising=False)
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = run(f"{QUICK} --out out")
    assert code == 2
    assert "error: tgnn tune needs optuna: pip install '.[tune]'" in err
    assert run(f"{QUICK} --dry-run")[0] == 0


def test_errors_of_trials_and_final_evaluations_are_reported(run, tmp_path, monkeypatch):
    def score(config, on_epoch):
        if config.model.hidden_channels == 7 or (config.model.hidden_channels == 9 and config.train.seed > 1000):
            raise RuntimeError("hidden [b]eight[/b]")
        return config.model.hidden_channels / 100

    monkeypatch.setattr("tgnn.tuning.objective.validation_score", score)
    Path("mine.yaml").write_text("model: {hidden_channels: 8}\n")
    space = "--search model.hidden_channels=7,9 --recipe mine.yaml --trials 12 --finals 1"
    code, _, err = run(f"{QUICK} {space} --out study")
    assert code == 0, err
    assert re.search(r"\[\d+/12\] trial \d+ failed: hidden \[b\]eight\[/b\]", err)
    assert re.search(r"\d trials? failed, first error \(trial \d+\): hidden \[b\]eight\[/b\]", err)
    finals = json.loads(Path("study/study.json").read_text())["finals"]
    failed = [trial for trial in finals if trial["state"] == "failed"]
    assert {trial["params"]["model.hidden_channels"] for trial in failed} == {9}
    number = failed[0]["number"]
    assert f"/2] trial {number} failed: hidden [b]eight[/b]" in err
    assert f"1 final evaluation failed, first error (trial {number}): hidden [b]eight[/b]" in err


@pytest.mark.slow
def test_ctrl_c_stops_all_and_nothing_is_lost(run, tmp_path):
    """The search has too many trials to end before the signal. A search of fewer trials resumes it."""
    command = f"{QUICK} --finals 0 --out {tmp_path / 'stopped'}"
    with warm.Process(warm.TGNN, *command.split(), "--jobs", "2", "--trials", "100000") as process:
        process.until(lambda: re.search(r"\] trial", process.read("err"), re.M) is not None)
        process.send_signal(signal.SIGINT, to_all=True)
        code, out, err = process.wait(), process.read("out"), process.read("err")
    assert code == 130, err
    assert "Traceback" not in err
    assert "Finished trials are saved. Run the same command again to resume." in err
    assert out == ""
    with contextlib.closing(sqlite3.connect(tmp_path / "stopped/study.db")) as database:
        states = {state for (state,) in database.execute("select state from trials")}
    assert "RUNNING" not in states  # the interrupted trials are queued again
    before = trials(tmp_path / "stopped")
    finished = [trial for trial in before if trial["state"] == "complete"]  # the others are queued again
    assert finished
    assert run(f"{command} --trials {len(before) + 2}")[0] == 0
    after = trials(tmp_path / "stopped")
    assert [trial["number"] for trial in after] == list(range(len(before) + 2))
    assert all(trial in after for trial in finished)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the children of a process are read from /proc")
def test_a_killed_worker_is_reported(tmp_path):
    """One of two worker processes is killed before its first trial. The other one runs all trials."""
    with warm.Process(warm.TGNN, *QUICK.split(), "--finals=0", "--jobs=2", f"--out={tmp_path}") as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

        def workers() -> list[int]:
            pids = children.read_text().split()
            return [int(pid) for pid in pids if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

        process.until(lambda: len(workers()) == 2)
        os.kill(workers()[0], signal.SIGKILL)
        code, err = process.wait(), process.read("err")
    assert code == 0, err
    assert "1 of 2 workers failed" in err
    assert "Traceback" not in err
    assert [trial["number"] for trial in trials(tmp_path)] == list(range(5))
