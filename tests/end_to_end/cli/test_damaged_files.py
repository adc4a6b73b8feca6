"""Files that are read back are validated as a whole: a damaged one is refused in one line that names file and field."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import tgnn
from tgnn.training.checkpoint import read_tensors
from tgnn.training.loop import Epoch
from tgnn.utils.io import write_tensors

Change = Callable[[Any], Any]
BOMB = "a0: &a0 [1, 1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Return a folder with the finished run ``whole`` and the interrupted run ``half``."""
    place = tmp_path_factory.mktemp("runs")
    options = {"train.epochs": 5, "train.save_every": 0}

    def stop(epoch: Epoch) -> None:
        if epoch.number == 3:
            raise KeyboardInterrupt

    tgnn.train("karate", out=place / "whole", options=options)
    with pytest.raises(KeyboardInterrupt):
        tgnn.train("karate", out=place / "half", options=options, on_epoch=stop)
    return place


def change_file(path: Path, change: Change) -> None:
    """Change the content of a JSON or YAML file, or the tensors and metadata of a safetensors file with its digest."""
    if path.suffix == ".safetensors":
        stored = read_tensors(path)
        write_tensors(path, *change((stored.tensors, stored.metadata)))
        return
    parse, dump = (yaml.safe_load, yaml.safe_dump) if path.suffix == ".yaml" else (json.loads, json.dumps)
    content = change(parse(path.read_text()))
    path.write_text(content if isinstance(content, str) else dump(content))


def drop(*keys: str) -> Change:
    """Remove a nested key."""

    def change(content: Any) -> Any:
        inner = content
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]
        return content

    return change


def put(value: Any, *keys: str) -> Change:
    """Replace the value of a nested key."""

    def change(content: Any) -> Any:
        inner = content
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        return content

    return change


def weights(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda content: ({name: change(tensor) for name, tensor in content[0].items()}, content[1])


DAMAGES: list[tuple[str, Change, str]] = [
    ("config.yaml", lambda content: BOMB, "config.yaml: not valid YAML: more than 1,000,000 values (line "),
    ("config.yaml", lambda content: "[" * 2000, "config.yaml: not valid YAML: nested too deeply (line 1)"),
    ("config.yaml", put("8", "model", "hidden_channels"), "model.hidden_channels is '8', but it should be a valid int"),
    ("config.yaml", put(7, "train", "patience_"), "unknown option train.patience_; did you mean train.patience?"),
    ("config.yaml", put(0.3, "model", "dropout"), "belongs to another configuration than whole/config.yaml"),
    ("data.json", drop("task", "target"), "whole/data.json is damaged: task.target is missing"),
    ("data.json", put("x", "shape", "outputs"), "shape.outputs is 'x', but it should be a valid integer"),
    ("data.json", put([1.0, 2.0], "task", "log_prior_ratio"), "task.log_prior_ratio has 2 values, but the model has 4"),
    ("data.json", put("other", "split", "name"), "whole/data.json has changed since training"),
    ("data.json", put({"kind": "table", "nodes": 3}, "encoding"), "whole/data.json has changed since training"),
    ("data.json", put(3, "new"), "whole/data.json is damaged: new is an unknown key"),
    ("data.json", lambda content: "[" * 9999, "whole/data.json is damaged: not valid JSON: recursion limit"),
    ("metrics.json", drop("test"), "whole/metrics.json is damaged: test is missing"),
    ("metrics.json", drop("model_sha256"), "does not hold the weights of this run"),
    ("metrics.json", put("0" * 64, "model_sha256"), "does not hold the weights of this run"),
    ("model.safetensors", weights(lambda tensor: tensor * 0), "does not hold the weights of this run"),
    ("model.safetensors", weights(lambda tensor: tensor / 0), "does not hold the weights of this run"),
]


@pytest.mark.parametrize(("file", "change", "message"), DAMAGES, ids=range(len(DAMAGES)))
def test_predict_refuses_a_damaged_file(run, runs, tmp_path, file, change, message):
    shutil.copytree(runs / "whole", tmp_path / "whole")
    change_file(tmp_path / "whole" / file, change)
    code, out, err = run("predict whole --out p.csv")
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert not (tmp_path / "p.csv").exists()


def test_every_flipped_byte_of_the_weights_is_found(run, runs, tmp_path):
    shutil.copytree(runs / "whole", tmp_path / "whole")
    path = tmp_path / "whole" / "model.safetensors"
    whole = path.read_bytes()
    for position in range(8, len(whole), len(whole) // 40):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        code, _, err = run("predict whole --out p.csv")
        assert code == 2, f"byte {position}: {err}"
        assert "model.safetensors" in err


def tensors(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Change:
    return lambda content: (change(content[0]), content[1])


CHECKPOINTS: list[tuple[Change, str]] = [
    (tensors(lambda t: {k: v for k, v in t.items() if not k.startswith("optimizer")}), "optimizer state contradict"),
    (tensors(lambda t: {k: v for k, v in t.items() if not k.startswith("best")}), "belongs to another model: Missing"),
    (tensors(lambda t: {k: v for k, v in t.items() if "exp_avg_sq" not in k}), "parameter 0 is incomplete"),
    (weights(lambda tensor: tensor.double() / 0), "contains NaN or infinity"),
    (lambda content: (content[0], {}), "is not a checkpoint: its metadata has no epoch"),
    *(
        (lambda content, key=key, value=value: (content[0], content[1] | {key: value}), f"{key} is {value!r}")
        for key in ("epoch", "best_epoch", "best_score", "best_loss", "schedule", "scaler", "seconds")
        for value in ("x", -7, [])
        if not (key in ("best_score", "best_loss") and value == -7)
    ),
    (lambda content: (content[0], content[1] | {"epoch": 0}), "epoch, best_epoch and the optimizer state contradict"),
    (lambda content: (content[0], content[1] | {"schedule": {}}), "schedule"),
    (lambda content: (content[0], content[1] | {"new": 1}), "new is an unknown key"),
]


@pytest.mark.parametrize(("change", "message"), CHECKPOINTS, ids=range(len(CHECKPOINTS)))
def test_a_checkpoint_is_whole_or_it_is_refused(run, runs, tmp_path, change, message):
    shutil.copytree(runs / "half", tmp_path / "half")
    change_file(tmp_path / "half" / "checkpoint.safetensors", change)
    before = (tmp_path / "half" / "history.jsonl").read_bytes()
    code, out, err = run("train --resume half")
    assert (code, out) == (2, "")
    assert "half/checkpoint.safetensors" in err
    assert message in " ".join(err.split())
    assert (tmp_path / "half" / "history.jsonl").read_bytes() == before
