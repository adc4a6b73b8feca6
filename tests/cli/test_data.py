"""``tgnn data``, as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def test_list_and_info(run):
    code, out, _ = run("data", "list")
    assert code == 0
    assert "cora" in out
    assert "\x1b" not in out
    code, out, _ = run("data", "info", "zinc", "--json")
    assert json.loads(out)["metric"] == "mae"


def test_fetch_tells_the_source(run):
    code, out, _ = run("data", "fetch", "karate", "digits")
    assert code == 0
    assert "34 nodes" in out
    assert "installed with the package" in out
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


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["data", "fetch", "kora"], 2, "did you mean cora"),
        (["data", "info", "kora"], 2, "did you mean cora"),
        (["data", "fetch", "cora", "--offline"], 1, "Three ways out"),
        (["data", "fetch"], 2, "Missing argument"),
        (["data", "fetsh", "cora"], 2, "No such command"),
        (["data", "convert", "karate", "karate.csv"], 2, "must end in .npz"),
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
