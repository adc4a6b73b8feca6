"""Superpixels of images and their edges, compared with the definition and with the published graphs."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tgnn.data.build import superpixels as superpixels_module
from tgnn.data.build.superpixels import (
    CIFAR10,
    MNIST,
    SlicOptions,
    build_cifar10,
    build_mnist,
    superpixel_edges,
    superpixels,
)
from tgnn.data.graph_dataset import GraphDataset

pytest.importorskip("skimage")
Image = pytest.importorskip("PIL.Image")


# ---- images -----------------------------------------------------------------------------------------------------


def write_idx(path: Path, values: np.ndarray) -> None:
    head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    path.write_bytes(head + values.astype(np.uint8).tobytes())


def write_mnist(folder: Path) -> np.ndarray:
    digits = np.random.default_rng(0).integers(0, 256, (7, 28, 28))
    for part, some in (("train", slice(0, 5)), ("t10k", slice(5, 7))):
        write_idx(folder / f"{part}-images-idx3-ubyte", digits[some])
        write_idx(folder / f"{part}-labels-idx1-ubyte", np.arange(7)[some])
    return digits


def write_cifar10(folder: Path) -> np.ndarray:
    photographs = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3)).astype(np.uint8)
    for number in range(6):
        name = "test_batch.png" if number == 5 else f"data_batch_{number + 1}.png"
        Image.fromarray(photographs[2 * number : 2 * number + 2].reshape(2, 1024, 3)).save(folder / name)
    (folder / "train_lables.json").write_text(json.dumps(list(range(10))))
    (folder / "test_lables.json").write_text(json.dumps([3, 4]))
    return photographs


@pytest.mark.parametrize(
    ("write", "build", "colors", "labels"),
    [(write_mnist, build_mnist, 1, [*range(7)]), (write_cifar10, build_cifar10, 3, [*range(10), 3, 4])],
)
def test_graphs_of_images(tmp_path, monkeypatch, write, build, colors, labels):
    monkeypatch.setattr(superpixels_module, "_NUM_VAL", 2)
    images = write(tmp_path)
    arrays = build(tmp_path)
    expected = superpixels(images.astype(np.uint8), MNIST if colors == 1 else CIFAR10)
    assert all(np.array_equal(arrays[name], values) for name, values in expected.items())
    graphs = GraphDataset(superpixel_edges(arrays))
    assert graphs.y.tolist() == labels
    assert graphs.split_codes.tolist() == [0] * (len(images) - 4) + [1, 1, 2, 2]
    assert graphs[0].x.size(1) == colors + 2
    assert graphs[0].num_edges == 8 * graphs[0].num_nodes


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train-images-idx3-ubyte", None, "has 5 training images, but at least 5,000 are needed"),
        ("t10k-labels-idx1-ubyte", b"\0\0\x08\x01\0\0\0\x03abc", "has 2 images but 3 labels"),
        ("t10k-labels-idx1-ubyte", b"\0\0\x08\x01\0\0\0\x05abc", r"has 3 bytes, but its header gives the shape \[5\]"),
        ("t10k-labels-idx1-ubyte", b"PNG", "t10k-labels-idx1-ubyte is not an IDX file of bytes"),
    ],
)
def test_wrong_images_are_named(tmp_path, name, content, message):
    write_mnist(tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        build_mnist(tmp_path)
    write_cifar10(tmp_path)
    Image.fromarray(np.zeros((2, 1000, 3), np.uint8)).save(tmp_path / "data_batch_1.png")
    with pytest.raises(ValueError, match="data_batch_1.png has 1000 pixels per row, which is not a square number"):
        build_cifar10(tmp_path)


# ---- superpixels ------------------------------------------------------------------------------------------------


def test_two_halves_are_two_colors():
    image = np.zeros((1, 8, 8), np.uint8)
    image[:, :, 4:] = 255
    arrays = superpixels(image, SlicOptions(4, 4, 0.01))
    graph = GraphDataset(arrays | {"y": np.zeros(1)})[0]
    assert sorted(set(graph.x.flatten().tolist())) == [0.0, 1.0]
    left = graph.x[:, 0] == 0
    torch.testing.assert_close(graph.pos[left, 1].mean(), torch.tensor(1.5 / 8), atol=0.01, rtol=0)  # row, column


@pytest.mark.parametrize(("recipe", "shape"), [(MNIST, (28, 28)), (CIFAR10, (32, 32, 3))])
def test_there_are_never_too_many(recipe, shape):
    noise = np.random.default_rng(0).integers(0, 256, (3, *shape)).astype(np.uint8)
    arrays = superpixels(noise, recipe)
    assert arrays["num_nodes"].max() <= recipe.max_segments
    assert arrays["x"].shape == (arrays["num_nodes"].sum(), 1 if len(shape) == 2 else 3)


@pytest.mark.slow
def test_two_processes_give_what_one_gives(monkeypatch):
    monkeypatch.setattr(superpixels_module, "_CHUNK", 5)
    digits = np.random.default_rng(0).integers(0, 256, (12, 12, 12)).astype(np.uint8)
    one, two = (superpixels(digits, SlicOptions(9, 9, 0.25), processes) for processes in (1, 2))
    for name, values in one.items():
        assert np.array_equal(values, two[name]), name


# ---- edges ------------------------------------------------------------------------------------------------------


def one_graph(color: Tensor, position: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The definition, in double precision: all similarities of a graph, and the k largest of each node."""
    similarity = torch.zeros(len(color), len(color), dtype=torch.float64)
    for feature in (position.double(), color.double()):
        distance = torch.cdist(feature, feature, compute_mode="donot_use_mm_for_euclid_dist")
        width = distance.topk(k + 1, largest=False).values.sum(1, keepdim=True) / k + 1e-8
        similarity -= (distance / width) ** 2
    similarity = similarity.exp()
    similarity = ((similarity + similarity.t()) / 2).fill_diagonal_(0)
    return similarity, similarity.topk(k, dim=1).values


