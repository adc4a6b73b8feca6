"""The command ``tgnn data``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm


def test_list_and_info(succeed):
    out = succeed("data", "list")
    assert "cora" in out
    assert "\x1b" not in out
    assert {entry["name"] for entry in json.loads(succeed("data", "list", "--json"))} >= {"cora", "zinc"}
    assert json.loads(succeed("data", "info", "zinc", "--json"))["metric"] == "mae"
    assert "none (installed with the package)" in succeed("data", "info", "cora")


def test_fetch_prints_the_source(succeed):
    out = succeed("data", "fetch", "karate", "cora", "--offline")
    assert "34 nodes" in out
    assert out.count("installed with the package") == 2
    assert json.loads(succeed("data", "fetch", "karate", "--json"))["karate"]["outputs"] == 4


def test_splits(succeed):
    rows = json.loads(succeed("data", "splits", "digits", "--json"))
    assert [row["protocol"] for row in rows] == ["per-class-quota", "stratified", "fold"]
    assert "default" in succeed("data", "splits", "digits")


@pytest.mark.parametrize(
    ("source", "target", "size"), [("digits-graphs", "digits.npz", "1,797"), ("karate", "graph", "156 edges")]
)
def test_convert_and_load_again(run, succeed, source, target, size):
    """A graph on disk is a folder, and other data sets are one file."""
    out = succeed("data", "convert", source, target)
    assert "bytes" in out
    assert size in out
    assert run("data", "convert", source, target)[0] == 2
    succeed("data", "convert", source, target, "--force")
    assert json.loads(succeed("data", "splits", target, "--json")) == json.loads(
        succeed("data", "splits", source, "--json")
    )
    assert json.loads(succeed("data", "check", target, "--json"))["findings"] == []


def test_from_disk_and_back(succeed):
    succeed("data", "convert", "karate", "graph")
    assert "duplicate edges: 0" in succeed("data", "check", "graph")
    succeed("data", "convert", "graph", "again.npz")
    assert "34 nodes" in succeed("data", "convert", "again.npz", "third")


def test_a_damaged_graph_on_disk_fails_the_check(run, succeed, tmp_path):
    succeed("data", "convert", "karate", "graph")
    path = tmp_path / "graph/x.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    code, out, _ = run("data", "check", "graph", "--json")
    assert code == 1
    assert [finding["code"] for finding in json.loads(out)["findings"]] == ["damaged-file"]
    path.unlink()
    code, _, err = run("data", "splits", "graph")
    assert code == 2
    assert "x.npy is missing" in err


def test_tables_to_disk(run, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/nodes.csv").write_text("id,a,label\nx,1,red\ny,2,blue\nz,3,red\n")
    (tmp_path / "own/edges.csv").write_text("source,target,weight\nx,y,1\ny,z,1\nz,z,1\n")
    code, _, err = run("data", "convert", "own", "graph")
    assert code == 2
    assert "Drop them with --leave-out" in err
    code, out, err = run("data", "convert", "own", "graph", "--leave-out")
    assert code == 0
    assert "3 nodes, 4 edges, 1 features, 2 outputs" in out
    assert "self-loop dropped" in err


def test_generate(succeed):
    words = ["data", "generate", "g", "--nodes", "500", "--edges", "4000", "--features", "4"]
    out = succeed(*words, "--classes", "3")
    assert "500 nodes" in out
    assert "train=40, val=10, test=450" in out
    succeed("data", "check", "g")


def test_stopped_while_it_writes(tmp_path):
    """Ctrl-C ends with exit code 130 and leaves no files."""
    words = ["data", "generate", "big", "--nodes", "200000", "--edges", "20000000"]
    with warm.Process(warm.TGNN, *words, folder=tmp_path) as process:
        process.until(lambda: any(tmp_path.glob(".big.part/*.edges")))
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.read("err").splitlines()[-1] == "interrupted"
    assert not list(tmp_path.iterdir())


def test_the_installed_command_and_the_module_are_the_same():
    for command in ([Path(sys.executable).with_name("tgnn")], [sys.executable, "-m", "tgnn"]):
        found = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True, timeout=60)
        assert found.stdout.startswith("tgnn ")
