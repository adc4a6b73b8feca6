"""The node property prediction data sets of the Open Graph Benchmark (table 1 of the paper).

They are downloaded from OGB's host. No pip or npm package contains them.
"""

from __future__ import annotations

from functools import partial

from tgnn.data.catalog.entry import CatalogEntry, FileLayout
from tgnn.data.catalog.sources import from_archive
from tgnn.data.readers.ogb import FILES, read_ogb_node

_HOST = "http://snap.stanford.edu/ogb/data/nodeproppred"


def _entry(
    name: str, split: str, add_reverse_edges: bool, target: str, title: str, license: str, **statistics: int
) -> CatalogEntry:
    folder = f"ogbn_{name}"
    splits = tuple(f"split/{split}/{part}.csv.gz" for part in ("train", "valid", "test"))
    files = (*FILES, "raw/node-label.csv.gz", *splits, f"raw/{'edge' if name == 'proteins' else 'node'}-feat.csv.gz")
    read = partial(read_ogb_node, split=split, add_reverse_edges=add_reverse_edges)
    layout = FileLayout(files, read, (folder, f"ogb/{folder}", name))
    return CatalogEntry(
        name=f"ogbn-{name}",
        title=title,
        level="node",
        target=target,
        metric="accuracy" if target == "classes" else "roc-auc",
        default_split="official",
        stored_split="official",
        statistics=statistics,
        license=license,
        citation="Hu et al. 2020, Open Graph Benchmark, arXiv:2005.00687",
        official="ogb.nodeproppred.PygNodePropPredDataset",
        layouts=(layout,),
        sources=(from_archive(layout, f"{_HOST}/{name}.zip", {f"{name}/": ""}),),
    )


ENTRIES = (
    _entry(
        *("products", "sales_ranking", True, "classes"),
        "Amazon products that are bought together; predict the category of a product",
        "Amazon license",
        nodes=2449029,
        edges=123718280,
        features=100,
        outputs=47,
    ),
    _entry(
        *("arxiv", "time", False, "classes"),
        "citation network of computer science papers on arXiv; predict the subject area",
        "ODC-BY",
        nodes=169343,
        edges=1166243,
        features=128,
        outputs=40,
    ),
    _entry(
        *("proteins", "species", True, "labels"),
        "associations between proteins of eight types; predict which of 112 functions a protein has",
        "CC0",
        nodes=132534,
        edges=79122504,
        features=8,
        outputs=112,
    ),
)
