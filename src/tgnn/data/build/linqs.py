"""Cora as LINQS publishes it (Sen et al. 2008), made equal to Planetoid's: ``cora.content`` and ``cora.cites``.

Planetoid (Yang et al. 2016) took the same papers, words and citations, and shuffled the papers. ``cora_order.npz``
undoes that: entry i is the rank, among all paper numbers, of the paper that is node i there. It was found by comparing
the words, the label and the neighbours of every paper; 25 papers have a twin in all three, so that their order does not
matter. With it, features, labels, edges and the public split are Planetoid's, bit by bit.
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

CLASSES = (  # in the order of Planetoid's numbers
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)


def read_linqs_cora(folder: Path | str) -> Data:
    """Cora with Planetoid's order of nodes and its public split as masks, as :func:`read_planetoid` gives it.

    Args:
        folder: Where ``cora.content`` and ``cora.cites`` are.

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
    place = torch.arange(n)
    return Data(
        x=torch_csr(features[order]),
        edge_index=edge_index,
        y=torch.from_numpy(labels[order]),
        train_mask=place < 140,  # 20 of each class
        val_mask=(place >= 140) & (place < 640),
        test_mask=place >= n - 1000,
        num_nodes=n,
    )


def _content(path: Path) -> tuple[np.ndarray, scipy.sparse.csr_matrix, np.ndarray]:
    """Number, words and class of each paper."""
    rows = [line.split("\t", 1) for line in path.read_text().splitlines()]
    columns = sum(len(entry.split("\t")) for entry in rows[0]) if rows else 0
    if len(rows) != 2708 or columns != 1435:
        raise ValueError(f"{path} has {len(rows)} rows, the first of {columns} entries; Cora has 2708 of 1435")
    words, names = zip(*(row[-1].rsplit("\t", 1) for row in rows))
    unknown = set(names) - set(CLASSES)
    if unknown:
        raise ValueError(f"{path} has the class {min(unknown)!r}, which is none of Cora's")
    bits = np.frombuffer("\t".join(words).encode(), np.uint8)[::2] - ord("0")  # single digits, a tab after each
    if len(bits) != 2708 * 1433 or bits.max() > 1:
        raise ValueError(f"{path} must say 0 or 1 for each of 1433 words in every row")
    papers = np.array([int(row[0]) for row in rows])
    features = scipy.sparse.csr_matrix(bits.reshape(2708, 1433).astype(np.float32))
    return papers, features, np.array([CLASSES.index(name) for name in names])


def _cites(path: Path, papers: np.ndarray) -> np.ndarray:
    """Citations between places in a list of papers, ``[2, citations]``."""
    pairs = np.loadtxt(path, dtype=np.int64, ndmin=2).T
    unknown = np.setdiff1d(pairs, papers)
    if len(unknown):
        raise ValueError(f"{path} names paper {unknown[0]}, which is not in cora.content")
    ranks = np.argsort(papers)
    return ranks[np.searchsorted(papers, pairs, sorter=ranks)]
