"""The node property prediction data sets of the Open Graph Benchmark (table 1 of the paper).

They are downloaded from OGB's host. No pip or npm package contains them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tgnn.data.catalog.entry import CatalogEntry, FileLayout, from_web
from tgnn.data.readers.ogb import FILES, read_ogb_node, split_files

_HOST = "http://snap.stanford.edu/ogb/data/nodeproppred"


def _entry(
    name: str, split: str, add_reverse_edges: bool, target: str, title: str, license: str, statistics: Mapping[str, int]
) -> CatalogEntry:
    features = "edge-feat" if name == "proteins" else "node-feat"
    files = (*FILES, "raw/node-label.csv.gz", f"raw/{features}.csv.gz", *split_files(split))
    read = partial(read_ogb_node, split=split, add_reverse_edges=add_reverse_edges)
    layout = FileLayout(files, read, (f"ogbn_{name}", f"ogb/ogbn_{name}", name))
    return CatalogEntry(
        name=f"ogbn-{name}",
        title=title,
        level="node",
        target=target,
        statistics=statistics,
        license=license,
        citation="Hu et al. 2020, Open Graph Benchmark, arXiv:2005.00687",
        official="ogb.nodeproppred.PygNodePropPredDataset",
        default_split="official",
        stored_split="official",
        layouts=(layout,),
        sources=(from_web(layout, archive=f"{_HOST}/{name}.zip", members={f"{name}/": ""}),),
    )


_PRODUCTS = "Amazon products that are bought together; predict the category of a product"
_ARXIV = "citation network of computer science papers on arXiv; predict the subject area"
_PROTEINS = "associations between proteins of eight types; predict which of 112 functions a protein has"

ENTRIES = (
    _entry(
        *("products", "sales_ranking", True, "classes", _PRODUCTS, "Amazon license"),
        {"nodes": 2449029, "edges": 123718280, "features": 100, "outputs": 47},
    ),
    _entry(
        *("arxiv", "time", False, "classes", _ARXIV, "ODC-BY"),
        {"nodes": 169343, "edges": 1166243, "features": 128, "outputs": 40},
    ),
    _entry(
        *("proteins", "species", True, "labels", _PROTEINS, "CC0"),
        {"nodes": 132534, "edges": 79122504, "features": 8, "outputs": 112},
    ),
)
