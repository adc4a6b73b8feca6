"""The node sets of the Open Graph Benchmark (table 1 of the paper). OGB's own files only: no package has them."""

from __future__ import annotations

from functools import partial

from tgnn.data.catalog.entry import Entry, Form
from tgnn.data.catalog.sources import web_archive
from tgnn.data.readers.ogb import FILES, read_ogb_node

_HOST = "http://snap.stanford.edu/ogb/data/nodeproppred"


def _entry(name: str, way: str, inverse: bool, target: str, title: str, licence: str, **facts: int) -> Entry:
    folder = f"ogbn_{name}"
    splits = tuple(f"split/{way}/{part}.csv.gz" for part in ("train", "valid", "test"))
    files = (*FILES, "raw/node-label.csv.gz", *splits, f"raw/{'edge' if name == 'proteins' else 'node'}-feat.csv.gz")
    form = Form(files, partial(read_ogb_node, way=way, inverse=inverse), (folder, f"ogb/{folder}", name))
    return Entry(
        name=f"ogbn-{name}",
        title=title,
        level="node",
        target=target,
        metric="accuracy" if target == "classes" else "roc-auc",
        split="official",
        stored_split="official",
        facts=facts,
        licence=licence,
        citation="Hu et al. 2020, Open Graph Benchmark, arXiv:2005.00687",
        official="ogb.nodeproppred.PygNodePropPredDataset",
        forms=(form,),
        sources=(web_archive(form, f"{_HOST}/{name}.zip", {f"{name}/": ""}),),
    )


ENTRIES = (
    _entry(
        *("products", "sales_ranking", True, "classes"),
        "goods of a shop that are bought together; their category",
        "Amazon's",
        nodes=2449029,
        edges=123718280,
        features=100,
        outputs=47,
    ),
    _entry(
        *("arxiv", "time", False, "classes"),
        "papers on computer science that cite one another; their subject",
        "ODC-BY",
        nodes=169343,
        edges=1166243,
        features=128,
        outputs=40,
    ),
    _entry(
        *("proteins", "species", True, "labels"),
        "proteins that act together, in eight ways; which of 112 functions they have",
        "CC-0",
        nodes=132534,
        edges=79122504,
        features=8,
        outputs=112,
    ),
)
