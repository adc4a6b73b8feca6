"""Errors of every command: a short message that says what to do, exit code 2, and no changed files."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests import warm
from tests.end_to_end.cli.conftest import write_friends
from tgnn.models import search_space
from tgnn.training.run_folder import RunFolder

EMPTY_SPACE = [f"--search={key}=" for key in (*search_space("mlp", "node"), "data.features", "train.select_by")]
MISTAKES = {
    "train kora": "did you mean cora",
    "train karate --set model.rnak=1": "did you mean model.rank",
    "train --data typo": "'heigth'",
    "train": "Give a data set by name",
    "predict damaged": "is damaged, or not a file of tgnn",
    "train karate --out whole": "already holds a run",
    "train karate --runs 2 --processes 2 --out new": "Several processes train one run",
    "train karate --model tgn": "did you mean tgnn",
    "train karate --model foo": "unknown model 'foo'; choose one of tgnn, mlp",
    "train friends": "nor a data set of the catalog; tgnn data list shows all names",
    "train karate --lr abc": "Invalid value for '--lr': the value is 'abc', but it should be a valid number.",
    "train karate --set optimizer.lrr=1": "did you mean optimizer.lr",
    "train karate --rank -1": "the value is '-1', but it should be greater than or equal to 0.",
    "train karate --set model.rank=2.5": "model.rank is 2.5",
    "train karate --set optimizer.lr=[1": "is not a valid value",
    "train --resume whole --rank 9": "with its own configuration",
    "train --resume whole --dry-run": "with its own configuration",
    "train --resume whole --runs 7": "with its own configuration",
    "train karate --device cuda:7": "train.device is 'cuda:7'",
    "train --data unlabeled": "label",
    "train karate --split public": "per-class-quota",
    "evaluate nowhere": "The run nowhere does not exist",
    "predict hole": "The run hole does not exist. Did you mean whole?",
    "predict typo": "typo is not a run folder: it has no config.yaml.",
    "predict .": "no config.yaml. Use a run folder below it: damaged, half, no_facts.",
    "predict other": "belongs to another configuration",
    "predict half": "half/model.safetensors is missing: part of the folder was deleted",
    "train --resume half": "tgnn train --recipe half/config.yaml --out half-again",
    "evaluate no_facts": "no_facts/data.json is missing",
    "train karate --recipe none.yaml": "none.yaml does not exist",
    "train karate --data typo": "Give NAME or --data, not both",
    "train karate --set data.name=cora": "Give NAME or --set data.name=..., not both",
    "train karate --dry-run --set model.mix=foo": "mix",
    "train karate --batch-size 9 --out new": "needs train.num_neighbors",
    "train karate --sample 5,x": "is '5,x', but it should be integers",
    "train karate --sample 5": "each of the 2 hops that tgnn aggregates, e.g. --sample 10,5",
    "train karate --out typo/nodes.csv": "typo/nodes.csv is a file",
    "train karate --out typo/nodes.csv/run": "typo/nodes.csv is a file",
    "train karate --quiet": "--quiet goes before the command: tgnn --quiet train",
    "predict of_molecules --data typo": "was trained on molecules, but typo is a folder",
    "predict of_tables --data molecules.csv": "a folder of tables of one graph, but molecules.csv is molecules",
    "evaluate of_molecules": "of_molecules was trained on elsewhere.csv, which does not exist",
    "train karate --set lr": "is not KEY=VALUE",
    "predict whole --out p.txt": "must end in .csv or .parquet",
    "predict whole --out nowhere/p.csv": "The folder nowhere does not exist",
    "predict whole --out typo/nodes.csv": "Use --force to overwrite it",
    "predict whole --force --out f.csv": "f.csv cannot be written: is a dir",
    "train --data unreadable.csv": "line 3: RDKit cannot parse the molecule 'C(('",
    "tune kora": "did you mean cora",
    "tune karate --model tgn": "did you mean tgnn",
    "tune karate --search optimizer.lrr=1,2": "did you mean optimizer.lr",
    "tune karate --search model.rnak=1,2": "did you mean model.rank",
    "tune karate --search optimiser.lr=1,2": "unknown option 'optimiser.lr'",
    "tune karate --search optimizer.lr=0.1,-1": "optimizer.lr is -1",
    "tune karate --search model.factors=plain,fancy": "fancy",
    "tune karate --search optimizer.lr=[1": "is not a list of values",
    "tune karate --search optimizer.lr": "is not KEY=A,B,C",
    "tune karate --search optimizer.lr=0.1 --set optimizer.lr=0.2": "optimizer.lr is in --search and in --set",
    "tune karate --search model.dropout=0.1 --search model.dropout=0.2": "model.dropout is given twice",
    "tune karate --search model.hidden_chanels=": "did you mean model.hidden_channels?",
    "tune karate --search train.foo=": "unknown option 'train.foo'; options are written as section.key, e.g. ",
    "tune karate --search optimizer.name=adamw": "give the values to try",
    "tune karate --search data.split=stratified": "data.split cannot be searched",
    "tune karate --set train.seed=3": "use --seed",
    "tune karate --data .": "Give NAME or --data, not both",
    "tune": "Give a data set by name",
    "tune karate --storage postgres://me:secret@host/x": "use sqlite:///FILE or postgresql://",
    "tune karate --storage postgresql://me:secret@127.0.0.1:9/x": "cannot be opened",
    "tune karate --set train.num_neighbors=[5,5] --search model.num_layers=2,3": "num_layers cannot be searched with",
    "tune karate --search train.num_neighbors=[5,5],[3,3] --search model.num_layers=2,3": "cannot be searched with",
    "tune karate --set train.device=cuda:7": "train.device is 'cuda:7'",
    "tune karate --set train.batch_size=3": "needs train.num_neighbors",
    "tune karate --out file": "file",
    "reproduce table-1-citation --datasets karate --models tgnn --set model.ranks=4": "did you mean model.rank?",
    "reproduce table-1-citation --datasets karate --models tgnn --set train.epoch=3": "epochs",
    "reproduce table-1-citation --datasets karate --models gcn --out file": "is a file. Choose a folder",
    "reproduce table-1-citation --datasets karate --models gcn --out file/deeper": "is a file. Choose a folder",
    "reproduce tabel-tu": "did you mean table-tu",
    "reproduce table-tu --models gni": "table-tu has no row 'gni'; it has gin, gmt, soppool, tgnn",
    "reproduce table-tu --datasets mutga": "did you mean mutag",
    "reproduce table-tu --dry-run --set model.hidden_channels": "is not KEY=VALUE",
    "reproduce figure-interactions --models gcn": "figure-interactions has no row 'gcn'; it has cp",
    "reproduce table-tu --models=": "its rows are gin, gmt, soppool, tgnn, and its columns are mutag, proteins",
    "reproduce figure-rank --largest 4 --dry-run": "its rows are tgnn 8, tgnn 16",
    "reproduce figure-interactions --datasets=": "its columns are 1, 2, 3",
    "models gatt": "unknown model 'gatt'; did you mean gat?",
    "data fetch kora": "did you mean cora",
    "data info kora": "did you mean cora",
    "data fetch": "Missing argument",
    "data fetsh cora": "No such command",
    "data convert karate karate.csv": "must be a .npz file or a folder",
    "data convert karate no-such-folder/karate": "the folder no-such-folder does not exist",
    "data convert digits-graphs digits": "has many graphs",
    "data generate graph.npz": "must be a folder",
    "data generate graph --nodes 100": "47 classes need at least 376 nodes",
    "data check no-such-folder": "no-such-folder",
    "data splits karate --seed x": "the value is 'x', but it should be a valid integer.",
    "data splits karate --target age": "--target, --id and --task are for your own data",
    "data convert typo out.npz --task guess": "data.task is 'guess', but it should be 'classification'",
    "report empty": "no runs or results were found in empty",
    "report empty --serve": "no runs or results were found in empty",
    "report nowhere": "nowhere does not exist",
    "report whole -o empty": "empty is a folder; give the name of a file",
    "report whole -o whole/config.yaml/page": "whole/config.yaml",
    "report whole --serve --json": "--serve writes no file",
}
MISTAKES[f"tune karate --model mlp {' '.join(EMPTY_SPACE)}"] = "the search space is empty"


@pytest.fixture(scope="module")
def workplace(tmp_path_factory) -> Path:
    """Valid and damaged data and runs."""
    place = tmp_path_factory.mktemp("work")
    write_friends(place / "typo")
    (place / "typo/schema.yaml").write_text("nodes:\n  features:\n    heigth: numeric\n")
    write_friends(place / "unlabeled", labels=False)
    warm.run(warm.TGNN, "train", "karate", "--epochs", "2", "--out", "whole", folder=place).check_returncode()
    for name in ("half", "other", "damaged", "no_facts", "of_molecules", "of_tables"):
        shutil.copytree(place / "whole", place / name)
    (place / "half/model.safetensors").unlink()
    (place / "no_facts/data.json").unlink()
    for name in ("f.csv", "empty"):
        (place / name).mkdir()
    (place / "file").touch()
    (place / "molecules.csv").write_text("smiles\nCO\n")
    (place / "unreadable.csv").write_text("smiles,label\nCO,1\nC((,0\n")
    for name, kind in (("of_molecules", "smiles"), ("of_tables", "table")):
        run = RunFolder(place / name)
        model, metrics = run.load_model(), run.metrics
        facts = json.loads((place / name / "data.json").read_text())
        (place / name / "data.json").write_text(json.dumps(facts | {"encoding": {"kind": kind}}))
        settings = yaml.safe_load((place / name / "config.yaml").read_text())
        settings["data"]["name"] = "elsewhere.csv"
        run.config_path.write_text(yaml.safe_dump(settings))
        run.write_metrics(metrics | {"model_sha256": run.write_model(model, run.config.hash)})
    config = yaml.safe_load((place / "other/config.yaml").read_text())
    config["model"]["rank"] = 3
    (place / "other/config.yaml").write_text(yaml.safe_dump(config))
    (place / "damaged/model.safetensors").write_bytes(b"nothing")
    return place


@pytest.mark.parametrize("command", MISTAKES)
def test_an_error_is_a_short_message_that_says_what_to_do(run, workplace, monkeypatch, command):
    monkeypatch.chdir(workplace)
    before = sorted(str(path) for path in workplace.rglob("*"))
    code, out, err = run(command)
    assert (code, out and sorted(json.loads(out))) == (2, ["error"] if "--json" in command else ""), err
    assert MISTAKES[command] in " ".join(re.sub("[│╭╮╰╯─]", " ", err).split())
    assert not re.search(r"Traceback|Errno|secret|\.part", err)
    assert len(err.splitlines()) <= 12
    assert sorted(str(path) for path in workplace.rglob("*")) == before  # no file was created or deleted
