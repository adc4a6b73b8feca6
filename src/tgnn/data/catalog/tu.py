"""MUTAG, PROTEINS, IMDB-BINARY, IMDB-MULTI and COLLAB of the TU collection (appendix of the paper)."""

from __future__ import annotations

import json
from pathlib import Path

from tgnn.data.catalog.entry import Entry, Form
from tgnn.data.catalog.packages import GRAKEL
from tgnn.data.catalog.sources import packaged, web_archive
from tgnn.data.download.checksum import sha256_of
from tgnn.data.graph_dataset import GraphDataset, read_packed
from tgnn.data.readers.tu import read_tu
from tgnn.data.transforms import with_degrees

_HOST = "https://www.chrsmrrs.com/graphkerneldatasets"
_FOLDS = "10fold_test_idx.json"
_NOTES = {
    "bec742fd0ae3c5c8614379635c1b94c55d679468313c3908ffb8da85a1a14961": (
        "MUTAG in the order of DGCNN and GIN, which their published folds count in, and without edge labels; the files "
        "of the TU collection have the same graphs in another order, with edge labels."
    )
}


def _finished(graphs: GraphDataset, folder: Path, folds: bool = True) -> GraphDataset:
    """With features where there are none, and with the published folds where their file lies beside.

    Args:
        graphs: As they were read.
        folder: Of their files.
        folds: Whether these graphs are in the order that the folds count in.
    """
    if graphs.x is None:
        graphs = with_degrees(graphs)
    if not folds:
        return graphs
    for place in (folder, folder.parent):
        if (place / _FOLDS).exists():
            graphs.test_folds = json.loads((place / _FOLDS).read_text())
            break
    return graphs


def _text(name: str, node_labels: bool) -> Form:
    parts = ["A", "graph_indicator", "graph_labels", *(["node_labels"] if node_labels else [])]
    places = (f"{name}/raw", f"tu/{name}/raw", f"TUDataset/{name}/raw", f"tu_original/{name}/raw", name)
    return Form(
        tuple(f"{name}_{part}.txt" for part in parts),
        lambda folder: _finished(read_tu(folder, name), folder, _in_order(folder, name)),
        places,
        notes=_NOTES if name == "MUTAG" else {},
        exact=True,
    )


def _in_order(folder: Path, name: str) -> bool:
    """Whether graphs are in the order of DGCNN's files, which published folds count in: MUTAG comes in two."""
    return name != "MUTAG" or any(sha256_of(file) in _NOTES for file in folder.glob("MUTAG_*.txt"))


def _packed(name: str) -> Form:
    return Form(
        ("graphs.npz",),
        lambda folder: _finished(read_packed(folder / "graphs.npz"), folder),
        (name, f"tu/{name}"),
        telling=False,
    )


def _entry(name: str, title: str, graphs: int, nodes: int, edges: int, features: int, classes: int) -> Entry:
    text, packed = _text(name, node_labels=features > 1), _packed(name.lower())
    sources = [web_archive(text, f"{_HOST}/{name}.zip", {f"{name}/": ""})]
    if name == "MUTAG":
        sources.append(packaged(text, GRAKEL, {"grakel/tests/data/MUTAG/": ""}))
    return Entry(
        name=name.lower(),
        title=title,
        level="graph",
        target="classes",
        metric="accuracy",
        split="fold",
        facts={"graphs": graphs, "nodes": nodes, "edges": edges, "features": features, "outputs": classes},
        licence="none stated; the collection asks for citation",
        citation="Morris et al. 2020, TUDataset, arXiv:2007.08663",
        official="torch_geometric.datasets.TUDataset",
        forms=(text, packed),
        sources=tuple(sources),
    )


ENTRIES = (
    _entry("MUTAG", "molecules; whether they change genes of a bacterium", 188, 3371, 7442, 7, 2),
    _entry("PROTEINS", "proteins; whether they are enzymes", 1113, 43471, 162088, 3, 2),
    _entry("IMDB-BINARY", "actors around one who played together; action or romance", 1000, 19773, 193062, 1, 2),
    _entry(
        "IMDB-MULTI",
        "actors around one who played together; comedy, romance or science fiction",
        1500,
        19502,
        197806,
        1,
        3,
    ),
    _entry("COLLAB", "researchers around one who wrote together; field of physics", 5000, 372474, 24572158, 1, 3),
)
