"""The command ``tgnn data``."""

from __future__ import annotations

import json
import signal

import pytest

from tests import warm


def test_list_and_info(read, succeed):
    out = succeed("data list")
    assert "cora" in out
    assert "\x1b" not in out
    assert {entry["name"] for entry in read("data list")} >= {"cora", "zinc"}
    assert read("data info zinc")["metric"] == "mae"
    assert "none (installed with the package)" in succeed("data info cora")


def test_fetch_prints_the_source(read, run, succeed):
    out = succeed("data fetch karate cora --offline")
    assert "34 nodes" in out
    assert out.count("installed with the package") == 2
    assert read("data fetch karate")["karate"]["outputs"] == 4
    code, out, err = run("--quiet data fetch karate citeseer --offline")
    assert (code, "34 nodes" in out) == (1, True)  # the other data sets are fetched
    assert err.startswith("error:")
    assert "Alternatives:" in err


def test_splits(read, succeed, run, tmp_path):
    rows = read("data splits digits")
    assert [row["protocol"] for row in rows] == ["per-class-quota", "stratified", "fold"]
    assert "default" in succeed("data splits digits")
    (tmp_path / "nodes.csv").write_text("id,a,label\n0,1,x\n1,2,y\n2,3,x\n3,4,y\n")
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2\n2,3\n")
    assert "not possible: " in succeed("data splits .")
    (tmp_path / "nodes.csv").write_text("id,a\n0,1\n1,2\n2,3\n3,4\n")
    code, _, err = run("data splits .")
    assert (code, "has no labels and cannot be split" in err) == (2, True)


@pytest.mark.parametrize(
    ("source", "target", "size"), [("digits-graphs", "digits.npz", "1,797"), ("karate", "graph", "156 edges")]
)
def test_convert_and_load_again(read, run, succeed, source, target, size):
    """A graph on disk is a folder, and other data sets are one file."""
    out = succeed(f"data convert {source} {target}")
    assert "bytes" in out
    assert size in out
    assert run(f"data convert {source} {target}")[0] == 2
    succeed(f"data convert {source} {target} --force")
    assert read(f"data splits {target}") == read(f"data splits {source}")
    assert read(f"data check {target}")["findings"] == []


def test_a_graph_on_disk_and_back(run, succeed, tmp_path):
    succeed("data convert karate graph")
    assert "duplicate edges: 0" in succeed("data check graph")
    succeed("data convert graph again.npz")
    assert "34 nodes" in succeed("data convert again.npz third")
    path = tmp_path / "graph/x.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    code, out, _ = run("data check graph --json")
    assert code == 1
    assert [finding["code"] for finding in json.loads(out)["findings"]] == ["damaged-file"]
    path.unlink()
    code, _, err = run("data splits graph")
    assert (code, "x.npy is missing" in err) == (2, True)


def test_tables_to_disk(run, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/nodes.csv").write_text("id,a,label\nx,1,red\ny,2,blue\nz,3,red\n")
    (tmp_path / "own/edges.csv").write_text("source,target,weight\nx,y,1\ny,z,1\nz,z,1\n")
    code, _, err = run("data convert own graph")
    assert (code, "Drop them with --leave-out" in err) == (2, True)
    code, out, err = run("data convert own graph --leave-out")
    assert code == 0
    assert "3 nodes, 4 edges, 1 features, 2 outputs" in out
    assert "self-loop dropped" in err


GENERATE = "data generate g --nodes 500 --edges 4000 --features 4 --classes 3"


def test_generate(succeed):
    out = succeed(GENERATE)
    assert "500 nodes" in out
    assert "train=40, val=10, test=450" in out
    succeed("data check g")


def test_an_interrupt_leaves_no_files(tmp_path):
    """Ctrl-C ends with exit code 130. The progress bar of the command never returns, so that it cannot end before."""
    hang = "generate.bar = lambda *_: contextlib.nullcontext(lambda amount: time.sleep(3600))"
    script = f"import contextlib, time\nfrom tgnn.data.on_disk import generate\n{hang}\n{warm.TGNN}"
    with warm.Process(script, *GENERATE.split(), folder=tmp_path) as process:
        process.until(lambda: any(tmp_path.glob(".g.part/*")))
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.read("err").splitlines()[-1] == "interrupted"
    assert not list(tmp_path.iterdir())
