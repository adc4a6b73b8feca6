"""Cora from the LINQS files ``cora.content`` and ``cora.cites`` (Sen et al. 2008), identical to Planetoid's Cora.

Planetoid (Yang et al. 2016) uses the same papers, words and citations in another order. ``cora_order.npz`` holds this
order: entry i is the rank, among all paper ids, of the paper that is node i in Planetoid. The order was found by
comparing the words, the label and the neighbors of every paper. 25 papers have a twin that agrees in all three, and
their order does not matter. Features, labels, edges and the public split are bit for bit those of Planetoid.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected

from tgnn.data.readers.sparse import torch_csr

CLASSES = (  # in the order of Planetoid's class indices
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)


def read_linqs_cora(folder: Path | str) -> Data:
    """Read Cora with Planetoid's node order and its public split as masks, as :func:`read_planetoid` does.

    Args:
        folder: Folder of ``cora.content`` and ``cora.cites``.

    Shapes:
        - ``x`` ``[2708, 1433]`` sparse CSR; ``edge_index`` ``[2, 10556]``; ``y`` ``[2708]``
    """
    folder = Path(folder)
    papers, features, labels = _content(folder / "cora.content")
    with (files("tgnn.data.build") / "cora_order.npz").open("rb") as file, np.load(file) as stored:
        order = np.argsort(papers)[stored["order"].astype(np.int64)]
    cited = _cites(folder / "cora.cites", papers[order])
    edge_index, _ = remove_self_loops(torch.from_numpy(cited))
    n = len(papers)
    edge_index = coalesce(to_undirected(edge_index, num_nodes=n), num_nodes=n, sort_by_row=False)
    node = torch.arange(n)
    return Data(
        x=torch_csr(features[order]),
        edge_index=edge_index,
        y=torch.from_numpy(labels[order]),
        train_mask=node < 140,  # 20 of each class
        val_mask=(node >= 140) & (node < 640),
        test_mask=node >= n - 1000,
        num_nodes=n,
    )


def _content(path: Path) -> tuple[np.ndarray, scipy.sparse.csr_matrix, np.ndarray]:
    """Read the id, words and class of each paper."""
    rows = [line.split("\t", 1) for line in path.read_text().splitlines()]
    columns = sum(len(entry.split("\t")) for entry in rows[0]) if rows else 0
    if len(rows) != 2708 or columns != 1435:
        raise ValueError(f"{path} must have 2708 rows of 1435 columns, got {len(rows)} rows of {columns}")
    words, names = zip(*(row[-1].rsplit("\t", 1) for row in rows))
    unknown = set(names) - set(CLASSES)
    if unknown:
        raise ValueError(f"{path} has the class {min(unknown)!r}, but the classes are {', '.join(CLASSES)}")
    bits = np.frombuffer("\t".join(words).encode(), np.uint8)[::2] - ord("0")  # single digits separated by tabs
    if len(bits) != 2708 * 1433 or bits.max() > 1:
        raise ValueError(f"{path} must have 0 or 1 for each of the 1433 words in every row")
    papers = np.array([int(row[0]) for row in rows])
    features = scipy.sparse.csr_matrix(bits.reshape(2708, 1433).astype(np.float32))
    return papers, features, np.array([CLASSES.index(name) for name in names])


def _cites(path: Path, papers: np.ndarray) -> np.ndarray:
    """Read citations as pairs of positions in ``papers``, ``[2, citations]``."""
    pairs = np.loadtxt(path, dtype=np.int64, ndmin=2).T
    unknown = np.setdiff1d(pairs, papers)
    if len(unknown):
        raise ValueError(f"{path} contains paper {unknown[0]}, which is not in cora.content")
    ranks = np.argsort(papers)
    return ranks[np.searchsorted(papers, pairs, sorter=ranks)]
