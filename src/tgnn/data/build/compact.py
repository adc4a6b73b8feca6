"""Packed arrays as small as they can be stored."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def one_way(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every edge once, for graphs that list all edges forward and then the same edges backward.

    Args:
        arrays: Packed graphs, ``directed``.

    Example:
        >>> both = {"num_edges": np.array([2, 0]), "edge_index": np.array([[0, 1], [1, 0]])}
        >>> one = one_way(both)
        >>> one["num_edges"].tolist(), one["edge_index"].tolist(), bool(one["directed"])
        ([1, 0], [[0], [1]], False)
    """
    count = np.asarray(arrays["num_edges"])
    within = np.arange(count.sum()) - np.repeat(count.cumsum() - count, count)
    forward = within < np.repeat(count // 2, count)
    edges = np.asarray(arrays["edge_index"])
    if not np.array_equal(edges[:, forward], edges[::-1, ~forward]):
        raise ValueError("edge_index must list the edges of a graph forward, then the same edges backward")
    stored = {name: array[forward] for name, array in arrays.items() if name == "edge_attr"}
    return {
        **arrays,
        **stored,
        "num_edges": count // 2,
        "edge_index": edges[:, forward],
        "directed": np.array(False),
    }


def smallest(array: np.ndarray) -> np.ndarray:
    """Integers from 0 on, in the smallest type that holds all of them.

    Example:
        >>> smallest(np.array([0, 255])).dtype
        dtype('uint8')
    """
    return array.astype(np.min_scalar_type(array.max(initial=0)))
