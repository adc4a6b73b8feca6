r"""Generator of large synthetic graphs with properties of real graphs.

- Degrees follow a power law: node i is drawn with a weight :math:`w_i`, :math:`P(w > t) = t^{1 - \gamma}`, where
  :math:`w_i` is at most the square root of the number of nodes.
- Nodes belong to groups. With probability :math:`p` an edge stays within the group of its first node, else its second
  node is any node. (Hubs have fewer edges within their group: :math:`p \min(1, w_{max} / w_i)`.)
- A node has hidden positive factors :math:`z_1, ..., z_R` with a log-normal distribution. Its location and scale are
  those of the group of the node:

  .. math:: \log z_r(u) = \mu_{r, g(u)} + \sigma_{r, g(u)} \, n - \sigma_{r, g(u)}^2 / 2, \quad n \sim N(0, 1) .

  The features are :math:`z - 1` and noise, multiplied by an orthonormal matrix. Each factor is linear in the features.
- The label depends on products of factors over the closed neighborhood :math:`S(v)`, as in the CP layer (Def. 1):

  .. math:: y_v = \arg\max_c \sum_r M_{cr} \Big(\log \big(\prod_{u \in S(v)} z_r(u)\big)^{1 / |S(v)|} - m_r\Big) / d_r

  where :math:`m_r, d_r` are the mean and standard deviation of :math:`\mu_r - \sigma_r^2 / 2` over the groups. The mean
  over the neighbors estimates :math:`\mu` only (the mean of a factor is :math:`e^\mu`), which is about half of the
  signal. The product contains the whole signal. The features of a single node contain little of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from tgnn.data.dataset_info import DatasetInfo
from tgnn.data.on_disk.writer import GraphWriter
from tgnn.ops.graph import CompressedEdges
from tgnn.utils.progress import bar

GAMMA = 2.6
"""Exponent of the power law of degrees."""
WITHIN = 0.7
"""Probability that an edge stays within a group."""
GROUP = 2000
"""Number of nodes of a group; smaller if there would be fewer than two groups per class."""
FACTORS = 4
"""Number of hidden factors, R."""
SHIFT, SPREAD = (-0.6, 0.6), (0.1, 1.4)
"""Minimum and maximum of mu and of sigma."""
NOISE = 0.3
"""Standard deviation of the noise features."""
TRAIN, VAL = 0.08, 0.02
"""Fractions of nodes in the training and validation sets, about those of ogbn-products. The rest is the test set."""

_STEP = 1 / 24
_PAIRS_AT_ONCE = 2**20
_NODES_AT_ONCE = 2**15


def generate(
    folder: Path | str,
    nodes: int,
    edges: int,
    features: int = 100,
    classes: int = 47,
    seed: int = 0,
    *,
    overwrite: bool = False,
) -> None:
    """Write a synthetic graph for :class:`~tgnn.data.on_disk.DiskGraph`.

    The graph is undirected and has no self-loops and no duplicate edges. The same arguments give the same files.

    Args:
        folder: Folder to create.
        nodes: Number of nodes.
        edges: Approximate number of directed edges. Removing duplicates takes away a few percent.
        features: Number of features per node.
        classes: Number of classes.
        seed: Random seed.
        overwrite: Whether to replace an existing graph.

    Example:
        >>> folder = getfixture("tmp_path") / "toy"
        >>> generate(folder, 1000, 10_000, features=16, classes=4)
        >>> from tgnn.data import load
        >>> load(folder).split
        Split('generated', train=80, val=20, test=900, hash=...)
    """
    for what, value, least in (("classes", classes, 2), ("features", features, 2), ("edges", edges, 0)):
        if value < least:
            raise ValueError(f"{what} is {value}, but must be at least {least}.")
    if nodes < 8 * classes:
        raise ValueError(f"{classes} classes need at least {8 * classes} nodes, got {nodes}.")
    plan = _Plan(nodes, edges, features, classes, seed)
    name = Path(folder).name
    info = DatasetInfo(
        name, "node", "classification", "accuracy", classes, "", f"generated with seed {seed}", "generated"
    )
    row = 4 * features + 9
    with GraphWriter(
        folder, nodes, num_edges=edges, row_bytes=row, info=info, merge=True, overwrite=overwrite
    ) as writer:
        with bar(f"{name}: drawing {edges:,} edges", edges) as tick:
            for source, target in plan.pairs(edges // 2):
                writer.add_edges(source, target)
                writer.add_edges(target, source)
                tick(2 * len(source))
        in_edges = writer.sort_edges()
        with bar(f"{name}: writing {nodes:,} nodes", nodes) as tick:
            for begin in range(0, nodes, _NODES_AT_ONCE):
                end = min(begin + _NODES_AT_ONCE, nodes)
                writer.add_nodes(plan.rows(begin, end), plan.labels(in_edges, begin, end), plan.parts[begin:end])
                tick(end - begin)


class _Plan:
    """Random parameters of the graph. The arguments are those of :func:`generate`."""

    def __init__(self, nodes: int, edges: int, features: int, classes: int, seed: int) -> None:
        self.seed = seed
        random = np.random.default_rng([seed, 0])
        self.size = max(1, min(GROUP, nodes // (2 * classes)))
        self.place = random.permutation(nodes)
        """Nodes in an order in which those of a group are consecutive."""
        self.group = np.empty(nodes, dtype=np.int32)
        self.group[self.place] = np.arange(nodes) // self.size
        weight = np.minimum((1 - random.random(nodes)) ** (-1 / (GAMMA - 1)), np.sqrt(nodes))
        # Two nodes with the largest weight within a group have about one common edge.
        largest = weight.mean() * np.sqrt(self.size * nodes / (WITHIN * max(edges, 1)))
        self.weight, self.near = np.cumsum(weight), np.cumsum(np.minimum(weight, largest))
        """Cumulative sums of the weights of ``place``: in the graph, and within a group."""
        shape = (-(-nodes // self.size), min(FACTORS, features))
        spread, shift = (random.uniform(*ends, shape) for ends in (SPREAD, SHIFT))
        logs = shift - spread**2 / 2
        mix = random.standard_normal((classes, logs.shape[1]))
        mix /= np.linalg.norm(mix, axis=1, keepdims=True) * logs.std(axis=0)
        self.mix, self.middle = mix.astype(np.float32), logs.mean(axis=0)
        """M divided by the standard deviations d, and the means m."""
        self.turn = np.linalg.qr(random.standard_normal((features, features)))[0].astype(np.float32)
        """Orthonormal matrix from factors and noise to features."""
        self.parts = np.full(nodes, 3, dtype=np.uint8)
        order = random.permutation(nodes)
        train, val = round(TRAIN * nodes), round(VAL * nodes)
        self.parts[order[:train]], self.parts[order[train : train + val]] = 1, 2
        self.factors = np.empty((nodes, logs.shape[1]), dtype=np.int8)
        """Logarithms of the factors of each node, in steps of ``_STEP``."""
        for begin in range(0, nodes, _NODES_AT_ONCE):
            of = self.group[begin : begin + _NODES_AT_ONCE]
            drawn = spread[of] * random.standard_normal((len(of), logs.shape[1])) + logs[of]
            self.factors[begin : begin + len(of)] = np.rint(drawn / _STEP).clip(-127, 127)

    def pairs(self, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield blocks of edges, each edge in one direction."""
        total, nodes = self.weight[-1], len(self.place)
        for block, begin in enumerate(range(0, count, _PAIRS_AT_ONCE)):
            random = np.random.default_rng([self.seed, 1, block])
            number = min(_PAIRS_AT_ONCE, count - begin)
            # Sorted, because searchsorted is much faster then. The second node does not depend on this order.
            gaps = random.exponential(size=number + 1).cumsum()
            one = np.searchsorted(self.weight, gaps[:-1] * (total / gaps[-1]), side="right")
            stays = random.random(number) * _at(self.weight, one) < WITHIN * _at(self.near, one)
            other = np.empty(number, dtype=np.int64)
            other[~stays] = np.searchsorted(self.weight, random.random(number - stays.sum()) * total, side="right")
            first = one[stays] - one[stays] % self.size
            low = np.where(first > 0, self.near[first - 1], 0)
            high = self.near[np.minimum(first + self.size, nodes) - 1]
            other[stays] = np.searchsorted(self.near, low + random.random(len(first)) * (high - low), side="right")
            np.minimum(other, nodes - 1, out=other)
            kept = one != other
            yield self.place[one[kept]], self.place[other[kept]]

    def rows(self, begin: int, end: int) -> np.ndarray:
        """Return the features of consecutive nodes. ``begin`` is a multiple of the block size."""
        random = np.random.default_rng([self.seed, 2, begin])
        plain = random.standard_normal((end - begin, len(self.turn)), dtype=np.float32)
        plain *= np.float32(NOISE)
        plain[:, : self.factors.shape[1]] = np.expm1(self.factors[begin:end] * np.float32(_STEP))
        return np.asarray(plain @ self.turn)

    def labels(self, in_edges: CompressedEdges, begin: int, end: int) -> np.ndarray:
        """Return the labels of consecutive nodes by the equation of the module docstring."""
        ptr = in_edges.ptr[begin : end + 1]
        source = in_edges.index[int(ptr[0]) : int(ptr[-1])].numpy()
        messages = torch.from_numpy(self.factors[source].astype(np.float32))
        sums = torch.segment_reduce(messages, "sum", offsets=ptr - ptr[0], axis=0, unsafe=True).numpy()
        sums += self.factors[begin:end]
        mean = sums * np.float32(_STEP) / (ptr.diff().numpy()[:, None] + 1)
        return np.asarray(np.argmax((mean - self.middle) @ self.mix.T, axis=1))


def _at(running: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return single terms of a cumulative sum."""
    return np.asarray(running[place] - np.where(place > 0, running[place - 1], 0))
