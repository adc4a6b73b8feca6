"""The hold-out is stratified, and leaves one example of each class for training."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from tgnn.estimators.targets import draw_holdout


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_shares_and_what_is_kept(fraction, seed):
    strata = np.random.RandomState(seed).choice(5, p=[0.5, 0.3, 0.15, 0.04, 0.01], size=300)
    held = draw_holdout(strata, fraction, seed)
    assert np.array_equal(draw_holdout(strata, fraction, seed), held)
    assert not np.array_equal(draw_holdout(strata, fraction, seed + 1), held)
    classes, sizes = np.unique(strata, return_counts=True)
    assert held.sum() == round(fraction * 300)
    for value, size in zip(classes, sizes):
        taken = held[strata == value].sum()
        assert taken < size
        assert abs(taken - fraction * (size - 1) * 300 / (300 - len(classes))) < 1.01  # one of each is set aside


@pytest.mark.parametrize("strata", [np.array([0] * 30 + [1] * 20 + [2] * 9 + [3]), np.arange(70) % 10])
def test_class_sizes_that_scikit_learn_rejects(strata):
    """This is why the hold-out is not scikit-learn's."""
    with pytest.raises(ValueError, match="too few|greater or equal to the number of classes"):
        train_test_split(strata, test_size=0.1, stratify=strata, random_state=0)
    held = draw_holdout(strata, 0.1, 0)
    assert held.sum() == round(0.1 * len(strata))
    assert set(strata[~held]) == set(strata)
