"""``tgnn train`` on an error-correcting code, and the other commands on its run."""

from __future__ import annotations

import json

import pytest

import tgnn
from tgnn.training import decoder_runs

HAMMING = "7 3\n3 4\n1 1 2 1 3 2 2\n4 4 4\n1\n2\n1 2\n3\n1 2 3\n1 3\n2 3\n1 3 5 6\n2 3 5 7\n4 5 6 7\n"


@pytest.fixture
def hamming(tmp_path, monkeypatch):
    monkeypatch.setattr(decoder_runs, "_TEST_FRAMES", {"min_frames": 300, "max_frames": 300})
    monkeypatch.setattr(decoder_runs, "STEPS_PER_EPOCH", 20)
    path = tmp_path / "hamming.alist"
    path.write_text(HAMMING)
    return path


def test_train_and_evaluate_a_decoder(hamming, run, succeed, tmp_path):
    folder = tmp_path / "run"
    options = ("--hidden", "8", "--layers", "3", "--epochs", "4", "--set", "model.ebn0_db=[0, 4]")
    code, text, _ = run("train", "--data", str(hamming), *options, "--out", str(folder))
    assert code == 0, text
    assert "belief propagation, 20 iterations" in text
    assert "3 dB" in text
    loaded = tgnn.load_run(folder)
    assert len(loaded.history()) == 4
    assert loaded.metrics["metric"] == "bit error rate"
    assert 0 < loaded.metrics["test"] < 0.3
    again = json.loads(succeed("evaluate", str(folder), "--json"))
    assert again["test"] == again["recorded"] == loaded.metrics["test"]
    assert "bit error rate" in succeed("evaluate", str(folder))
    assert loaded.load_model().num_rounds == 3
    succeed("report", str(folder), "--out", str(tmp_path / "report.html"))

    code, _, message = run("predict", str(folder), "--out", str(tmp_path / "p.csv"))
    assert code != 0
    assert "holds a decoder" in message
    code, _, message = run("train", "--resume", str(folder))
    assert code != 0
    assert "which cannot be resumed" in message
    code, _, message = run("train", "--data", str(hamming), "--out", str(folder))
    assert code != 0
    assert "already holds a run" in message


def test_evaluate_an_interrupted_decoder(hamming, run, tmp_path, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(decoder_runs, "train_decoder", interrupt)
    code, _, message = run("train", "--data", str(hamming), "--out", str(tmp_path / "run"))
    assert (code, "cannot be resumed" in message) == (130, True)
    code, _, message = run("evaluate", str(tmp_path / "run"))
    assert code != 0
    assert "whose training was interrupted. Remove the folder" in message


def test_options_of_a_decoder(hamming, run, succeed):
    config = json.loads(succeed("train", "--data", str(hamming), "--dry-run", "--json", "--lr", "0.01"))
    assert (config["model"]["aggr"], config["optimizer"]["lr"], config["train"]["epochs"]) == ("cp", 0.01, 10)
    for arguments, expected in (
        (("--dropout", "0.5"), "model.dropout cannot be set for a decoder"),
        (("--set", "model.ebn0_db=[4, 1]"), "the first value must be smaller"),
        (("--set", "model.ebn0_db=high"), "must be two numbers"),
        (("--set", "model.aggr=product"), "model.aggr is 'product', but must be one of cp, sum, mean"),
        (("--model", "gcn"), "is trained as one decoder"),
    ):
        code, _, message = run("train", "--data", str(hamming), *arguments)
        assert code != 0
        assert expected in " ".join(message.split()), message


def test_decoder_in_python(hamming, tmp_path):
    options = {"train.epochs": 1, "model.hidden_channels": 4, "train.threads": 1}
    found = tgnn.train(hamming, out=tmp_path / "run", options=options)
    assert found.metrics["parameters"] > 0
    with pytest.raises(ValueError, match="has no model or recipe"):
        tgnn.train(hamming, model="gcn")
    other = tmp_path / "other.alist"
    other.write_text("3 2\n2 2\n1 2 1\n2 2\n1 0\n1 2\n2 0\n1 2\n2 3\n")
    with pytest.raises(ValueError, match="was trained on another code than other"):
        found.evaluate(other)


def test_codes_are_listed(succeed):
    text = succeed("data", "list")
    assert "bch-63-45" in text
    assert "CCSDS_N128_K64.alist" in " ".join(text.split())
    found = {one["name"]: one for one in json.loads(succeed("data", "list", "--json"))}
    assert found["bch-63-45"]["n"] == 63
