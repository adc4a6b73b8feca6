r"""Edges between superpixels, as in Dwivedi et al. (2020): from every node to the most similar nodes.

With :math:`d^p_{ij}` and :math:`d^c_{ij}` the distances of two nodes in position and in color, and :math:`\sigma_i`
the mean of the k smallest distances of node i (of each of the two), the similarity is

.. math:: w_{ij} = (a_{ij} + a_{ji}) / 2, \qquad
    a_{ij} = \exp(-(d^p_{ij} / \sigma^p_i)^2 - (d^c_{ij} / \sigma^c_i)^2)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from tgnn.utils.progress import bar

_PAIRS = 1 << 20  # pairs of nodes that are compared at a time; a few MB stay in the CPU cache


def superpixel_edges(arrays: Mapping[str, np.ndarray], k: int = 8) -> dict[str, np.ndarray]:
    """Add edges from each node to its ``k`` most similar nodes, the most similar first. ``edge_attr`` has similarities.

    The arrays are packed graphs with ``x`` and ``pos``, and with ``x_scale`` and ``pos_scale`` unless these are 1. Ties
    go to the node with the lower index. A graph with at most ``k`` nodes is complete. Graphs of the same size are
    processed together, so that there is no loop over graphs. The result has the position in the last columns of ``x``.

    Example:
        >>> arrays = {"num_nodes": np.array([3]), "x": np.zeros((3, 1)), "pos": np.array([[0, 0], [0, 1], [0, 3]])}
        >>> superpixel_edges(arrays, k=1)["edge_index"].tolist()
        [[0, 1, 2], [1, 0, 1]]
    """
    count = torch.from_numpy(np.asarray(arrays["num_nodes"]).astype(np.int64))
    position, color = (_unscaled(arrays, name) for name in ("pos", "x"))
    degree = (count - 1).clamp(min=0, max=k)
    first_node, first_edge = count.cumsum(0) - count, (count * degree).cumsum(0) - count * degree
    target = torch.empty(int((count * degree).sum()), dtype=torch.int32)
    weight = torch.empty(len(target), 1)
    with bar(f"connecting the superpixels of {len(count):,} images", len(count)) as tick:
        for size in torch.unique(count[count > 1]).tolist():
            for graphs in (count == size).nonzero().squeeze(1).split(max(1, _PAIRS // size**2)):
                nodes = first_node[graphs][:, None] + torch.arange(size)
                nearest, value = _most_similar(
                    position[0][nodes], position[1], color[0][nodes], color[1], min(k, size - 1)
                )
                edges = first_edge[graphs][:, None] + torch.arange(nearest[0].numel())
                target[edges] = nearest.flatten(1).int()
                weight[edges, 0] = value.flatten(1)
                tick(len(graphs))
    node = torch.arange(len(position[0])) - first_node.repeat_interleave(count)
    ends = torch.stack([node.int().repeat_interleave(degree.repeat_interleave(count)), target])
    others = {name: array for name, array in arrays.items() if name not in ("x", "pos", "x_scale", "pos_scale")}
    return {
        **others,
        "num_edges": (count * degree).numpy(),
        "edge_index": ends.numpy(),
        "edge_attr": weight.numpy(),
        "directed": np.array(True),
        "x": torch.cat([values * scale for values, scale in (color, position)], dim=1).numpy(),
    }


def _unscaled(arrays: Mapping[str, np.ndarray], name: str) -> tuple[Tensor, float]:
    """Return the stored features and their scale. Distances of integers are exact, and so are their ties."""
    scale = arrays.get(f"{name}_scale")
    return torch.from_numpy(np.asarray(arrays[name]).astype(np.float32)), 1.0 if scale is None else float(scale)


def _most_similar(
    position: Tensor, position_scale: float, color: Tensor, color_scale: float, k: int
) -> tuple[Tensor, Tensor]:
    """Find the ``k`` most similar nodes of each node and their similarity, both ``[graphs, nodes, k]``."""
    exponent = _relative(position, position_scale, k) + _relative(color, color_scale, k)
    one_sided = exponent.neg_().exp_()
    twice = one_sided + one_sided.transpose(1, 2)
    twice.diagonal(dim1=1, dim2=2).fill_(-1)
    # Non-negative floats have the order of their bits. The node index in the lower bits breaks ties.
    last = 0xFFFF
    key = (twice.view(torch.int32).long() << 16).add_(last - torch.arange(twice.size(2)))
    nearest = last - (key.topk(k, dim=2).values & last)
    return nearest, twice.gather(2, nearest) / 2


def _relative(values: Tensor, scale: float, k: int) -> Tensor:
    """Return the squared distances of all pairs, relative to the mean distance of each node's ``k`` nearest nodes."""
    columns = values.unbind(2)
    squares = (columns[0][:, :, None] - columns[0][:, None, :]).square_()
    for column in columns[1:]:
        squares += (column[:, :, None] - column[:, None, :]).square_()
    nearest = squares.topk(k + 1, dim=2, largest=False, sorted=False).values.sqrt_()  # the node itself adds 0
    width = nearest.sum(2, keepdim=True) * (scale / k) + 1e-8
    return squares.mul_((scale / width).square_())
