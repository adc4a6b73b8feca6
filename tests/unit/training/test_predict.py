"""Predictions equal the tested outputs, and incompatible data is refused."""

from __future__ import annotations

import importlib
import logging
import sys
from dataclasses import replace
from pathlib import Path

import polars
import polars.testing
import pytest
import torch
from torch_geometric.data import Data

import tgnn
from tgnn.data.convert import convert, write
from tgnn.data.graph_dataset import pack
from tgnn.data.load import load
from tgnn.data.readers.graph_npz import write_graphs
from tgnn.training.new_data import IncompatibleDataError
from tgnn.training.predict import evaluate, predict
from tgnn.training.recipes import resolve
from tgnn.training.train import train_run


def test_predictions_equal_the_tested_outputs(tmp_path, monkeypatch):
    """The first eigenvalue of the digit grids is not simple, so eigenvectors must not be computed twice."""
    monkeypatch.setattr("tgnn.models.dgn.eigenvectors", None)
    changes = {"model.hidden_channels": 4, "model.num_layers": 1, "train.epochs": 1}
    config = resolve("digits-graphs", "dgn", "graph", changes=changes)
    train_run(config, tmp_path / "run")
    score = evaluate(tmp_path / "run", device="cpu")
    data = load("digits-graphs", seed=0)
    test = data.split.test
    found = predict(tmp_path / "run", device="cpu")
    right = (found.values[test] == data.y[test]).float().mean()
    assert score["metric"] == "accuracy"
    assert abs(float(right) * (100 if score["test"] > 1 else 1) - score["test"]) < 1e-3
    assert score["test"] == score["recorded"]


