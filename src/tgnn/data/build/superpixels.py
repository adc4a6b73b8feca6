r"""MNIST and CIFAR-10 as superpixel graphs: a reader of the official files, and a builder from the images.

The builder segments images with SLIC (Achanta et al. 2012), as Knyazev et al. (2019) and Dwivedi et al. (2020). A
superpixel is a node with its mean color ``x`` and its center ``pos`` (row and column, relative to the size of the
image), both rounded to a byte. Edges are not stored, because they can be computed from these.

There are edges from every node to the most similar nodes. With :math:`d^p_{ij}` and :math:`d^c_{ij}` the distances of
two nodes in position and in color, and :math:`\sigma_i` the mean of the k smallest distances of node i (of each of the
two), the similarity is

.. math:: w_{ij} = (a_{ij} + a_{ji}) / 2, \qquad
    a_{ij} = \exp(-(d^p_{ij} / \sigma^p_i)^2 - (d^c_{ij} / \sigma^c_i)^2)
"""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tgnn.data.build import import_optional
from tgnn.data.graph_dataset import GraphDataset, pack
from tgnn.utils.progress import bar
from tgnn.utils.read import read_content, validate

_PAIRS = 1 << 20  # pairs of nodes that are compared at a time; a few MB stay in the CPU cache
_CHUNK = 250  # images per task of a process
_PROCESSES = 8  # maximum number of processes; each takes about 400 MB
_NUM_VAL = 5000  # the last training images are the validation set


def read_benchmarking_gnns(path: Path | str) -> GraphDataset:
    """Read the published graphs and split of "Benchmarking GNNs" (PyG's ``GNNBenchmarkDataset``), e.g. ``MNIST_v2.pt``.

    Only tensors are unpickled. ``x`` is ``[nodes, colors + 2]``: color, then position. The position is also ``pos``.
    """
    try:
        parts = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise ValueError(f"{path} is not a file of PyG's GNNBenchmarkDataset: {error}") from error
    if not isinstance(parts, list | tuple) or len(parts) != 3:
        raise ValueError(f"{path} is not a file of PyG's GNNBenchmarkDataset: it must contain three lists of graphs")
    graphs = [dict(graph) for part in parts for graph in part]
    for graph in graphs:
        graph["x"] = torch.cat([graph["x"], graph["pos"]], dim=1)
        graph["edge_attr"] = graph["edge_attr"].reshape(-1, 1)
    dataset = pack(graphs, split=torch.arange(3).repeat_interleave(torch.tensor([len(part) for part in parts])))
    return dataset


# ---- images ----------------------------------------------------------------------------------------------------


def build_mnist(folder: Path | str) -> dict[str, np.ndarray]:
    """Build packed graphs without edges of the 70,000 digits of LeCun et al. (1998), with the split 55000/5000/10000.

    Args:
        folder: Folder of ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the two ``t10k-`` files.
    """
    images, labels = (
        [_read_idx(Path(folder) / f"{part}-{what}-ubyte") for part in ("train", "t10k")]
        for what in ("images-idx3", "labels-idx1")
    )
    return _build(images, labels, MNIST, str(folder))


def build_cifar10(folder: Path | str) -> dict[str, np.ndarray]:
    """Build packed graphs without edges of Krizhevsky's (2009) 60,000 photographs, with the split 45000/5000/10000.

    Args:
        folder: Folder of ``data_batch_1.png`` to ``data_batch_5.png`` and ``test_batch.png``, which contain one image
            per row, and of ``train_lables.json`` and ``test_lables.json`` (sic).
    """
    folder = Path(folder)
    batches = [_read_rows(folder / f"data_batch_{number}.png") for number in range(1, 6)]
    images = [np.concatenate(batches), _read_rows(folder / "test_batch.png")]
    files = [folder / f"{part}_lables.json" for part in ("train", "test")]
    labels = [np.array(validate(list[int], read_content(path), path)) for path in files]
    return _build(images, labels, CIFAR10, str(folder))


def _build(
    images: list[np.ndarray], labels: list[np.ndarray], options: SlicOptions, where: str
) -> dict[str, np.ndarray]:
    for part, part_labels in zip(images, labels):
        if len(part) != len(part_labels):
            raise ValueError(f"{where} has {len(part):,} images but {len(part_labels):,} labels")
    train, test = (len(part) for part in images)
    if train < _NUM_VAL:
        raise ValueError(
            f"{where} has {train:,} training images, but at least {_NUM_VAL:,} are needed for the validation set"
        )
    split = np.repeat(np.arange(3, dtype=np.int8), [train - _NUM_VAL, _NUM_VAL, test])
    graphs = superpixels(np.concatenate(images), options)
    return graphs | {"y": np.concatenate(labels).astype(np.int8), "split": split}


