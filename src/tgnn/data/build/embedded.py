"""Data sets that are installed with tgnn, PyG and scikit-learn."""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
import scipy.sparse
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.graph_npz import read_graph


def cora() -> Data:
    """Cora with sparse features and Planetoid's public split as masks, equal to the result of ``read_planetoid``.

    The file is installed with tgnn. ``cora.LICENSE.md`` beside it has its source and its terms.

    Example:
        >>> cora().edge_index.shape
        torch.Size([2, 10556])
    """
    with as_file(files("tgnn.data.catalog") / "cora.npz") as path:
        return read_graph(path)


def karate() -> Data:
    """Zachary's karate club: 34 members in four communities, with one labeled node in each.

    Example:
        >>> karate()
        Data(x=[34, 34], edge_index=[2, 156], y=[34], train_mask=[34])
    """
    data: Data = KarateClub()[0]
    return data


def digits(neighbors: int = 8) -> Data:
    """Build a symmetric nearest-neighbor graph of scikit-learn's 1,797 handwritten digits for node classification.

    Args:
        neighbors: Number of nearest neighbors of each digit.

    Example:
        >>> digits()
        Data(x=[1797, 64], edge_index=[2, 19858], y=[1797])
    """
    pixels, labels = load_digits(return_X_y=True)
    nearest = _nearest_neighbors(pixels, neighbors)
    symmetric = nearest.maximum(nearest.T).tocoo()
    edge_index = torch.from_numpy(np.stack([symmetric.row, symmetric.col]).astype(np.int64))
    return Data(x=torch.from_numpy(pixels / 16).float(), edge_index=edge_index, y=torch.from_numpy(labels).long())


def _nearest_neighbors(pixels: np.ndarray, count: int) -> scipy.sparse.csr_matrix:
    """Find the nearest rows of each row; ties go to the lower index. Pixels are integers, so that this is exact."""
    squares = (pixels * pixels).sum(1)
    distance = squares[:, None] + squares[None, :] - 2 * pixels @ pixels.T
    np.fill_diagonal(distance, distance.max() + 1)
    order = distance * len(pixels) + np.arange(len(pixels))  # all distinct
    chosen = np.argpartition(order, count, axis=1)[:, :count]
    rows = np.arange(len(pixels)).repeat(count)
    return scipy.sparse.csr_matrix((np.ones(chosen.size), (rows, chosen.ravel())), shape=distance.shape)


def digits_graphs(threshold: float = 1.0) -> GraphDataset:
    """Build pixel graphs of the same images for graph classification. Adjacent pixels are connected.

    The features of a pixel are its intensity, row and column, all scaled to [0, 1].

    Args:
        threshold: Minimum intensity (of 16) for a pixel to become a node.

    Example:
        >>> digits_graphs()[0]
        Data(num_nodes=35, x=[35, 3], edge_index=[2, 182], y=[1])
    """
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8)
    inked = images >= threshold
    image, row, column = (torch.from_numpy(a) for a in inked.nonzero())
    intensity = torch.from_numpy(images[inked])
    counts = torch.from_numpy(inked.sum((1, 2)))
    number = torch.full((len(images), 10, 10), -1, dtype=torch.int64)  # with a border of empty pixels
    start = counts.cumsum(0) - counts
    number[image, row + 1, column + 1] = torch.arange(len(image)) - start[image]
    edges, graph_of_edge = _adjacent_pixels(number, image, row, column)
    order = graph_of_edge.argsort(stable=True)
    return GraphDataset(
        {
            "num_nodes": counts,
            "num_edges": graph_of_edge.bincount(minlength=len(images)),
            "edge_index": edges[:, order],
            "directed": True,
            "x": torch.stack([intensity / 16, row / 7, column / 7], dim=1),
            "y": labels,
        }
    )


def _adjacent_pixels(number: Tensor, image: Tensor, row: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
    """Connect pixels that share a side or a corner. Also return the image of each edge."""
    edges, graph_of_edge = [], []
    own = number[image, row + 1, column + 1]
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            other = number[image, row + 1 + down, column + 1 + right]
            present = (other >= 0) & ((down, right) != (0, 0))
            edges.append(torch.stack([other[present], own[present]]))
            graph_of_edge.append(image[present])
    return torch.cat(edges, dim=1), torch.cat(graph_of_edge)
