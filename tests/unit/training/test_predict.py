"""What is predicted is what was scored; data that does not fit is refused."""

from __future__ import annotations

from pathlib import Path

import polars
import polars.testing
import pytest
import torch
from torch_geometric.data import Data

from tgnn.data.convert import convert, write
from tgnn.data.graph_dataset import pack, write_packed
from tgnn.data.load import load
from tgnn.training.distributed.world import World
from tgnn.training.evaluate import evaluate
from tgnn.training.predict import IncompatibleDataError, predict
from tgnn.training.recipes import resolve
from tgnn.training.train import RunError, train


def test_predictions_are_those_that_were_scored(tmp_path, monkeypatch):
    """Digits are grids, whose first eigenvalue is not simple; a model must not look for eigenvectors again."""
    monkeypatch.setattr("tgnn.models.dgn.eigenvectors", None)
    changes = {"model.hidden_channels": 4, "model.num_layers": 1, "train.epochs": 1}
    config = resolve("digits-graphs", "dgn", "graph", changes=changes)
    train(config, tmp_path / "run")
    score = evaluate(tmp_path / "run", "cpu")
    data = load("digits-graphs", seed=0)
    test = data.split.test
    found = predict(tmp_path / "run", device="cpu")
    right = (found.values[test] == data.y[test]).float().mean()
    assert score["metric"] == "accuracy"
    assert abs(float(right) * (100 if score["test"] > 1 else 1) - score["test"]) < 1e-3
    assert score["test"] == score["recorded"]


