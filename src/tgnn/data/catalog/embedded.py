"""Data sets that are installed with PyG and scikit-learn and need no download. Cora is in ``citation.py``."""

from __future__ import annotations

from tgnn.data.build.embedded import digits, digits_graphs, karate
from tgnn.data.catalog.entry import CatalogEntry

ENTRIES = (
    CatalogEntry(
        name="karate",
        title="friendships in a karate club; predict the community of a member",
        level="node",
        target="classes",
        metric="accuracy",
        default_split="stratified",
        statistics={"nodes": 34, "edges": 156, "features": 34, "outputs": 4},
        license="none stated",
        citation="Zachary 1977, An Information Flow Model for Conflict and Fission in Small Groups",
        official="torch_geometric.datasets.KarateClub",
        embedded=karate,
    ),
    CatalogEntry(
        name="digits",
        title="nearest-neighbor graph of handwritten digits; predict the digit",
        level="node",
        target="classes",
        metric="accuracy",
        default_split="stratified",
        statistics={"nodes": 1797, "edges": 19858, "features": 64, "outputs": 10},
        license="CC BY 4.0",
        citation="Alpaydin and Kaynak 1998, UCI Machine Learning Repository, doi:10.24432/C50P49",
        official="sklearn.datasets.load_digits",
        embedded=digits,
    ),
    CatalogEntry(
        name="digits-graphs",
        title="handwritten digits as graphs of pixels; predict the digit",
        level="graph",
        target="classes",
        metric="accuracy",
        default_split="stratified",
        statistics={"graphs": 1797, "nodes": 58736, "edges": 319784, "features": 3, "outputs": 10},
        license="CC BY 4.0",
        citation="Alpaydin and Kaynak 1998, UCI Machine Learning Repository, doi:10.24432/C50P49",
        official="sklearn.datasets.load_digits",
        embedded=digits_graphs,
    ),
)
