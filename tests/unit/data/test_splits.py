"""Splits: named, seeded, hashed, and never overlapping."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest
import torch

from tgnn.data.splits import (
    Split,
    fold,
    from_column,
    from_masks,
    per_class_quota,
    published_fold,
    stratified,
)

Y = torch.tensor([0] * 100 + [1] * 60 + [2] * 40)[torch.randperm(200, generator=torch.Generator().manual_seed(0))]


DRAWN = {"per-class-quota": per_class_quota, "stratified": stratified}


@pytest.mark.parametrize("name", list(DRAWN))
def test_the_same_seed_gives_the_same_split_and_another_seed_another(name):
    first, again, other = (DRAWN[name](Y, seed) for seed in (3, 3, 4))
    assert first.name == name
    assert first.hash == again.hash != other.hash
    assert torch.equal(first.train, again.train)
    assert len(first.hash) == 16


@pytest.mark.parametrize("name", list(DRAWN))
@hypothesis.given(labels=st.lists(st.integers(0, 4), min_size=10, max_size=80), seed=st.integers(0, 2**31 - 1))
@hypothesis.settings(deadline=None, max_examples=40)
def test_nothing_leaks_and_nothing_is_lost(name, labels, seed):
    split = DRAWN[name](torch.tensor(labels), seed)
    everyone = torch.cat([split.train, split.val, split.test])
    assert everyone.sort().values.tolist() == list(range(len(labels)))
    assert torch.stack(split.masks()).sum(0).tolist() == [1] * len(labels)


def test_per_class_quota_takes_as_many_of_each_class():
    split = per_class_quota(Y, seed=0)
    assert torch.bincount(Y[split.train]).tolist() == [40, 40, 40]  # 0.6 * 200 / 3
    assert len(split.val) == 40
    assert 2 not in Y[torch.cat([split.val, split.test])].tolist()  # the smallest class is learned whole


def test_stratified_keeps_the_shares():
    split = stratified(Y, seed=0)
    for part, share in ((split.train, 0.6), (split.val, 0.2), (split.test, 0.2)):
        assert torch.bincount(Y[part]).tolist() == [round(share * n) for n in (100, 60, 40)]
    many_labels = stratified(torch.randint(2, (50, 3)), seed=0)
    assert (len(many_labels.train), len(many_labels.val), len(many_labels.test)) == (30, 10, 10)


def test_folds_cover_everything_once_and_choose_from_the_rest():
    folds = [fold(Y, number) for number in range(10)]
    assert torch.cat([f.test for f in folds]).sort().values.tolist() == list(range(200))
    assert len({f.hash for f in folds}) == 10
    for one in folds:
        assert torch.bincount(Y[one.test]).tolist() == [10, 6, 4]
        assert len(one.val) == 18
    published = published_fold(Y, [[0, 5, 7], [1, 2]], number=1)
    assert published.test.tolist() == [1, 2]
    assert published.name == "published-fold-1-of-2"


def test_given_splits():
    split = from_column(["train", "Validation", "test", None, "", "0", 2])
    assert [p.tolist() for p in (split.train, split.val, split.test)] == [[0, 5], [1], [2, 6]]
    assert split.size == 7
    masks = from_masks("public", *split.masks())
    assert masks.hash == split.hash


def test_the_hash_does_not_depend_on_the_order_of_the_indices():
    parts = [torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3])]
    split = Split("a", None, 4, *parts)
    assert Split("b", 1, 4, parts[0].flip(0), *parts[1:]).hash == split.hash
    assert Split("a", None, 5, *parts).hash != split.hash
    assert Split("a", None, 4, parts[0], parts[2], parts[1]).hash != split.hash


def test_wrong_input_is_named():
    a, b = torch.tensor([0, 1]), torch.tensor([1])
    with pytest.raises(ValueError, match="example 1 occurs twice"):
        Split("x", None, 3, a, b, b[:0])
    with pytest.raises(ValueError, match="test contains an index outside of 0 to 2"):
        Split("x", None, 3, a, b[:0], torch.tensor([3]))
    with pytest.raises(TypeError, match="train must be a one-dimensional int64 tensor"):
        Split("x", None, 3, a.float(), b, b)
    with pytest.raises(ValueError, match="per-class-quota needs one class per example"):
        per_class_quota(torch.rand(5), seed=0)
    with pytest.raises(ValueError, match="train and val are 0.9 and 0.2"):
        stratified(Y, seed=0, train=0.9, val=0.2)
    with pytest.raises(ValueError, match="fold 10 is not one of 0 to 9"):
        fold(Y, 10)
    with pytest.raises(ValueError, match="row 1 of the split column is 'exam'"):
        from_column(["train", "exam"])


@pytest.mark.parametrize("rare", [[2], [2, 3], [2, 2, 2]], ids=["one", "two of one", "three"])
def test_a_rare_class_does_not_spoil_the_shares_of_others(rare):
    y = torch.tensor([0] * 900 + [1] * 100 + rare)
    for seed in range(4):
        split = stratified(y, seed)
        found = [int((y[getattr(split, part)] == 1).sum()) for part in ("train", "val", "test")]
        assert found == pytest.approx([60, 20, 20], abs=1)
