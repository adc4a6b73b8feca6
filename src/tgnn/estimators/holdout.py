"""Which of the labelled examples choose the epoch."""

from __future__ import annotations

import numpy as np


def draw_holdout(strata: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Draws a share of the examples, every class in proportion. One example of each class is never drawn.

    Args:
        strata: Class of each example; all the same if there are none.
        fraction: Share to hold out, from 0 to below 1; 0: none.
        seed: Of the draw.

    Shapes:
        - **output:** boolean ``[N]``, true: held out

    Example:
        >>> held = draw_holdout(np.array([0] * 80 + [1] * 20), 0.1, seed=0)
        >>> int(held[:80].sum()), int(held[80:].sum())
        (8, 2)
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"validation_fraction is {fraction}, but must be a share: at least 0 and less than 1")
    held = np.zeros(len(strata), dtype=bool)
    if fraction == 0:
        return held
    random = np.random.RandomState(seed)
    order = random.permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]  # class after class, each in an order of its own
    first = np.unique(strata[order], return_index=True)[1]
    free = np.delete(order, first)
    count = min(max(1, round(fraction * len(strata))), len(free))
    if count == 0:
        each = f", one of each of {len(first)} classes," if len(first) > 1 else ""
        raise ValueError(
            f"{len(strata)} labelled examples{each} cannot spare one to choose the epoch by: label more (a train_mask "
            "counts), or set validation_fraction=0, which holds out none and chooses by what is learned from"
        )
    step = len(free) / count  # every class is met as often as it is large
    held[free[((np.arange(count) + random.random_sample()) * step).astype(np.int64)]] = True
    return held