def packed(path: Path, *parts: str) -> str:
    """Twelve paths of four nodes, with some parts beside features and edges."""
    graphs = []
    for number in range(12):
        graph = Data(torch.ones(4, 2), torch.tensor([[0, 1, 2], [1, 2, 3]]), y=torch.tensor([number % 2]))
        graph.pos, graph.edge_weight = torch.rand(4, 2), torch.rand(3)
        graphs.append(Data(**{key: graph[key] for key in ("x", "edge_index", "y", *parts)}))
    write_packed(pack(graphs, torch.arange(12) // 2 % 3), path)
    return str(path)


@pytest.mark.parametrize(
    ("name", "own", "lacking"),
    [
        ("tgnn", {}, "edge weights"),
        ("gin", {}, None),
        ("monet", {"model.pseudo": "position"}, "positions of 2 numbers"),
        ("monet", {}, None),
    ],
)
def test_what_the_model_reads_must_be_there(name, own, lacking, tmp_path):
    whole = packed(tmp_path / "whole.npz", "edge_weight", "pos")
    plain = packed(tmp_path / "plain.npz")
    changes = {"model.hidden_channels": 4, "model.num_layers": 1, "train.epochs": 1, **own}
    train(resolve(whole, name, "graph", changes=changes), tmp_path / "run")
    assert len(predict(tmp_path / "run", device="cpu").ids) == 12
    if lacking is None:
        assert len(predict(tmp_path / "run", plain, "cpu").ids) == 12
        return
    with pytest.raises(IncompatibleDataError, match=f"the model was trained with {lacking}, and .* has none such"):
        predict(tmp_path / "run", plain, "cpu")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_many_rows_are_written_in_pieces(tmp_path, suffix, monkeypatch):
    config = resolve("karate", "tgnn", "node", changes={"train.epochs": 2})
    train(config, tmp_path / "run")
    whole = predict(tmp_path / "run", device="cpu")
    monkeypatch.setattr("tgnn.training.predict.ROWS_AT_ONCE", 10)
    pieces = predict(tmp_path / "run", device="cpu")
    folder = tmp_path / "those [of today]"  # which is not to be a pattern
    folder.mkdir()
    pieces.write(folder / f"out{suffix}")
    text = (folder / f"out{suffix}").read_bytes()
    found = polars.read_csv(text, schema=whole.table().schema) if suffix == ".csv" else polars.read_parquet(text)
    polars.testing.assert_frame_equal(found, whole.table())
    assert [path.name for path in folder.iterdir()] == [f"out{suffix}"]


def test_a_run_of_another_is_not_given_out_after_a_restart(tmp_path):
    """Torchrun starts processes again with the same job, or for another time: the folder may be of other settings."""
    changes = {"train.epochs": 2, "train.patience": 2}
    config = resolve("karate", "tgnn", "node", changes=changes)
    first = train(config, tmp_path / "run", world=World(job="mine"))
    assert train(config, tmp_path / "run", world=World(job="mine")) == first
    other = resolve("karate", "gcn", "node", changes=changes)
    for world in (World(job="mine"), World(job="mine", restarts=1), World(restarts=1)):
        with pytest.raises(RunError, match="holds a run already"):
            train(other, tmp_path / "run", world=world)


def test_a_disk_that_is_full_at_the_beginning(tmp_path, monkeypatch):
    from tgnn.training import train as run

    def full(path, value, write=run.write_json):
        if path.name == run.DATA:
            raise OSError(28, "No space left on device", str(path))
        write(path, value)

    config = resolve("karate", "tgnn", "node", changes={"train.epochs": 2})
    with monkeypatch.context() as patch:
        patch.setattr(run, "write_json", full)
        with pytest.raises(OSError, match="No space left"):
            train(config, tmp_path / "run")
    assert train(config, tmp_path / "run")["epochs"] == 2


def tables(folder: Path, columns: tuple[str, ...] = ("age", "size"), schema: str = "", gap: str = "1") -> str:
    """Forty nodes on a ring, whose age tells the class."""
    folder.mkdir()
    rows = [{"age": str(20 + 3 * (i % 2) + i / 100), "size": str(1 + i / 50)} for i in range(39)]
    rows.append({"age": "22", "size": gap})
    lines = [f"{i},{','.join(row[name] for name in columns)},{'ab'[i % 2]}\n" for i, row in enumerate(rows)]
    (folder / "nodes.csv").write_text(f"id,{','.join(columns)},label\n" + "".join(lines))
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{i},{(i + 1) % 40}\n" for i in range(40)))
    if schema:
        (folder / "schema.yaml").write_text(schema)
    return str(folder)


def converted(source: str, suffix: str) -> str:
    convert(source, Path(source + suffix))
    return source + suffix


def learned(source: str, run: Path) -> Path:
    changes = {"model.hidden_channels": 4, "model.num_layers": 1, "train.epochs": 1, "train.workers": 0}
    train(resolve(source, "tgnn", "node", changes=changes), run)
    return run


@pytest.mark.parametrize("suffix", [".npz", ".graph"])
@pytest.mark.parametrize("trained_on", ["", ".npz", ".graph"])
def test_what_was_converted_must_be_encoded_as_the_run(tmp_path, suffix, trained_on):
    """Two columns that changed places have the same width, and mean other things."""
    one, other = tables(tmp_path / "one"), tables(tmp_path / "other", ("size", "age"))
    run = learned(converted(one, trained_on) if trained_on else one, tmp_path / "run")
    wanted = predict(run, one, "cpu").probabilities
    torch.testing.assert_close(predict(run, other, "cpu").probabilities, wanted)
    if trained_on != suffix:
        converted(one, suffix)
    torch.testing.assert_close(predict(run, one + suffix, "cpu").probabilities, wanted)
    with pytest.raises(IncompatibleDataError, match="in a different order .'size' instead of 'age'.; give the tables"):
        predict(run, converted(other, suffix), "cpu")


@pytest.mark.parametrize(
    ("schemas", "different"),
    [
        (("fill: 0", "fill: 1"), "'age' has missing values that were filled with 1 instead of 0"),
        (("fill: mean", "fill: mean"), "'size' has missing values that were filled with 1.38 instead of 1.3705"),
        (("", "fill: 1"), "'age' has missing values that were filled with 1, and no fill value is known from training"),
        (("fill: 1", ""), None),
        (("", "undirected: false"), "it was read with undirected: false instead of true"),
    ],
)
def test_fillings_and_directions_must_be_those_of_the_run(tmp_path, schemas, different):
    gap = "" if schemas[0] == "fill: mean" else "1"
    one, other = tables(tmp_path / "one", schema=schemas[0]), tables(tmp_path / "other", schema=schemas[1], gap=gap)
    run, asked = learned(one, tmp_path / "run"), converted(other, ".graph")
    if different is None:
        assert len(predict(run, asked, "cpu")) == 40
        return
    with pytest.raises(IncompatibleDataError, match=different):
        predict(run, asked, "cpu")


@pytest.mark.parametrize("suffix", [".npz", ".graph"])
@pytest.mark.parametrize("schema", ["standardize: large", "standardize: false"])
def test_what_was_converted_is_brought_to_the_scale_of_the_run(tmp_path, suffix, schema):
    one, other = tables(tmp_path / "one"), tables(tmp_path / "other")
    for folder, least in ((one, 20_000), (other, 50_000)):
        path = Path(folder, "nodes.csv")
        frame = polars.read_csv(path).with_columns(pay=least + 1000 * polars.col("id"))
        frame.select("id", "pay", "size", "label").write_csv(path)
    Path(other, "schema.yaml").write_text(schema)
    run = learned(one, tmp_path / "run")
    wanted = predict(run, other, "cpu").probabilities
    torch.testing.assert_close(predict(run, converted(other, suffix), "cpu").probabilities, wanted, rtol=0, atol=1e-5)


def test_without_an_encoding_nothing_is_refused(tmp_path):
    one = tables(tmp_path / "one")
    plain = load(one)
    del plain.encoding
    write(plain, tmp_path / "plain.npz")
    assert len(predict(learned(one, tmp_path / "run"), str(tmp_path / "plain.npz"), "cpu")) == 40
