"""``tgnn data``, as a user types it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from tests import warm


def test_list_and_info(run):
    code, out, _ = run("data", "list")
    assert code == 0
    assert "cora" in out
    assert "\x1b" not in out
    code, out, _ = run("data", "info", "zinc", "--json")
    assert json.loads(out)["metric"] == "mae"
    assert "none (installed with the package)" in run("data", "info", "cora")[1]


def test_fetch_tells_the_source(run):
    code, out, _ = run("data", "fetch", "karate", "cora", "--offline")
    assert code == 0
    assert "34 nodes" in out
    assert out.count("installed with the package") == 2
    _, out, _ = run("data", "fetch", "karate", "--json")
    assert json.loads(out)["karate"]["outputs"] == 4


def test_splits(run):
    code, out, _ = run("data", "splits", "digits", "--json")
    assert code == 0
    assert [row["protocol"] for row in json.loads(out)] == ["per-class-quota", "stratified", "fold"]
    assert "default" in run("data", "splits", "digits")[1]


def test_convert_and_load_again(run, tmp_path):
    target = tmp_path / "digits.npz"
    code, out, _ = run("data", "convert", "digits-graphs", str(target))
    assert code == 0
    assert "bytes" in out
    assert run("data", "convert", "digits-graphs", str(target))[0] == 2
    assert run("data", "convert", "digits-graphs", str(target), "--force")[0] == 0
    assert run("data", "splits", str(target))[0] == 0
    code, out, _ = run("data", "check", str(target))
    assert code == 0
    assert "1,797" in out


def test_to_disk_and_back(run, tmp_path):
    graph, again = tmp_path / "graph", tmp_path / "again.npz"
    code, out, _ = run("data", "convert", "karate", str(graph))
    assert code == 0
    assert "bytes" in out
    assert "156 edges" in out
    assert run("data", "convert", "karate", str(graph))[0] == 2
    assert run("data", "convert", "karate", str(graph), "--force")[0] == 0
    code, out, _ = run("data", "check", str(graph))
    assert code == 0
    assert "duplicate edges: 0" in out
    code, out, _ = run("data", "splits", str(graph), "--json")
    assert json.loads(out) == json.loads(run("data", "splits", "karate", "--json")[1])
    assert run("data", "convert", str(graph), str(again))[0] == 0
    assert "34 nodes" in " ".join(run("data", "convert", str(again), str(tmp_path / "third"))[1].split())


def test_a_damaged_graph_on_disk_fails_the_check(run, tmp_path):
    assert run("data", "convert", "karate", str(tmp_path / "graph"))[0] == 0
    path = tmp_path / "graph" / "x.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    code, out, _ = run("data", "check", str(tmp_path / "graph"), "--json")
    assert code == 1
    assert [finding["code"] for finding in json.loads(out)["findings"]] == ["damaged-file"]
    path.unlink()
    code, _, err = run("data", "splits", str(tmp_path / "graph"))
    assert code == 2
    assert "x.npy is missing" in err


def test_tables_to_disk(run, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "nodes.csv").write_text("id,a,label\nx,1,red\ny,2,blue\nz,3,red\n")
    (tmp_path / "own" / "edges.csv").write_text("source,target,weight\nx,y,1\ny,z,1\nz,z,1\n")
    words = ["data", "convert", str(tmp_path / "own"), str(tmp_path / "graph")]
    code, _, err = run(*words)
    assert code == 2
    assert "Drop them with --leave-out" in err
    code, out, err = run(*words, "--leave-out")
    assert code == 0
    assert "3 nodes, 4 edges, 1 features, 2 outputs" in out
    assert "self-loop dropped" in err


def test_generate(run, tmp_path):
    words = ["data", "generate", str(tmp_path / "g"), "--nodes", "500", "--edges", "4000", "--features", "4"]
    code, out, _ = run(*words, "--classes", "3")
    assert code == 0
    assert "500 nodes" in out
    assert "train=40, val=10, test=450" in out
    assert run("data", "check", str(tmp_path / "g"))[0] == 0


def test_stopped_while_it_writes(tmp_path):
    """Ctrl-C: exit code 130, and nothing is left, neither a graph nor a part of one."""
    words = ["data", "generate", "big", "--nodes", "200000", "--edges", "20000000"]
    with warm.Process(warm.TGNN, *words, folder=tmp_path) as process:
        process.until(lambda: any(tmp_path.glob(".big.part/*.edges")))
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.read("err").splitlines()[-1] == "interrupted"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["data", "fetch", "kora"], 2, "did you mean cora"),
        (["data", "info", "kora"], 2, "did you mean cora"),
        (["data", "fetch", "citeseer", "--offline"], 1, "Alternatives:"),
        (["data", "fetch"], 2, "Missing argument"),
        (["data", "fetsh", "cora"], 2, "No such command"),
        (["data", "convert", "karate", "karate.csv"], 2, "must be a .npz file or a folder"),
        (["data", "convert", "karate", "no-such-folder/karate"], 2, "the folder no-such-folder does not exist"),
        (["data", "convert", "digits-graphs", "digits"], 2, "has many graphs"),
        (["data", "generate", "graph.npz"], 2, "must be a folder"),
        (["data", "generate", "graph", "--nodes", "100"], 2, "47 classes need at least 376 nodes"),
        (["data", "check", "no-such-folder"], 2, "no-such-folder"),
        (["data", "splits", "karate", "--seed", "x"], 2, "seed"),
    ],
)
def test_mistakes_are_a_line_and_an_exit_code(run, words, code, message):
    found, _, err = run(*words)
    assert found == code
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_the_installed_command_and_the_module_are_the_same():
    for command in (["tgnn"], [sys.executable, "-m", "tgnn"]):
        name = str(sys.executable).replace("python", "tgnn") if command == ["tgnn"] else command[0]
        words = [name, *command[1:], "--version"]
        found = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        assert found.stdout.startswith("tgnn ")
