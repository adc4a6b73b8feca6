"""Splits: named, seeded, hashed, and disjoint, also for data with unlabeled examples and for small data."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from torch import Tensor

from tgnn.data import GraphDataset, Split, load
from tgnn.data.dataset_info import infer_dataset_info
from tgnn.data.splits import (
    choose_split,
    fold,
    from_column,
    from_masks,
    per_class_quota,
    protocols,
    published_fold,
    stratified,
)

Y = torch.tensor([0] * 100 + [1] * 60 + [2] * 40)[torch.randperm(200, generator=torch.Generator().manual_seed(0))]
RANDOM = [per_class_quota, stratified]
RINGS = ["C1CC1", "c1ccccc1", "C1CCC1", "C1CCCC1", "CCO", "C1CCCCC1", "c1ccncc1", "c1ccoc1", "c1ccsc1", "C1CCNC1"]


def sets(split: Split) -> list[list[int]]:
    return [part.tolist() for part in (split.train, split.val, split.test)]


def everyone(split: Split) -> list[int]:
    return torch.cat([split.train, split.val, split.test]).sort().values.tolist()


def graphs(y, **attributes) -> GraphDataset:
    count = len(y)
    arrays = {"num_nodes": [1] * count, "num_edges": [0] * count, "edge_index": np.zeros((2, 0), int), "y": y}
    data = GraphDataset(arrays | {"split": attributes.pop("split", np.arange(count) % 3)})
    for name, value in attributes.items():
        setattr(data, name, value)
    data.info = infer_dataset_info(data, "mine", "")
    return data


@pytest.mark.parametrize("draw", RANDOM)
@hypothesis.given(labels=st.lists(st.integers(0, 4), min_size=10, max_size=80), seed=st.integers(0, 2**31 - 1))
@hypothesis.settings(deadline=None, max_examples=40)
def test_every_example_is_in_exactly_one_set(draw, labels, seed):
    split = draw(torch.tensor(labels), seed)
    assert everyone(split) == list(range(len(labels)))
    assert torch.stack(split.masks()).sum(0).tolist() == [1] * len(labels)


def test_per_class_quota_draws_the_same_number_from_each_class():
    split = per_class_quota(Y, seed=0)
    assert torch.bincount(Y[split.train]).tolist() == [40, 40, 40]  # 0.6 * 200 / 3
    assert len(split.val) == 40
    assert 2 not in Y[torch.cat([split.val, split.test])].tolist()  # all of the smallest class is in the training set


def test_stratified_keeps_the_class_distribution():
    split = stratified(Y, seed=0)
    for part, share in ((split.train, 0.6), (split.val, 0.2), (split.test, 0.2)):
        assert torch.bincount(Y[part]).tolist() == [round(share * n) for n in (100, 60, 40)]
    assert [len(part) for part in sets(stratified(torch.randint(2, (50, 3)), seed=0))] == [30, 10, 10]


@pytest.mark.parametrize("rare", [[2], [2, 3], [2, 2, 2]])
def test_a_rare_class_does_not_change_the_distribution_of_others(rare):
    y = torch.tensor([0] * 900 + [1] * 100 + rare)
    for seed in range(4):
        split = stratified(y, seed)
        found = [int((y[getattr(split, part)] == 1).sum()) for part in ("train", "val", "test")]
        assert found == pytest.approx([60, 20, 20], abs=1)


def test_folds_cover_all_examples_once():
    folds = [fold(Y, number) for number in range(10)]
    assert torch.cat([f.test for f in folds]).sort().values.tolist() == list(range(200))
    assert len({f.hash for f in folds}) == 10
    for one in folds:
        assert torch.bincount(Y[one.test]).tolist() == [10, 6, 4]
        assert len(one.val) == 18
    again = fold(Y, 13)
    assert (again.name, again.seed) == (folds[3].name, 1)
    assert again.hash != folds[3].hash
    published = published_fold(Y, [[0, 5, 7], [1, 2]], seed=1)
    assert (published.name, published.test.tolist()) == ("published-fold-1-of-2", [1, 2])


def test_stored_splits():
    split = from_column(["train", "Validation", "test", None, "", "0", 2])
    assert sets(split) == [[0, 5], [1], [2, 6]]
    assert split.size == 7
    assert from_masks("public", *split.masks()).hash == split.hash


def test_the_hash_does_not_depend_on_the_order_of_the_indices():
    parts = [torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3])]
    split = Split("a", None, 4, *parts)
    assert Split("b", 1, 4, parts[0].flip(0), *parts[1:]).hash == split.hash
    assert Split("a", None, 5, *parts).hash != split.hash
    assert Split("a", None, 4, parts[0], parts[2], parts[1]).hash != split.hash


def make(*parts: list[float]) -> Split:
    return Split("x", None, 3, *(torch.tensor(part, dtype=None if part else torch.int64) for part in parts))


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (make, ([0, 1], [1], []), "example 1 occurs twice"),
        (make, ([0, 1], [], [3]), "test contains an index outside of 0 to 2"),
        (make, ([0.0, 1.0], [1], []), "train must be a one-dimensional int64 tensor"),
        (per_class_quota, (torch.rand(5), 0), "per-class-quota needs one class per example"),
        (fold, (torch.rand(5), 0), "stratified folds need one class per example"),
        (fold, (torch.arange(20) % 10, 0), "10 folds need a class with at least 10 examples"),
        (from_column, (["train", "exam"],), "row 1 of the split column is 'exam'"),
    ],
)
def test_invalid_input_is_named(function, arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        function(*arguments)


# ---- protocols by name -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [torch.tensor([0, 1] * 30), torch.arange(60.0), torch.rand(60, 2)])
def test_unlabeled_examples_are_in_no_set_of_any_protocol(y: Tensor):
    y[[4, 17]] = float("nan") if y.is_floating_point() else -1
    data = graphs(y.numpy(), test_folds=[list(range(i, 60, 10)) for i in range(10)], smiles=RINGS * 6)
    expected = ["column", "scaffold", "stratified", "published-fold"]
    expected += [] if y.is_floating_point() else ["per-class-quota", "fold"]
    assert set(protocols(data)) == set(expected)
    for name in expected:
        assert everyone(choose_split(data, name, 3)) == sorted({*range(60)} - {4, 17}), name


def test_protocols_of_one_seed_are_repeatable():
    data = load("digits")
    for draw in protocols(data).values():
        assert draw(1).hash == draw(1).hash != draw(2).hash
    whole = choose_split(data, "fold", 13)
    data.y[0] = -1
    assert choose_split(data, "fold", 13).seed == whole.seed == 1


def test_a_protocol_with_a_smaller_training_set():
    data = load("digits-graphs")
    whole, part = (choose_split(data, name, 3) for name in ("stratified", "stratified:100"))
    assert (part.name, part.seed, len(part.train)) == ("stratified:100", 3, 100)
    assert set(part.train.tolist()) < set(whole.train.tolist())
    assert torch.equal(torch.cat([part.val, part.test]), torch.cat([whole.val, whole.test]))
    assert torch.bincount(data.y[part.train]).min() > 5
    assert choose_split(data, "stratified:100", 3).hash == part.hash != choose_split(data, "stratified:100", 4).hash
    assert choose_split(data, "stratified:99999", 3).name == "stratified"
    for name in ("stratified:", "stratified:0", "stratified:many", "public:100"):
        with pytest.raises(ValueError, match=f"no split '{name}'; .* as in per-class-quota:20000"):
            choose_split(data, name)


def test_data_that_cannot_be_split():
    with pytest.raises(ValueError, match="no split 'public'; available are per-class-quota, stratified, fold"):
        load("digits", split="public")
    data = graphs(np.full(12, -1))
    with pytest.raises(ValueError, match="no example has a label"):
        choose_split(data, "stratified")
    unlabeled = GraphDataset({"num_nodes": [1, 2]})
    unlabeled.info = data.info
    with pytest.raises(ValueError, match="mine has no labels and cannot be split"):
        choose_split(unlabeled, "stratified")


def test_small_data_and_molecules_are_split():
    assert everyone(choose_split(graphs(np.arange(20) % 10), "stratified")) == list(range(20))
    assert everyone(choose_split(load("karate"), "fold", 3)) == list(range(34))
    split = choose_split(graphs(np.zeros(20), smiles=RINGS * 2), "scaffold")
    assert [len(part) for part in sets(split)] == [16, 2, 2]
    with pytest.raises(ValueError, match="the scaffold split would have 0, 0 and 12 molecules"):
        choose_split(graphs(np.zeros(12), smiles=["C" * (i + 1) for i in range(12)]), "scaffold")
