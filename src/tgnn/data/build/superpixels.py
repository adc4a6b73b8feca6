"""Segment images into superpixels with SLIC (Achanta et al. 2012), as Knyazev et al. (2019) and Dwivedi et al. (2020).

A superpixel is a node with its mean color ``x`` and its center ``pos`` (row and column, relative to the size of the
image), both rounded to a byte. Edges are not stored, because they can be computed from these
(:mod:`tgnn.data.build.superpixel_edges`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tgnn.data.build.images import read_cifar10, read_mnist
from tgnn.data.build.optional_imports import import_optional

_CHUNK = 250  # images per task of a process
_PROCESSES = 8  # maximum number of processes; each takes about 400 MB


@dataclass(frozen=True)
class SlicOptions:
    """Options of the segmentation.

    Args:
        segments: Number of segments to request first. It is reduced until at most ``max_segments`` result.
        max_segments: Maximum number of segments.
        compactness: Weight of spatial proximity relative to color similarity in SLIC.
    """

    segments: int
    max_segments: int
    compactness: float


MNIST = SlicOptions(95, 75, 0.25)
CIFAR10 = SlicOptions(200, 150, 10.0)


def build_mnist(folder: Path | str, tick: Callable[[int], None] | None = None) -> dict[str, np.ndarray]:
    """Build packed graphs without edges of MNIST's 70,000 digits, with the published split 55000/5000/10000.

    Args:
        folder: Folder that :func:`tgnn.data.build.images.read_mnist` reads.
        tick: Callback that receives the number of images processed since its last call.
    """
    images, y, split = read_mnist(folder)
    return {**superpixels(images, MNIST, tick), "y": y, "split": split}


def build_cifar10(folder: Path | str, tick: Callable[[int], None] | None = None) -> dict[str, np.ndarray]:
    """Build packed graphs without edges of CIFAR-10's 60,000 photographs, with the published split 45000/5000/10000.

    Args:
        folder: Folder that :func:`tgnn.data.build.images.read_cifar10` reads.
        tick: Callback that receives the number of images processed since its last call.
    """
    images, y, split = read_cifar10(folder)
    return {**superpixels(images, CIFAR10, tick), "y": y, "split": split}


def superpixels(
    images: np.ndarray, options: SlicOptions, tick: Callable[[int], None] | None = None, processes: int | None = None
) -> dict[str, np.ndarray]:
    """Packed graphs without edges, targets and split.

    Args:
        images: Bytes, ``[G, side, side]`` gray or ``[G, side, side, 3]`` color.
        options: Options of the segmentation.
        tick: Callback that receives the number of images processed since its last call.
        processes: Number of processes. Default: one per core, at most eight.

    Shapes:
        - ``num_nodes`` ``[G]``; ``x`` ``[nodes, 1]`` or ``[nodes, 3]`` and ``pos`` ``[nodes, 2]`` as bytes, to be
          multiplied by ``x_scale`` and ``pos_scale``

    Example:
        >>> arrays = superpixels(np.zeros((2, 8, 8), np.uint8), SlicOptions(4, 4, 0.25))
        >>> arrays["num_nodes"].tolist(), arrays["x"].shape, arrays["pos"].shape
        ([4, 4], (8, 1), (8, 2))
    """
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or images.shape[1] != images.shape[2]:
        raise ValueError(f"images must be square and uint8, got shape {list(images.shape)} of {images.dtype}")
    chunks = [images[start : start + _CHUNK] for start in range(0, len(images), _CHUNK)]
    parts = []
    for part in _map(chunks, options, processes):
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
    chunks: list[np.ndarray], options: SlicOptions, processes: int | None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the results in order. Joblib's processes need no ``__main__`` guard in the caller's script."""
    joblib = import_optional("joblib", "superpixels")
    count = min(processes or min(joblib.cpu_count(), _PROCESSES), len(chunks))
    if count <= 1:
        return (_segment_all(chunk, options) for chunk in chunks)
    pool = joblib.Parallel(n_jobs=count, backend="loky", return_as="generator", idle_worker_timeout=5)
    results: Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]] = pool(
        joblib.delayed(_segment_all)(chunk, options) for chunk in chunks
    )
    return results


def _segment_all(images: np.ndarray, options: SlicOptions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of superpixels of each image, their colors and their centers."""
    segmented = [_segment((image / 255).astype(np.float32), options) for image in images]
    count = np.array([len(colors) for colors, _ in segmented], np.int32)
    return (
        count,
        np.concatenate([colors for colors, _ in segmented]),
        np.concatenate([centers for _, centers in segmented]),
    )


def _segment(image: np.ndarray, options: SlicOptions) -> tuple[np.ndarray, np.ndarray]:
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
