"""Data sets that are installed with PyG and scikit-learn and need no download. Cora is in ``node_graphs.py``."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub
from torch_geometric.utils import to_undirected

from tgnn.data.catalog.entry import CatalogEntry
from tgnn.data.graph_dataset import GraphDataset

_NEIGHBORS = 8


def karate() -> Data:
    """Zachary's karate club: 34 members in four communities, with one labeled node in each."""
    data: Data = KarateClub()[0]
    return data


def digits() -> Data:
    """Build a graph of scikit-learn's 1,797 handwritten digits, each connected with its 8 nearest neighbors."""
    pixels, labels = load_digits(return_X_y=True)
    squares = (pixels * pixels).sum(1)  # pixels are integers, so that all distances are exact
    distance = squares[:, None] + squares[None, :] - 2 * pixels @ pixels.T
    np.fill_diagonal(distance, distance.max() + 1)
    order = distance * len(pixels) + np.arange(len(pixels))  # of equal distances, the lower index comes first
    nearest = torch.from_numpy(np.argpartition(order, _NEIGHBORS, axis=1)[:, :_NEIGHBORS].flatten())
    edge_index = to_undirected(torch.stack([torch.arange(len(pixels)).repeat_interleave(_NEIGHBORS), nearest]))
    return Data(x=torch.from_numpy(pixels / 16).float(), edge_index=edge_index, y=torch.from_numpy(labels).long())


def digits_graphs() -> GraphDataset:
    """Build pixel graphs of the same images for graph classification. Adjacent pixels that are not empty are connected.

    The features of a pixel are its intensity, row and column, all scaled to [0, 1].
    """
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8)
    inked = images >= 1
    image, row, column = (torch.from_numpy(a) for a in inked.nonzero())
    intensity = torch.from_numpy(images[inked])
    counts = torch.from_numpy(inked.sum((1, 2)))
    start = counts.cumsum(0) - counts
    number = torch.full((len(images), 10, 10), -1, dtype=torch.int64)  # with a border of empty pixels
    number[image, row + 1, column + 1] = own = torch.arange(len(image)) - start[image]
    edges, graph_of_edge = [], []
    for down, right in ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)):
        other = number[image, row + 1 + down, column + 1 + right]
        present = other >= 0
        edges.append(torch.stack([other[present], own[present]]))
        graph_of_edge.append(image[present])
    owner = torch.cat(graph_of_edge)
    return GraphDataset(
        {
            "num_nodes": counts,
            "num_edges": owner.bincount(minlength=len(images)),
            "edge_index": torch.cat(edges, dim=1)[:, owner.argsort(stable=True)],
            "directed": True,
            "x": torch.stack([intensity / 16, row / 7, column / 7], dim=1),
            "y": labels,
        }
    )


_UCI = "Alpaydin and Kaynak 1998, UCI Machine Learning Repository, doi:10.24432/C50P49"

ENTRIES = (
    CatalogEntry(
        name="karate",
        title="friendships in a karate club; predict the community of a member",
        level="node",
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
        statistics={"nodes": 1797, "edges": 19858, "features": 64, "outputs": 10},
        embedded=digits,
        license="CC BY 4.0",
        citation=_UCI,
        official="sklearn.datasets.load_digits",
    ),
    CatalogEntry(
        name="digits-graphs",
        title="handwritten digits as graphs of pixels; predict the digit",
        level="graph",
        statistics={"graphs": 1797, "nodes": 58736, "edges": 319784, "features": 3, "outputs": 10},
        embedded=digits_graphs,
        license="CC BY 4.0",
        citation=_UCI,
        official="sklearn.datasets.load_digits",
    ),
)
