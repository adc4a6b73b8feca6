"""Data sets that come with what is installed: no network, ever."""

from __future__ import annotations

from tgnn.data.build.embedded import digits, digits_graphs, karate
from tgnn.data.catalog.entry import Entry

ENTRIES = (
    Entry(
        name="karate",
        title="members of a karate club; to which of four groups they belong",
        level="node",
        target="classes",
        metric="accuracy",
        split="stratified",
        facts={"nodes": 34, "edges": 156, "features": 34, "outputs": 4},
        licence="none stated",
        citation="Zachary 1977, An Information Flow Model for Conflict and Fission in Small Groups",
        official="torch_geometric.datasets.KarateClub",
        embedded=karate,
    ),
    Entry(
        name="digits",
        title="handwritten digits, each linked to those most like it; which digit",
        level="node",
        target="classes",
        metric="accuracy",
        split="stratified",
        facts={"nodes": 1797, "edges": 19858, "features": 64, "outputs": 10},
        licence="CC BY 4.0",
        citation="Alpaydin and Kaynak 1998, UCI Machine Learning Repository, doi:10.24432/C50P49",
        official="sklearn.datasets.load_digits",
        embedded=digits,
    ),
    Entry(
        name="digits-graphs",
        title="handwritten digits as graphs of their pixels; which digit",
        level="graph",
        target="classes",
        metric="accuracy",
        split="stratified",
        facts={"graphs": 1797, "nodes": 58736, "edges": 319784, "features": 3, "outputs": 10},
        licence="CC BY 4.0",
        citation="Alpaydin and Kaynak 1998, UCI Machine Learning Repository, doi:10.24432/C50P49",
        official="sklearn.datasets.load_digits",
        embedded=digits_graphs,
    ),
)
