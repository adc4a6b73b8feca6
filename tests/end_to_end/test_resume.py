"""Killed and resumed runs end with the same bits as uninterrupted ones."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests import warm
from tgnn.training.checkpoint import read_tensors
from tgnn.training.recipes import resolve
from tgnn.training.repeated_runs import train_repeated
from tgnn.training.run_folder import RunFolder

WAYS = {  # the learning rate is so large that the schedule halves it
    "whole graph": ["digits", "--set", "optimizer.schedule=plateau", "--lr", "0.1"],
    "sampled": ["digits", "--sample", "4,4", "--batch-size", "256"],
    "graphs": ["digits-graphs", "--batch-size", "256", "--set", "optimizer.schedule=cosine", "--hidden", "16"],
}
EPOCHS = {"whole graph": 60, "sampled": 15, "graphs": 6}


def start(*arguments: str) -> warm.Process:
    return warm.Process(warm.TGNN, "train", *arguments, environment=os.environ | {"OMP_NUM_THREADS": "1"})


def weights(folder: Path) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in read_tensors(folder / "model.safetensors")[0].items()}


def wait_for_epoch(folder: Path, epoch: int, process: warm.Process) -> None:
    process.until(lambda: len(RunFolder(folder).history()) > epoch)


@pytest.mark.parametrize("way", WAYS)
def test_killed_and_resumed(tmp_path, way):
    fixed = ["--epochs", str(EPOCHS[way]), "--patience", "1000", "--set", "train.save_every=0"]
    chance = random.Random(way)
    broken = tmp_path / "broken"
    arguments = [*WAYS[way], *fixed, "--out", str(broken)]
    with start(*WAYS[way], *fixed, "--out", str(tmp_path / "whole")) as whole:
        for share in (0.2, 0.6):
            with start(*arguments) as process:  # killed at the end of the block
                wait_for_epoch(broken, int(share * EPOCHS[way]), process)
                time.sleep(chance.random() * 0.05)
            assert not (broken / "metrics.json").exists()
            arguments = ["--resume", str(broken)]
        with start(*arguments) as process:
            assert process.wait() == 0, process.read("err")
        assert whole.wait() == 0, whole.read("err")
    assert weights(broken) == weights(tmp_path / "whole")
    lines = [[line["epoch"] for line in RunFolder(folder).history()] for folder in (broken, tmp_path / "whole")]
    assert lines[0] == lines[1] == list(range(EPOCHS[way]))
    one, other = (json.loads((folder / "metrics.json").read_text()) for folder in (broken, tmp_path / "whole"))
    assert one["test"] == other["test"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_a_checkpoint_and_prints_how_to_continue(tmp_path, number):
    with start("digits", "--epochs", "100000", "--patience", "100000", "--out", str(tmp_path / "run")) as process:
        wait_for_epoch(tmp_path / "run", 3, process)
        process.send_signal(number)
        assert process.wait() == 130
        output = process.read("err")
    assert f"continue with: tgnn train --resume {tmp_path / 'run'}" in output
    assert "Traceback" not in output
    done = read_tensors(tmp_path / "run" / "checkpoint.safetensors")[1]["epoch"]
    assert done == len(RunFolder(tmp_path / "run").history())


def test_runs_in_worker_processes_give_the_same_result(tmp_path):
    config = resolve("karate", "tgnn", "node", changes={"train.epochs": 5, "train.threads": 1})
    one = train_repeated(config, 3, tmp_path / "one", jobs=1)
    two = train_repeated(config, 3, tmp_path / "two", jobs=2)
    assert [row["test"] for row in one["each"]] == [row["test"] for row in two["each"]]
    assert one["mean"] == two["mean"]