def _read_idx(path: Path) -> np.ndarray:
    """Read an array of bytes in MNIST's IDX format, whose header gives the shape."""
    content = path.read_bytes()
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of bytes (MNIST's format)")
    sizes = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * content[3])
    if len(values) != np.prod(sizes):
        raise ValueError(f"{path} has {len(values):,} bytes, but its header gives the shape {list(sizes)}")
    return values.reshape(sizes)


def _read_rows(path: Path) -> np.ndarray:
    """Read square color images ``[rows, side, side, 3]`` from a PNG file that contains one flattened image per row."""
    with import_optional("PIL.Image", "superpixels").open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    side = round(float(pixels.shape[1]) ** 0.5)
    if side * side != pixels.shape[1]:
        raise ValueError(f"{path} has {pixels.shape[1]} pixels per row, which is not a square number")
    return pixels.reshape(-1, side, side, 3)


# ---- segmentation ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SlicOptions:
    """Options of SLIC: the number of segments to request first, their maximum number, and the compactness.

    The requested number is reduced until at most ``max_segments`` result.
    """

    segments: int
    max_segments: int
    compactness: float


MNIST = SlicOptions(95, 75, 0.25)
CIFAR10 = SlicOptions(200, 150, 10.0)


def superpixels(images: np.ndarray, options: SlicOptions, processes: int | None = None) -> dict[str, np.ndarray]:
    """Segment images, ``[G, side, side]`` or ``[G, side, side, 3]`` bytes, into packed graphs without edges.

    ``x`` and ``pos`` are bytes, to be multiplied by ``x_scale`` and ``pos_scale``. Default of ``processes``: one per
    core, at most eight.

    Example:
        >>> arrays = superpixels(np.zeros((2, 8, 8), np.uint8), SlicOptions(4, 4, 0.25))
        >>> arrays["num_nodes"].tolist(), arrays["x"].shape, arrays["pos"].shape
        ([4, 4], (8, 1), (8, 2))
    """
    chunks = [images[start : start + _CHUNK] for start in range(0, len(images), _CHUNK)]
    segmented: list[tuple[np.ndarray, np.ndarray]] = []
    with bar("segmenting images into superpixels", len(images)) as tick:
        for chunk in _map(chunks, options, processes):
            segmented += chunk
            tick(len(chunk))
    side = images.shape[1]
    return {
        "num_nodes": np.array([len(colors) for colors, _ in segmented], np.int32),
        "x": np.concatenate([colors for colors, _ in segmented]),
        "x_scale": np.array(1 / 255, np.float32),
        "pos": np.concatenate([centers for _, centers in segmented]),
        "pos_scale": np.array(1 / (side * _per_pixel(side)), np.float32),
    }


def _map(
    chunks: list[np.ndarray], options: SlicOptions, processes: int | None
) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
    """Yield the results in order. Joblib's processes need no ``__main__`` guard in the caller's script."""
    joblib = import_optional("joblib", "superpixels")
    count = min(processes or min(joblib.cpu_count(), _PROCESSES), len(chunks))
    pool = joblib.Parallel(n_jobs=max(count, 1), backend="loky", return_as="generator", idle_worker_timeout=5)
    results: Iterator[list[tuple[np.ndarray, np.ndarray]]] = pool(
        joblib.delayed(_segment_all)(chunk, options) for chunk in chunks
    )
    return results


def _segment_all(images: np.ndarray, options: SlicOptions) -> list[tuple[np.ndarray, np.ndarray]]:
    return [_segment((image / 255).astype(np.float32), options) for image in images]


def _segment(image: np.ndarray, options: SlicOptions) -> tuple[np.ndarray, np.ndarray]:
    """Return the colors and the centers of the superpixels of an image."""
    slic = import_optional("skimage.segmentation", "superpixels").slic
    axis = None if image.ndim == 2 else -1
    for segments in _requests(image.shape[0], options.segments):
        label = slic(image, segments, options.compactness, start_label=0, channel_axis=axis).ravel()
        if label.max() < options.max_segments:
            break
    size = np.bincount(label)[:, None]
    colors = [np.bincount(label, channel) for channel in image.reshape(len(label), -1).T]
    positions = np.divmod(np.arange(len(label)), image.shape[1])
    centers = [np.bincount(label, position) for position in positions]
    color, center = np.stack(colors, axis=1) / size, np.stack(centers, axis=1) / size
    return np.rint(255 * color).astype(np.uint8), np.rint(_per_pixel(image.shape[0]) * center).astype(np.uint8)


@cache
def _requests(side: int, first: int) -> tuple[int, ...]:
    """Numbers of segments to request, from ``first`` down, without those for which SLIC starts from the same grid."""
    regular_grid = import_optional("skimage.util", "superpixels").regular_grid
    kept: dict[str, int] = {}
    for segments in range(first, 0, -1):
        kept.setdefault(str(regular_grid((1, side, side), segments)), segments)
    return tuple(kept.values())


