"""Images of MNIST (LeCun et al. 1998) and CIFAR-10 (Krizhevsky 2009) out of the files that packages carry."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

from tgnn.data.build.optional import load

_VALIDATE = 5000  # of the training images, the last ones


def read_mnist(folder: Path | str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All 70,000 digits: 60,000 to train, of which the last 5,000 validate, then 10,000 to test.

    Args:
        folder: Where ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the two ``t10k-`` files are.

    Shapes:
        - images ``[70000, 28, 28]`` uint8, labels ``[70000]`` int8, split ``[70000]`` int8 (0, 1, 2)
    """
    folder = Path(folder)
    images = [read_idx(folder / f"{part}-images-idx3-ubyte") for part in ("train", "t10k")]
    labels = [read_idx(folder / f"{part}-labels-idx1-ubyte") for part in ("train", "t10k")]
    return _join(images, labels, str(folder))


def read_cifar10(folder: Path | str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All 60,000 photographs: 50,000 to train, of which the last 5,000 validate, then 10,000 to test.

    Args:
        folder: Where ``data_batch_1.png`` to ``data_batch_5.png`` and ``test_batch.png`` are, one image a row, and
            ``train_lables.json`` and ``test_lables.json`` (spelled so).

    Shapes:
        - images ``[60000, 32, 32, 3]`` uint8, labels ``[60000]`` int8, split ``[60000]`` int8 (0, 1, 2)
    """
    folder = Path(folder)
    batches = [read_rows(folder / f"data_batch_{number}.png") for number in range(1, 6)]
    images = [np.concatenate(batches), read_rows(folder / "test_batch.png")]
    labels = [np.array(json.loads((folder / f"{part}_lables.json").read_text())) for part in ("train", "test")]
    return _join(images, labels, str(folder))


def read_idx(path: Path) -> np.ndarray:
    """Bytes in the shape that the head of the file tells.

    Args:
        path: A file of MNIST's format: two zeros, the type 8, the number of sizes, the sizes, the bytes.
    """
    content = path.read_bytes()
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not a file of bytes in MNIST's format")
    sizes = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * content[3])
    if len(values) != np.prod(sizes):
        raise ValueError(f"{path} has {len(values):,} bytes, but its head says {list(sizes)}")
    return values.reshape(sizes)


def read_rows(path: Path) -> np.ndarray:
    """Square images in colour out of a picture that has one of them in each row, pixel after pixel.

    Args:
        path: The picture.

    Shapes:
        - ``[rows, side, side, 3]`` uint8
    """
    with load("PIL.Image", "superpixels").open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    side = round(float(pixels.shape[1]) ** 0.5)
    if side * side != pixels.shape[1]:
        raise ValueError(f"{path} has {pixels.shape[1]} pixels in a row, and they are not those of a square image")
    return pixels.reshape(-1, side, side, 3)


def _join(images: list[np.ndarray], labels: list[np.ndarray], where: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    for some, theirs in zip(images, labels):
        if len(some) != len(theirs):
            raise ValueError(f"{where} has {len(some):,} images and {len(theirs):,} labels for them")
    train, test = (len(some) for some in images)
    if train < _VALIDATE:
        raise ValueError(f"{where} has {train:,} training images, and {_VALIDATE:,} of them are to validate")
    split = np.repeat(np.arange(3, dtype=np.int8), [train - _VALIDATE, _VALIDATE, test])
    return np.concatenate(images), np.concatenate(labels).astype(np.int8), split
