"""Images to superpixels, as Knyazev et al. (2019) and Dwivedi et al. (2020) make them: SLIC (Achanta et al. 2012).

A superpixel is a node: its mean colour ``x`` and its centre ``pos`` (row, column; 1 is the size of the image), both
rounded to a byte. Edges are not stored, for they follow from these (:mod:`tgnn.data.build.superpixel_edges`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tgnn.data.build.images import read_cifar10, read_mnist
from tgnn.data.build.optional import load

_CHUNK = 250  # images that a process works on at a time
_PROCESSES = 8  # at most: each of them takes some 400 MB


@dataclass(frozen=True)
class Recipe:
    """How an image is cut.

    Args:
        segments: How many to ask for at first; ever fewer until there are not too many.
        most: How many there may be.
        compactness: What SLIC gives to nearness, against likeness of colour.
    """

    segments: int
    most: int
    compactness: float


MNIST = Recipe(95, 75, 0.25)
CIFAR10 = Recipe(200, 150, 10.0)


def build_mnist(folder: Path | str, tick: Callable[[int], None] | None = None) -> dict[str, np.ndarray]:
    """Packed graphs without edges of the 70,000 digits, with the published split 55000/5000/10000.

    Args:
        folder: As :func:`tgnn.data.build.images.read_mnist` reads it.
        tick: _Messages every now and then how many more images are done.
    """
    images, y, split = read_mnist(folder)
    return {**superpixels(images, MNIST, tick), "y": y, "split": split}


def build_cifar10(folder: Path | str, tick: Callable[[int], None] | None = None) -> dict[str, np.ndarray]:
    """Packed graphs without edges of the 60,000 photographs, with the published split 45000/5000/10000.

    Args:
        folder: As :func:`tgnn.data.build.images.read_cifar10` reads it.
        tick: _Messages every now and then how many more images are done.
    """
    images, y, split = read_cifar10(folder)
    return {**superpixels(images, CIFAR10, tick), "y": y, "split": split}


def superpixels(
    images: np.ndarray, recipe: Recipe, tick: Callable[[int], None] | None = None, processes: int | None = None
) -> dict[str, np.ndarray]:
    """Packed graphs without edges, targets and split.

    Args:
        images: Bytes, ``[G, side, side]`` grey or ``[G, side, side, 3]`` in colour.
        recipe: How to cut them.
        tick: _Messages every now and then how many more images are done.
        processes: How many to use; default: one per core, eight at most.

    Shapes:
        - ``num_nodes`` ``[G]``; ``x`` ``[nodes, 1]`` or ``[nodes, 3]`` and ``pos`` ``[nodes, 2]`` as bytes, to be
          multiplied by ``x_scale`` and ``pos_scale``

    Example:
        >>> arrays = superpixels(np.zeros((2, 8, 8), np.uint8), Recipe(4, 4, 0.25))
        >>> arrays["num_nodes"].tolist(), arrays["x"].shape, arrays["pos"].shape
        ([4, 4], (8, 1), (8, 2))
    """
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or images.shape[1] != images.shape[2]:
        raise ValueError(f"images must be square and of bytes, got {list(images.shape)} of {images.dtype}")
    chunks = [images[start : start + _CHUNK] for start in range(0, len(images), _CHUNK)]
    parts = []
    for part in _map(chunks, recipe, processes):
        parts.append(part)
        if tick is not None:
            tick(len(part[0]))
    empty = (np.zeros(0, np.int32), np.zeros((0, 3 if images.ndim == 4 else 1), np.uint8), np.zeros((0, 2), np.uint8))
    num_nodes, x, pos = (np.concatenate(columns) for columns in zip(empty, *parts))
    return {
        "num_nodes": num_nodes,
        "x": x,
        "x_scale": np.array(1 / 255, np.float32),
        "pos": pos,
        "pos_scale": np.array(1 / (images.shape[1] * _per_pixel(images.shape[1])), np.float32),
    }


def _map(
    chunks: list[np.ndarray], recipe: Recipe, processes: int | None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Results in order, as they come. Joblib's processes need no guard in the caller's script, and end with it."""
    joblib = load("joblib", "superpixels")
    wanted = min(processes or min(joblib.cpu_count(), _PROCESSES), len(chunks))
    if wanted <= 1:
        return (_cut_all(chunk, recipe) for chunk in chunks)
    pool = joblib.Parallel(n_jobs=wanted, backend="loky", return_as="generator", idle_worker_timeout=5)
    results: Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]] = pool(
        joblib.delayed(_cut_all)(chunk, recipe) for chunk in chunks
    )
    return results


def _cut_all(images: np.ndarray, recipe: Recipe) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number of superpixels of each image, their colours and their centres."""
    cut = [_cut((image / 255).astype(np.float32), recipe) for image in images]
    count = np.array([len(colours) for colours, _ in cut], np.int32)
    return count, np.concatenate([colours for colours, _ in cut]), np.concatenate([centres for _, centres in cut])


def _cut(image: np.ndarray, recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    segment = load("skimage.segmentation", "superpixels").slic
    axis = None if image.ndim == 2 else -1
    for segments in _requests(image.shape[0], recipe.segments):
        label = segment(image, segments, recipe.compactness, start_label=0, channel_axis=axis).ravel()
        if label.max() < recipe.most:
            break
    size = np.bincount(label)[:, None]
    colours = [np.bincount(label, channel) for channel in image.reshape(len(label), -1).T]
    places = np.divmod(np.arange(len(label)), image.shape[1])
    centres = [np.bincount(label, place) for place in places]
    colour, centre = np.stack(colours, axis=1) / size, np.stack(centres, axis=1) / size
    return np.rint(255 * colour).astype(np.uint8), np.rint(_per_pixel(image.shape[0]) * centre).astype(np.uint8)


@cache
def _requests(side: int, first: int) -> tuple[int, ...]:
    """Numbers from ``first`` down, without those for which SLIC starts from the same grid as for the one before."""
    regular_grid = load("skimage.util", "superpixels").regular_grid
    kept: dict[str, int] = {}
    for segments in range(first, 0, -1):
        kept.setdefault(str(regular_grid((1, side, side), segments)), segments)
    return tuple(kept.values())


def _per_pixel(side: int) -> int:
    """Steps of a centre's coordinate per pixel, so that all of them fit into a byte."""
    return 255 // max(side - 1, 1)