def packed(path: Path, *parts: str) -> str:
    """Write twelve paths of four nodes with optional attributes."""
    graphs = []
    for number in range(12):
        graph = Data(torch.ones(4, 2), torch.tensor([[0, 1, 2], [1, 2, 3]]), y=torch.tensor([number % 2]))
        graph.pos, graph.edge_weight = torch.rand(4, 2), torch.rand(3)
        graphs.append(Data(**{key: graph[key] for key in ("x", "edge_index", "y", *parts)}))
    write_graphs(pack(graphs, torch.arange(12) // 2 % 3), path)
    return str(path)


@pytest.mark.parametrize("encoding", ["random-walk", "laplacian"])
def test_positional_encodings_of_new_data(encoding, tmp_path):
    source = packed(tmp_path / "mine.npz", "pos")
    changes = {"data.positional_encoding": encoding, "data.positional_channels": 3, "data.relative_positions": True}
    config = resolve(source, "tgnn", "graph", changes={**changes, "train.epochs": 1})
    run = tmp_path / "run"
    train_run(config, run)
    assert evaluate(run, device="cpu")["test"] == evaluate(run, source, device="cpu")["recorded"]
    assert len(predict(run, packed(tmp_path / "new.npz", "pos"), device="cpu")) == 12
    with pytest.raises(ValueError, match="needs graphs with node positions"):
        predict(run, packed(tmp_path / "other.npz"), device="cpu")


@pytest.mark.parametrize(
    ("name", "own", "lacking"),
    [
        ("tgnn", {}, "has no edge weights, but the model was trained with edge weights"),
        ("gin", {}, None),
        (
            "monet",
            {"model.pseudo": "position"},
            "has node positions with 0 coordinates, but the model was trained with 2",
        ),
        ("monet", {}, None),
    ],
)
def test_new_data_must_have_the_inputs_of_the_model(name, own, lacking, tmp_path):
    whole = packed(tmp_path / "whole.npz", "edge_weight", "pos")
    plain = packed(tmp_path / "plain.npz")
    changes = {"model.hidden_channels": 4, "model.num_layers": 1, "train.epochs": 1, **own}
    train_run(resolve(whole, name, "graph", changes=changes), tmp_path / "run")
    assert len(predict(tmp_path / "run", device="cpu").ids) == 12
    if lacking is None:
        assert len(predict(tmp_path / "run", plain, device="cpu").ids) == 12
        return
    with pytest.raises(IncompatibleDataError, match=lacking):
        predict(tmp_path / "run", plain, device="cpu")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predictions_are_written_in_chunks(tmp_path, suffix, monkeypatch):
    config = resolve("karate", "tgnn", "node", changes={"train.epochs": 2})
    train_run(config, tmp_path / "run")
    whole = predict(tmp_path / "run", device="cpu")
    monkeypatch.setattr("tgnn.training.predictions.ROWS_PER_CHUNK", 10)
    pieces = predict(tmp_path / "run", device="cpu")
    folder = tmp_path / "those [of today]"  # which is not to be a pattern
    folder.mkdir()
    pieces.write(folder / f"out{suffix}")
    text = (folder / f"out{suffix}").read_bytes()
    found = polars.read_csv(text, schema=whole.table().schema) if suffix == ".csv" else polars.read_parquet(text)
    polars.testing.assert_frame_equal(found, whole.table())
    assert [path.name for path in folder.iterdir()] == [f"out{suffix}"]


def tables(folder: Path, columns: tuple[str, ...] = ("age", "size"), schema: str = "", gap: str = "1") -> str:
    """Write forty nodes on a ring, whose age determines the class."""
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
    train_run(resolve(source, "tgnn", "node", changes=changes), run)
    return run


@pytest.mark.parametrize("suffix", [".npz", ".graph"])
@pytest.mark.parametrize("trained_on", ["", ".npz", ".graph"])
def test_converted_data_must_have_the_encoding_of_the_run(tmp_path, suffix, trained_on):
    """Swapped columns have the same width but another meaning."""
    one, other = tables(tmp_path / "one"), tables(tmp_path / "other", ("size", "age"))
    run = learned(converted(one, trained_on) if trained_on else one, tmp_path / "run")
    wanted = predict(run, one, device="cpu").probabilities
    torch.testing.assert_close(predict(run, other, device="cpu").probabilities, wanted)
    if trained_on != suffix:
        converted(one, suffix)
    torch.testing.assert_close(predict(run, one + suffix, device="cpu").probabilities, wanted)
    with pytest.raises(IncompatibleDataError, match="in a different order .'size' instead of 'age'.. Give the tables"):
        predict(run, converted(other, suffix), device="cpu")


@pytest.mark.parametrize(
    ("schemas", "different"),
    [
        (("fill: 0", "fill: 1"), "'size' has missing values that were filled with 1 instead of 0"),
        (("fill: mean", "fill: mean"), "'size' has missing values that were filled with 1.38 instead of 1.3705"),
        (("", "fill: 1"), "'size' has missing values that were filled with 1 instead of 1.3705"),
        (("fill: null", "fill: 1"), "'size' has missing values that were filled with 1, and no fill value is known"),
        (("fill: 1", "fill: null"), None),
        (("", "undirected: false"), "it was read with undirected: false instead of true"),
    ],
)
def test_fill_values_and_directions_must_equal_those_of_the_run(tmp_path, schemas, different):
    gap = "" if different and "filled" in different else "1"
    one, other = tables(tmp_path / "one", schema=schemas[0]), tables(tmp_path / "other", schema=schemas[1], gap=gap)
    run, asked = learned(one, tmp_path / "run"), converted(other, ".graph")
    if different is None:
        assert len(predict(run, asked, device="cpu")) == 40
        return
    with pytest.raises(IncompatibleDataError, match=different):
        predict(run, asked, device="cpu")


@pytest.mark.parametrize("suffix", [".npz", ".graph"])
@pytest.mark.parametrize("schema", ["standardize: large", "standardize: false"])
def test_converted_data_is_rescaled_to_the_run(tmp_path, suffix, schema):
    one, other = tables(tmp_path / "one"), tables(tmp_path / "other")
    for folder, least in ((one, 20_000), (other, 50_000)):
        path = Path(folder, "nodes.csv")
        frame = polars.read_csv(path).with_columns(pay=least + 1000 * polars.col("id"))
        frame.select("id", "pay", "size", "label").write_csv(path)
    Path(other, "schema.yaml").write_text(schema)
    run = learned(one, tmp_path / "run")
    wanted = predict(run, other, device="cpu").probabilities
    torch.testing.assert_close(
        predict(run, converted(other, suffix), device="cpu").probabilities, wanted, rtol=0, atol=1e-5
    )


def test_data_without_encoding_is_accepted(tmp_path):
    one = tables(tmp_path / "one")
    plain = load(one)
    del plain.encoding
    write(plain, tmp_path / "plain.npz")
    assert len(predict(learned(one, tmp_path / "run"), str(tmp_path / "plain.npz"), device="cpu")) == 40


@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_frames_and_graphs_in_memory_are_predicted_as_files_are(tmp_path, kind):
    one = tables(tmp_path / "one")
    run = tgnn.load_run(learned(one, tmp_path / "run"))
    wanted = run.predict(device="cpu")
    library = importlib.import_module(kind)
    frames = tuple(library.read_csv(f"{one}/{stem}.csv") for stem in ("nodes", "edges"))
    found = run.predict(frames, device="cpu")
    torch.testing.assert_close(found.probabilities, wanted.probabilities)
    assert found.ids == wanted.ids
    data = load(one)
    torch.testing.assert_close(run.predict(data, device="cpu").probabilities, wanted.probabilities)
    raw = torch.tensor(polars.read_csv(f"{one}/nodes.csv").select("age", "size").to_numpy(), dtype=torch.float32)
    graph = Data(raw, data.edge_index)
    torch.testing.assert_close(run.predict(graph, device="cpu").probabilities, wanted.probabilities)
    with pytest.raises(IncompatibleDataError, match="has 1 features, but the model is expecting 2"):
        run.predict(Data(raw[:, :1], data.edge_index), device="cpu")
    with pytest.raises(TypeError, match="new data must be a path, a data frame of molecules.* got list"):
        run.predict([1, 2])


def read_frames(folder: str) -> tuple[polars.DataFrame, polars.DataFrame]:
    return polars.read_csv(f"{folder}/nodes.csv"), polars.read_csv(f"{folder}/edges.csv")


def test_mistakes_in_frames_are_named_without_files(tmp_path):
    one = tables(tmp_path / "one")
    run = tgnn.load_run(learned(one, tmp_path / "run"))
    nodes, edges = read_frames(one)
    with pytest.raises(
        IncompatibleDataError, match=r"needs a pair \(nodes, edges\) of data frames, but a single data "
    ):
        run.predict(nodes)
    with pytest.raises(IncompatibleDataError, match="but the data frames nodes, edges, graphs were passed"):
        run.predict({"nodes": nodes, "edges": edges, "graphs": nodes})
    with pytest.raises(TypeError, match="`edges` must be a pandas or polars data frame, got list"):
        run.predict((nodes, [(0, 1)]))
    with pytest.raises(ValueError, match="The data frame `edges` is missing. The data frames are nodes"):
        run.predict({"nodes": nodes})
    with pytest.raises(ValueError, match="'links' is not the name of a table"):
        run.predict({"nodes": nodes, "links": edges})
    with pytest.raises(ValueError, match="^The data frames cannot be used:\n- nodes: column 'age' of the training "):
        run.predict((nodes.drop("age"), edges))
    with pytest.raises(ValueError, match=r"- edges, rows 20, .* not in nodes;"):
        run.predict((nodes.head(20), edges))


def test_several_runs_log_the_warnings_about_frames_once(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("tgnn"), "propagate", True)  # a command disables it
    one = tables(tmp_path / "one")
    group = tgnn.train(one, out=tmp_path / "runs", options={"train.epochs": 1}, runs=2, jobs=1)
    nodes, edges = read_frames(one)
    caplog.clear()
    for _ in range(2):
        group.predict((nodes.with_columns(weight=1), edges))
    text = "nodes: column 'weight' is not in the training data and ignored"
    assert [record.getMessage() for record in caplog.records] == [text] * 2


def test_several_runs_have_a_split_column_only_if_they_have_the_same_split(tmp_path):
    one = tables(tmp_path / "one")
    group = tgnn.train(one, out=tmp_path / "runs", options={"train.epochs": 1}, runs=2, jobs=1)
    assert "split" not in group.predict().table().columns
    nodes, edges = read_frames(one)
    nodes = nodes.with_columns(split=polars.Series(["train", "val", "test", "train"] * 10))
    group = tgnn.train((nodes, edges), out=tmp_path / "same", options={"train.epochs": 1}, runs=2, jobs=1)
    assert group.predict().table()["split"].to_list() == nodes["split"].to_list()


def test_predictions_are_shown_in_one_line_and_converted_to_pandas(tmp_path, monkeypatch):
    run = tgnn.load_run(learned(tables(tmp_path / "one"), tmp_path / "run"))
    predictions = run.predict()
    assert repr(predictions) == (
        "Predictions(classification, 40 rows, columns: id, split, label, prediction, probability a, probability b; "
        ".table() or .to_pandas() returns them)"
    )
    table = predictions.table()
    frame = predictions.to_pandas()
    assert list(frame.columns) == table.columns
    assert frame["prediction"].tolist() == table["prediction"].to_list()
    assert frame["probability a"].tolist() == table["probability a"].to_list()
    wide = replace(predictions, values=torch.zeros(40, 9), probabilities=None, labels=None, names=list("abcdefghi"))
    assert "regression, 40 rows, columns: id, split, " in repr(wide)
    assert "prediction d, ...; " in repr(wide)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="pandas is not installed. Run `pip install pandas`, or use table()"):
        predictions.to_pandas()
