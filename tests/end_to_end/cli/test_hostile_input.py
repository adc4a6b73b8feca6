"""Hostile input of commands: sizes beyond the memory, files that are no files, closed streams, unexpected errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tgnn
from tests.end_to_end.cli.conftest import write_friends
from tgnn.utils.io import claim_folder


@pytest.fixture
def friends(tmp_path) -> Path:
    """Return a folder of tables in ``tmp_path``."""
    write_friends(tmp_path / "friends")
    return tmp_path / "friends"


BOMB = "a0: &a0 [1, 1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))


def write_graph(path: Path, **arrays: np.ndarray) -> None:
    """Write a graph of 30 nodes as a ``.npz`` file."""
    edges = np.stack([np.arange(30), np.arange(30)[::-1]])
    labels = np.arange(30) % 2
    np.savez(path, num_nodes=np.array(30), edge_index=edges, y=labels, **arrays)  # type: ignore[arg-type]


# ---- sizes -----------------------------------------------------------------------------------------------------

SIZES = {
    "--rank 1000000000": "model.rank is 1000000000: input should be less than or equal to 1000000",
    "--hidden 100000000000000000000": "model.hidden_channels is 100000000000000000000, but it should be less than",
    "--layers 100000000": "model.num_layers is 100000000, but it should be less than or equal to 1000",
    "--set train.threads=1000000": "train.threads is 1000000, but it should be less than or equal to 1024",
    "--set optimizer.lr=.inf": "optimizer.lr is inf, but it should be a finite number",
    "--runs 1000000000": "less than or equal to 100000",
    "--model gcn --layers 3 --hidden 1000000": "with 1,000,000 hidden channels would need 4 TB of memory, but this",
}


@pytest.mark.parametrize("options", SIZES)
def test_a_model_that_cannot_be_built_is_refused(run, tmp_path, options):
    code, out, err = run(f"train karate {options} --out run --set data.features=stored")
    assert (code, out) == (2, "")
    assert SIZES[options] in " ".join(err.replace("│", " ").split())
    assert not (tmp_path / "run").exists()


def test_categories_of_any_size_are_refused_before_the_allocation(run, tmp_path):
    write_graph(tmp_path / "big.npz", x=np.full((30, 1), 2**40 - 1))
    code, _, err = run("train --data big.npz --hidden 32")
    assert code == 2
    assert "hidden channels would need 141 TB of memory, but this machine has" in " ".join(err.split())


def test_a_graph_of_any_number_of_nodes_is_refused(run, tmp_path):
    np.savez(tmp_path / "big.npz", num_nodes=np.array(2**50), edge_index=np.zeros((2, 0), dtype=np.int64))
    code, _, err = run("data check big.npz")
    assert code == 2
    assert "A graph of 1,125,899,906,842,624 nodes would need 9.01 PB of memory" in " ".join(err.split())


# ---- files that are no files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nodes.csv", "schema.yaml"])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Path.mkdir, "is a folder"),
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.symlink_to("nothing"), "is a link to nothing, which does not exist"),
        (lambda path: path.symlink_to(path.name), "is a link to"),
    ],
    ids=["folder", "fifo", "broken link", "loop"],
)
def test_a_table_that_is_no_file_is_named(run, friends, name, make, message):
    (friends / name).unlink(missing_ok=True)
    make(friends / name)
    for command in ("data check friends", "train --data friends --out run"):
        code, out, err = run(command)
        assert code in (1, 2)
        text = " ".join((out + err).split())
        assert name in text
        assert message.removeprefix("is ") in text


@pytest.mark.parametrize("text", [BOMB, "[" * 5000], ids=["aliases", "nesting"])
def test_a_schema_is_bounded(run, friends, text):
    (friends / "schema.yaml").write_text(text)
    code, out, _ = run("data check friends")
    assert code == 1
    assert "schema.yaml: not valid YAML: " in " ".join(out.split())


def test_the_report_skips_a_damaged_folder_and_names_it(run, tmp_path):
    tgnn.train("karate", out=tmp_path / "runs" / "good", options={"train.epochs": 2})
    shutil.copytree(tmp_path / "runs" / "good", tmp_path / "runs" / "bad")
    (tmp_path / "runs" / "bad" / "config.yaml").write_text(BOMB)
    code, out, err = run("report runs --out page.html")
    assert code == 0
    assert "damaged: runs/bad: config.yaml: not valid YAML: more than 1,000,000 values" in err
    assert "2 runs" in out


# ---- data that cannot be trained on ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("id,x,label,split\na,1,p,train\nb,2,q,train\nc,3,p,test\n", "The validation set of own is empty"),
        ("id,x,label,split\na,1,p,train\nb,2,q,train\nc,3,p,val\n", "The test set of own is empty"),
        ("ID,Id,label\na,1,p\nb,2,q\nc,3,p\n", "columns 'ID', 'Id' could each be the id"),
        ("id,x,label\na,1,3e38\nb,2,-3e38\nc,3,1.5\n", "larger than 1e30"),
    ],
)
def test_check_and_train_refuse_the_same_data(run, tmp_path, nodes, message):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "nodes.csv").write_text(nodes)
    (tmp_path / "own" / "edges.csv").write_text("source,target\na,b\nb,c\n")
    code, out, _ = run("data check own")
    assert code == 1
    assert message in " ".join(out.split())
    code, _, err = run("train --data own --out run")
    assert code == 2
    assert message in " ".join(err.split())


def test_a_finished_run_with_damaged_weights_is_not_reported_as_good(run, tmp_path):
    tgnn.train("karate", out=tmp_path / "run", options={"train.epochs": 2})
    path = tmp_path / "run" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    code, out, err = run("train --resume run")
    assert (code, out) == (2, "")
    assert "run/model.safetensors is damaged" in " ".join(err.split())


def test_a_conversion_replaces_what_a_killed_one_has_left(run, friends, tmp_path):
    (friends / "schema.yaml").write_text("nodes: {features: {town: ignore}}")
    for name in (".graph.part", ".graph.scratch"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.npy").write_bytes(b"half")
    code, _, err = run("data convert friends graph")
    assert code == 0, err
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["friends", "graph"]
    with claim_folder(tmp_path / ".other.part"):
        code, _, err = run("data convert friends other")
    assert code == 2
    assert "because another process is writing there" in " ".join(err.split())


def test_ids_that_a_spreadsheet_would_calculate(run, tmp_path):
    (tmp_path / "own").mkdir()
    ids = ["=1+1", "+1", "-1", "@sum", "plain", *(f"n{i}" for i in range(25))]
    rows = "".join(f"{name},{i},{'pq'[i % 2]}\n" for i, name in enumerate(ids))
    (tmp_path / "own" / "nodes.csv").write_text("id,x,label\n" + rows)
    (tmp_path / "own" / "edges.csv").write_text("source,target\n=1+1,plain\n")
    tgnn.train(tmp_path / "own", out=tmp_path / "run", options={"train.epochs": 1})
    assert run("predict run --out plain.csv")[0] == run("predict run --out safe.csv --spreadsheet-safe")[0] == 0
    plain, safe = ((tmp_path / name).read_text().splitlines()[1:5] for name in ("plain.csv", "safe.csv"))
    assert [line.split(",")[0] for line in plain] == ids[:4]
    assert [line.split(",")[0] for line in safe] == [f"'{name}" for name in ids[:4]]


# ---- output ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["train kora --json", "data check nowhere --json", "train karate --runs 0 --json"])
def test_an_error_is_json_if_json_is_requested(run, command):
    code, out, err = run(command)
    assert code == 2
    (message,) = json.loads(out).values()
    assert " ".join(message.split())[:20] in " ".join(err.replace("│", " ").split())


def test_an_unexpected_error_is_one_line_that_names_the_file_of_the_traceback(run, tmp_path, monkeypatch):
    def fail(*arguments: object) -> None:
        raise RuntimeError("something nobody expected")

    monkeypatch.setattr("tgnn.training.prepare.check_own_data", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, out, err = run("data check .")
    assert (code, out) == (70, "")
    (path,) = tmp_path.glob("tgnn-error-*.txt")
    message = "error: unexpected RuntimeError: something nobody expected."
    assert " ".join(err.split()) == f"{message} The traceback is in {path}. Please report this bug."
    assert "in fail" in path.read_text()


def test_a_full_log_file_is_reported_once(run):
    code, _, err = run("--log-file /dev/full train karate --epochs 5 --out run")
    assert code == 0
    assert err.count("the log file /dev/full cannot be written: No space left on device") == 1
    assert "Traceback" not in err


def test_closed_and_full_outputs():
    command = f'"{sys.executable}" -m tgnn data list --json'
    for stream, code, message in ((">&-", 0, ""), ("> /dev/full", 2, "output cannot be written: no space left")):
        done = subprocess.run(["sh", "-c", f"{command} {stream}"], capture_output=True, text=True)
        assert (done.returncode, message in done.stderr) == (code, True)
        assert "Traceback" not in done.stderr
    read, write = os.pipe()
    os.close(read)  # as `| head -1` does when it has its line
    done = subprocess.run(["sh", "-c", f"exec {command}"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")
