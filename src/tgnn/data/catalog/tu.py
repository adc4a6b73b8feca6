"""MUTAG, PROTEINS, IMDB-BINARY, IMDB-MULTI and COLLAB from the TU collection (appendix of the paper)."""

from __future__ import annotations

from pathlib import Path

from tgnn.data.catalog.entry import CatalogEntry, DownloadSource, FileLayout
from tgnn.data.download.package_index import Package
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.graph_npz import read_graphs
from tgnn.data.readers.tu import read_tu
from tgnn.data.transforms import with_degrees
from tgnn.utils.io import sha256_of
from tgnn.utils.read import read_content, validate

_HOST = "https://www.chrsmrrs.com/graphkerneldatasets"
_GRAKEL = Package(
    "pip",
    "grakel-0.1.11-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
    "f05f03c1ca23919bbb1e9d9132de4e1791e004cdd284a7e98d2897ac8495f0a7",
)
_FOLDS = "10fold_test_idx.json"
_MUTAG_NOTES = {
    "bec742fd0ae3c5c8614379635c1b94c55d679468313c3908ffb8da85a1a14961": (
        "The graphs are in the order of DGCNN and GIN, to which the published folds refer, and without edge labels. "
        "The files of the TU collection contain the same graphs in another order and with edge labels."
    )
}


def _add_features_and_folds(graphs: GraphDataset, folder: Path) -> GraphDataset:
    """Add degree features if there are no features, and the published folds if their file is present."""
    if graphs.x is None:
        graphs = with_degrees(graphs)
    for parent in (folder, folder.parent):
        if (parent / _FOLDS).exists():
            graphs.test_folds = validate(list[list[int]], read_content(parent / _FOLDS), parent / _FOLDS)
            break
    return graphs


def _entry(name: str, title: str, **statistics: int) -> CatalogEntry:
    def read_text(folder: Path) -> GraphDataset:
        graphs = _add_features_and_folds(read_tu(folder, name), folder)
        if name == "MUTAG" and not any(sha256_of(file) in _MUTAG_NOTES for file in folder.glob("MUTAG_*.txt")):
            graphs.test_folds = None  # the published folds refer to another order of the graphs
        return graphs

    def read_packed(folder: Path) -> GraphDataset:
        return _add_features_and_folds(read_graphs(folder / "graphs.npz"), folder)

    parts = ["A", "graph_indicator", "graph_labels", *(["node_labels"] if statistics["features"] > 1 else [])]
    text = FileLayout(
        tuple(f"{name}_{part}.txt" for part in parts),
        read_text,
        (f"{name}/raw", f"tu/{name}/raw", f"TUDataset/{name}/raw", f"tu_original/{name}/raw", name),
        notes=_MUTAG_NOTES if name == "MUTAG" else {},
        exact=True,
    )
    packed = FileLayout(("graphs.npz",), read_packed, (name.lower(), f"tu/{name.lower()}"), unique_names=False)
    sources = [DownloadSource(text, f"{_HOST}/{name}.zip", {f"{name}/": ""})]
    if name == "MUTAG":
        sources.append(DownloadSource(text, _GRAKEL, {"grakel/tests/data/MUTAG/": ""}))
    return CatalogEntry(
        name=name.lower(),
        title=title,
        level="graph",
        statistics=statistics,
        license="none stated; the collection asks to be cited",
        citation="Morris et al. 2020, TUDataset, arXiv:2007.08663",
        official="torch_geometric.datasets.TUDataset",
        default_split="fold",
        layouts=(text, packed),
        sources=tuple(sources),
    )


_MUTAG = "molecules; predict whether a molecule is mutagenic"
_PROTEINS = "proteins; predict whether a protein is an enzyme"
_IMDB_BINARY = "ego networks of actors; predict the genre (action or romance)"
_IMDB_MULTI = "ego networks of actors; predict the genre (comedy, romance or science fiction)"
_COLLAB = "ego networks of researchers; predict the field of physics"

ENTRIES = (
    _entry("MUTAG", _MUTAG, graphs=188, nodes=3371, edges=7442, features=7, outputs=2),
    _entry("PROTEINS", _PROTEINS, graphs=1113, nodes=43471, edges=162088, features=3, outputs=2),
    _entry("IMDB-BINARY", _IMDB_BINARY, graphs=1000, nodes=19773, edges=193062, features=1, outputs=2),
    _entry("IMDB-MULTI", _IMDB_MULTI, graphs=1500, nodes=19502, edges=197806, features=1, outputs=3),
    _entry("COLLAB", _COLLAB, graphs=5000, nodes=372474, edges=24572158, features=1, outputs=3),
)