def check_edges(before: GraphDataset, after: GraphDataset, number: int, k: int = 8) -> None:
    graph, made = before[number], after[number]
    n = graph.num_nodes
    assert torch.equal(made.x, torch.cat([graph.x, graph.pos], dim=1))
    assert torch.equal(made.edge_index[0], torch.arange(n).repeat_interleave(k))
    near, value = made.edge_index[1].view(n, k), made.edge_attr.view(n, k)
    similarity, largest = one_graph(graph.x, graph.pos, k)
    torch.testing.assert_close(value.double(), largest, atol=1e-5, rtol=0)
    torch.testing.assert_close(similarity.gather(1, near), largest, atol=1e-5, rtol=0)  # ties may be broken differently
    assert all(len(set(row)) == k for row in near.tolist())
    assert not made.has_self_loops()


def random_superpixels(sizes: list[int], colors: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    nodes = sum(sizes)
    return {
        "num_nodes": np.array(sizes),
        "x": rng.integers(0, 4, (nodes, colors)).astype(np.uint8),
        "x_scale": np.array(1 / 255, np.float32),
        "pos": rng.integers(0, 30, (nodes, 2)).astype(np.uint8),
        "pos_scale": np.array(1 / 252, np.float32),
        "y": np.arange(len(sizes)),
        "split": np.zeros(len(sizes), np.int8),
    }


@pytest.mark.parametrize("colors", [1, 3])
def test_edges_are_those_of_the_definition(colors):
    arrays = random_superpixels([20, 9, 31, 20, 12], colors)
    before, after = GraphDataset(arrays), GraphDataset(superpixel_edges(arrays))
    for number in range(5):
        check_edges(before, after, number)
    assert after[3].y.tolist() == [3]
    assert after.stored_split().size == 5


def test_of_equals_the_first_is_chosen():
    arrays = {"num_nodes": np.array([5]), "x": np.zeros((5, 1)), "pos": np.zeros((5, 2)), "y": np.zeros(1)}
    graph = GraphDataset(superpixel_edges(arrays, k=2))[0]
    assert graph.edge_index[1].tolist() == [1, 2, 0, 2, 0, 1, 0, 1, 0, 1]
    assert graph.edge_attr.flatten().tolist() == [1.0] * 10


def test_small_graphs_have_all_their_edges():
    arrays = random_superpixels([0, 1, 2, 4], 1)
    graphs = GraphDataset(superpixel_edges(arrays))
    assert [graph.num_edges for graph in graphs] == [0, 0, 2, 12]
    assert graphs[2].edge_index.tolist() == [[0, 1], [1, 0]]
