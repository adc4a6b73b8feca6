r"""Edges between superpixels as Dwivedi et al. (2020) choose them: from every node to its most similar others.

With :math:`d^p_{ij}` and :math:`d^c_{ij}` the distances of two nodes in position and in colour, and :math:`\sigma_i`
the mean of node i's k smallest ones of each kind, the similarity is

.. math:: w_{ij} = (a_{ij} + a_{ji}) / 2, \qquad
    a_{ij} = \exp(-(d^p_{ij} / \sigma^p_i)^2 - (d^c_{ij} / \sigma^c_i)^2)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from tgnn.data.build.compact import smallest

_PAIRS = 1 << 20  # of nodes that are compared at a time: a few MB, which stay in the cache


def superpixel_edges(
    arrays: Mapping[str, np.ndarray], k: int = 8, tick: Callable[[int], None] | None = None
) -> dict[str, np.ndarray]:
    """Packed graphs with edges from each node to its ``k`` most similar ones, the most similar first.

    Of equally similar ones, the node of the lower number comes first. A graph of no more than ``k`` nodes has all its
    edges. Graphs of the same size are worked on together, so that nothing loops over graphs.

    Args:
        arrays: Packed graphs with ``x`` and ``pos``, and ``x_scale`` and ``pos_scale`` where these are not 1.
        k: Edges from each node.
        tick: _Messages every now and then how many more graphs are done.

    Shapes:
        - ``x`` ``[nodes, colours + 2]``, colour then position; ``edge_index`` ``[2, k * nodes]``; ``edge_attr``
          ``[k * nodes, 1]``, the similarity

    Example:
        >>> arrays = {"num_nodes": np.array([3]), "x": np.zeros((3, 1)), "pos": np.array([[0, 0], [0, 1], [0, 3]])}
        >>> superpixel_edges(arrays, k=1)["edge_index"].tolist()
        [[0, 1, 2], [1, 0, 1]]
    """
    count = torch.from_numpy(np.asarray(arrays["num_nodes"]).astype(np.int64))
    position, colour = (_scaled(arrays, name) for name in ("pos", "x"))
    degree = (count - 1).clamp(min=0, max=k)
    first_node, first_edge = count.cumsum(0) - count, (count * degree).cumsum(0) - count * degree
    target = torch.empty(int((count * degree).sum()), dtype=torch.int32)
    weight = torch.empty(len(target), 1)
    for size in torch.unique(count[count > 1]).tolist():
        for graphs in (count == size).nonzero().squeeze(1).split(max(1, _PAIRS // size**2)):
            nodes = first_node[graphs][:, None] + torch.arange(size)
            near, value = _most_similar(position[0][nodes], position[1], colour[0][nodes], colour[1], min(k, size - 1))
            edges = first_edge[graphs][:, None] + torch.arange(near[0].numel())
            target[edges] = near.flatten(1).int()
            weight[edges, 0] = value.flatten(1)
            if tick is not None:
                tick(len(graphs))
    node = torch.arange(len(position[0])) - first_node.repeat_interleave(count)
    ends = torch.stack([node.int().repeat_interleave(degree.repeat_interleave(count)), target])
    others = {name: array for name, array in arrays.items() if name not in ("x", "pos", "x_scale", "pos_scale")}
    return {
        **others,
        "num_edges": (count * degree).numpy(),
        "edge_index": smallest(ends.numpy()),
        "edge_attr": weight.numpy(),
        "directed": np.array(True),
        "x": torch.cat([values * scale for values, scale in (colour, position)], dim=1).numpy(),
    }


def _scaled(arrays: Mapping[str, np.ndarray], name: str) -> tuple[Tensor, float]:
    """Features as they are stored, and their scale: distances of whole numbers are exact, and so are their ties."""
    scale = arrays.get(f"{name}_scale")
    return torch.from_numpy(np.asarray(arrays[name]).astype(np.float32)), 1.0 if scale is None else float(scale)


def _most_similar(
    position: Tensor, position_scale: float, colour: Tensor, colour_scale: float, k: int
) -> tuple[Tensor, Tensor]:
    """The ``k`` most similar nodes of each, and how similar they are, ``[graphs, nodes, k]``.

    Args:
        position: Of the nodes of graphs of one size, ``[graphs, nodes, 2]``.
        position_scale: What to multiply it by.
        colour: ``[graphs, nodes, colours]``.
        colour_scale: What to multiply it by.
        k: How many; fewer than there are nodes.
    """
    exponent = _relative(position, position_scale, k) + _relative(colour, colour_scale, k)
    one_way = exponent.neg_().exp_()
    twice = one_way + one_way.transpose(1, 2)
    twice.diagonal(dim1=1, dim2=2).fill_(-1)
    # What is not negative is ordered as its bits are; below these the number of the node settles ties.
    last = 0xFFFF
    key = (twice.view(torch.int32).long() << 16).add_(last - torch.arange(twice.size(2)))
    near = last - (key.topk(k, dim=2).values & last)
    return near, twice.gather(2, near) / 2


def _relative(values: Tensor, scale: float, k: int) -> Tensor:
    """Squared distances of all pairs, in units of each node's own width."""
    columns = values.unbind(2)
    squares = (columns[0][:, :, None] - columns[0][:, None, :]).square_()
    for column in columns[1:]:
        squares += (column[:, :, None] - column[:, None, :]).square_()
    nearest = squares.topk(k + 1, dim=2, largest=False, sorted=False).values.sqrt_()  # the node itself adds 0
    width = nearest.sum(2, keepdim=True) * (scale / k) + 1e-8
    return squares.mul_((scale / width).square_())