def _per_pixel(side: int) -> int:
    """Resolution of a center's coordinate per pixel, so that all coordinates fit into a byte."""
    return 255 // max(side - 1, 1)


# ---- edges -----------------------------------------------------------------------------------------------------


def superpixel_edges(arrays: Mapping[str, np.ndarray], k: int = 8) -> dict[str, np.ndarray]:
    """Add edges from each node to its ``k`` most similar nodes, the most similar first. ``edge_attr`` has similarities.

    The arrays are packed graphs with ``x`` and ``pos``, and with ``x_scale`` and ``pos_scale`` unless these are 1. Ties
    go to the node with the lower index. A graph with at most ``k`` nodes is complete. Graphs of the same size are
    processed together, so that there is no loop over graphs. In the result, the last columns of ``x`` are ``pos``.

    Example:
        >>> arrays = {"num_nodes": np.array([3]), "x": np.zeros((3, 1)), "pos": np.array([[0, 0], [0, 1], [0, 3]])}
        >>> superpixel_edges(arrays, k=1)["edge_index"].tolist()
        [[0, 1, 2], [1, 0, 1]]
    """
    count = torch.from_numpy(np.asarray(arrays["num_nodes"]).astype(np.int64))
    position, color = (_unscaled(arrays, name) for name in ("pos", "x"))
    degree = (count - 1).clamp(min=0, max=k)
    first_node, first_edge = count.cumsum(0) - count, (count * degree).cumsum(0) - count * degree
    target = torch.empty(int((count * degree).sum()), dtype=torch.int32)
    weight = torch.empty(len(target), 1)
    with bar(f"connecting the superpixels of {len(count):,} images", len(count)) as tick:
        for size in torch.unique(count[count > 1]).tolist():
            for graphs in (count == size).nonzero().squeeze(1).split(max(1, _PAIRS // size**2)):
                nodes = first_node[graphs][:, None] + torch.arange(size)
                nearest, value = _most_similar(
                    position[0][nodes], position[1], color[0][nodes], color[1], min(k, size - 1)
                )
                edges = first_edge[graphs][:, None] + torch.arange(nearest[0].numel())
                target[edges] = nearest.flatten(1).int()
                weight[edges, 0] = value.flatten(1)
                tick(len(graphs))
    node = torch.arange(len(position[0])) - first_node.repeat_interleave(count)
    ends = torch.stack([node.int().repeat_interleave(degree.repeat_interleave(count)), target])
    others = {name: array for name, array in arrays.items() if name not in ("x_scale", "pos_scale")}
    pos = position[0] * position[1]
    return {
        **others,
        "num_edges": (count * degree).numpy(),
        "edge_index": ends.numpy(),
        "edge_attr": weight.numpy(),
        "directed": np.array(True),
        "x": torch.cat([color[0] * color[1], pos], dim=1).numpy(),
        "pos": pos.numpy(),
    }


def _unscaled(arrays: Mapping[str, np.ndarray], name: str) -> tuple[Tensor, float]:
    """Return the stored features and their scale. Distances of integers are exact, and so are their ties."""
    scale = arrays.get(f"{name}_scale")
    return torch.from_numpy(np.asarray(arrays[name]).astype(np.float32)), 1.0 if scale is None else float(scale)


def _most_similar(
    position: Tensor, position_scale: float, color: Tensor, color_scale: float, k: int
) -> tuple[Tensor, Tensor]:
    """Find the ``k`` most similar nodes of each node and their similarity, both ``[graphs, nodes, k]``."""
    exponent = _relative(position, position_scale, k) + _relative(color, color_scale, k)
    one_sided = exponent.neg_().exp_()
    twice = one_sided + one_sided.transpose(1, 2)
    twice.diagonal(dim1=1, dim2=2).fill_(-1)
    # Non-negative floats have the order of their bits. The node index in the lower bits breaks ties.
    last = 0xFFFF
    key = (twice.view(torch.int32).long() << 16).add_(last - torch.arange(twice.size(2)))
    nearest = last - (key.topk(k, dim=2).values & last)
    return nearest, twice.gather(2, nearest) / 2


def _relative(values: Tensor, scale: float, k: int) -> Tensor:
    """Return the squared distances of all pairs, relative to the mean distance of each node's ``k`` nearest nodes."""
    columns = values.unbind(2)
    squares = (columns[0][:, :, None] - columns[0][:, None, :]).square_()
    for column in columns[1:]:
        squares += (column[:, :, None] - column[:, None, :]).square_()
    nearest = squares.topk(k + 1, dim=2, largest=False, sorted=False).values.sqrt_()  # the node itself adds 0
    width = nearest.sum(2, keepdim=True) * (scale / k) + 1e-8
    return squares.mul_((scale / width).square_())
