"""MUTAG, PROTEINS, IMDB-BINARY, IMDB-MULTI and COLLAB from the TU collection (appendix of the paper)."""

from __future__ import annotations

import json
from pathlib import Path

from tgnn.data.catalog.entry import CatalogEntry, FileLayout
from tgnn.data.catalog.packages import GRAKEL
from tgnn.data.catalog.sources import from_archive, from_package
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.graph_npz import read_graphs
from tgnn.data.readers.tu import read_tu
from tgnn.data.transforms import with_degrees
from tgnn.utils.io import sha256_of

_HOST = "https://www.chrsmrrs.com/graphkerneldatasets"
_FOLDS = "10fold_test_idx.json"
_NOTES = {
    "bec742fd0ae3c5c8614379635c1b94c55d679468313c3908ffb8da85a1a14961": (
        "The graphs are in the order of DGCNN and GIN, to which the published folds refer, and without edge labels. "
        "The files of the TU collection contain the same graphs in another order and with edge labels."
    )
}


def _add_features_and_folds(graphs: GraphDataset, folder: Path, folds: bool = True) -> GraphDataset:
    """Add degree features if there are no features, and the published folds if their file is present.

    Args:
        graphs: The graphs as read.
        folder: Folder of their files.
        folds: Whether the graphs are in the order to which the published folds refer.
    """
    if graphs.x is None:
        graphs = with_degrees(graphs)
    if not folds:
        return graphs
    for parent in (folder, folder.parent):
        if (parent / _FOLDS).exists():
            graphs.test_folds = json.loads((parent / _FOLDS).read_text())
            break
    return graphs


def _text_layout(name: str, node_labels: bool) -> FileLayout:
    parts = ["A", "graph_indicator", "graph_labels", *(["node_labels"] if node_labels else [])]
    folders = (f"{name}/raw", f"tu/{name}/raw", f"TUDataset/{name}/raw", f"tu_original/{name}/raw", name)
    return FileLayout(
        tuple(f"{name}_{part}.txt" for part in parts),
        lambda folder: _add_features_and_folds(read_tu(folder, name), folder, _has_fold_order(folder, name)),
        folders,
        notes=_NOTES if name == "MUTAG" else {},
        exact=True,
    )


def _has_fold_order(folder: Path, name: str) -> bool:
    """Whether the graphs are in DGCNN's order, to which the published folds refer. MUTAG exists in two orders."""
    return name != "MUTAG" or any(sha256_of(file) in _NOTES for file in folder.glob("MUTAG_*.txt"))


def _packed_layout(name: str) -> FileLayout:
    return FileLayout(
        ("graphs.npz",),
        lambda folder: _add_features_and_folds(read_graphs(folder / "graphs.npz"), folder),
        (name, f"tu/{name}"),
        unique_names=False,
    )


def _entry(name: str, title: str, graphs: int, nodes: int, edges: int, features: int, classes: int) -> CatalogEntry:
    text, packed = _text_layout(name, node_labels=features > 1), _packed_layout(name.lower())
    sources = [from_archive(text, f"{_HOST}/{name}.zip", {f"{name}/": ""})]
    if name == "MUTAG":
        sources.append(from_package(text, GRAKEL, {"grakel/tests/data/MUTAG/": ""}))
    return CatalogEntry(
        name=name.lower(),
        title=title,
        level="graph",
        target="classes",
        metric="accuracy",
        default_split="fold",
        statistics={"graphs": graphs, "nodes": nodes, "edges": edges, "features": features, "outputs": classes},
        license="none stated; the collection asks to be cited",
        citation="Morris et al. 2020, TUDataset, arXiv:2007.08663",
        official="torch_geometric.datasets.TUDataset",
        layouts=(text, packed),
        sources=tuple(sources),
    )


ENTRIES = (
    _entry("MUTAG", "molecules; predict whether a molecule is mutagenic", 188, 3371, 7442, 7, 2),
    _entry("PROTEINS", "proteins; predict whether a protein is an enzyme", 1113, 43471, 162088, 3, 2),
    _entry("IMDB-BINARY", "ego networks of actors; predict the genre (action or romance)", 1000, 19773, 193062, 1, 2),
    _entry(
        "IMDB-MULTI",
        "ego networks of actors; predict the genre (comedy, romance or science fiction)",
        1500,
        19502,
        197806,
        1,
        3,
    ),
    _entry("COLLAB", "ego networks of researchers; predict the field of physics", 5000, 372474, 24572158, 1, 3),
)
