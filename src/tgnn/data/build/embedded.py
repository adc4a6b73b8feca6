"""Data sets that come with what is installed anyway: no download, ever."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub

from tgnn.data.graph_dataset import GraphDataset


def karate() -> Data:
    """Zachary's karate club: 34 people, the four communities that modularity finds, one labelled node in each.

    Example:
        >>> karate()
        Data(x=[34, 34], edge_index=[2, 156], y=[34], train_mask=[34])
    """
    data: Data = KarateClub()[0]
    return data


def digits(neighbours: int = 8) -> Data:
    """A node task: scikit-learn's 1,797 handwritten digits, each linked to its nearest neighbours, both ways.

    Args:
        neighbours: How many each digit chooses.

    Example:
        >>> digits()
        Data(x=[1797, 64], edge_index=[2, 19858], y=[1797])
    """
    pixels, labels = load_digits(return_X_y=True)
    near = _nearest(pixels, neighbours)
    both = near.maximum(near.T).tocoo()
    edge_index = torch.from_numpy(np.stack([both.row, both.col]).astype(np.int64))
    return Data(x=torch.from_numpy(pixels / 16).float(), edge_index=edge_index, y=torch.from_numpy(labels).long())


def _nearest(pixels: np.ndarray, count: int) -> scipy.sparse.csr_matrix:
    """Each row's nearest others, of equally near ones the first. Pixels are whole numbers: this is exact anywhere."""
    squares = (pixels * pixels).sum(1)
    distance = squares[:, None] + squares[None, :] - 2 * pixels @ pixels.T
    np.fill_diagonal(distance, distance.max() + 1)
    order = distance * len(pixels) + np.arange(len(pixels))  # no two are the same
    chosen = np.argpartition(order, count, axis=1)[:, :count]
    rows = np.arange(len(pixels)).repeat(count)
    return scipy.sparse.csr_matrix((np.ones(chosen.size), (rows, chosen.ravel())), shape=distance.shape)


def digits_graphs(least: float = 1.0) -> GraphDataset:
    """A graph task: the same images, as graphs of their inked pixels, each linked to those that touch it.

    Args:
        least: Pixels of at least this ink (of 16) are nodes. Features: ink, row and column, from 0 to 1.

    Example:
        >>> digits_graphs()[0]
        Data(y=[1], num_nodes=35, x=[35, 3], edge_index=[2, 182])
    """
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8)
    inked = images >= least
    image, row, column = (torch.from_numpy(a) for a in inked.nonzero())
    ink = torch.from_numpy(images[inked])
    counts = torch.from_numpy(inked.sum((1, 2)))
    number = torch.full((len(images), 10, 10), -1, dtype=torch.int64)  # a frame without pixels around each image
    start = counts.cumsum(0) - counts
    number[image, row + 1, column + 1] = torch.arange(len(image)) - start[image]
    edges, owners = _touching(number, image, row, column)
    order = owners.argsort(stable=True)
    return GraphDataset(
        {
            "num_nodes": counts,
            "num_edges": owners.bincount(minlength=len(images)),
            "edge_index": edges[:, order],
            "directed": True,
            "x": torch.stack([ink / 16, row / 7, column / 7], dim=1),
            "y": labels,
        }
    )


def _touching(number: Tensor, image: Tensor, row: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
    """Edges between pixels that touch, corners included, and the image of each edge."""
    edges, owners = [], []
    own = number[image, row + 1, column + 1]
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            other = number[image, row + 1 + down, column + 1 + right]
            there = (other >= 0) & ((down, right) != (0, 0))
            edges.append(torch.stack([other[there], own[there]]))
            owners.append(image[there])
    return torch.cat(edges, dim=1), torch.cat(owners)
