"""Splits by name, for data with gaps and for data that is too small."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tgnn.data import GraphDataset, load
from tgnn.data.dataset_info import infer_dataset_info
from tgnn.data.split_protocols import choose_split, protocols


def graphs(y, **more) -> GraphDataset:
    count = len(y)
    arrays = {"num_nodes": [1] * count, "num_edges": [0] * count, "edge_index": np.zeros((2, 0), int), "y": y}
    found = GraphDataset(arrays | more)
    found.info = infer_dataset_info(found, "mine", "")
    return found


def everyone(split) -> list[int]:
    return sorted(torch.cat([split.train, split.val, split.test]).tolist())


def test_unlabeled_examples_are_in_no_part_of_any_protocol():
    y = np.array([0, 1] * 30)
    y[[4, 17]] = -1
    data = graphs(y, split=np.arange(60) % 3)
    data.test_folds = [list(range(i, 60, 10)) for i in range(10)]
    data.smiles = ["C1CC1", "c1ccccc1", "C1CCC1", "C1CCCC1", "CCO", "C1CCCCCC1"] * 10
    assert set(protocols(data)) == {"column", "scaffold", "per-class-quota", "stratified", "fold", "published-fold"}
    for name in protocols(data):
        if name != "scaffold":
            assert not {4, 17} & set(everyone(choose_split(data, name, 3))), name
    assert len(everyone(choose_split(data, "column"))) == 58


def test_numbers_that_are_missing_are_in_no_part():
    y = np.arange(30.0)
    y[5] = np.nan
    data = graphs(y, split=np.arange(30) % 3)
    assert 5 not in everyone(choose_split(data, "column"))
    assert 5 not in everyone(choose_split(data, "stratified"))


def test_own_data_in_a_folder_with_a_name_of_the_catalog_keeps_its_own_split(tmp_path):
    folder = tmp_path / "cora"
    folder.mkdir()
    parts = ["train", "val", "test"]
    rows = [f"{i},{i},{'ab'[i % 2]},{parts[i % 3]}" for i in range(12)]
    (folder / "nodes.csv").write_text("\n".join(["id,x,label,split", *rows]))
    (folder / "edges.csv").write_text("source,target\n0,1\n2,3\n")
    assert load(folder).split.name == "column"
    assert load(folder, split="stratified").split.name == "stratified"


def test_small_data_is_split_as_well_as_it_can_be():
    data = graphs(np.arange(20) % 10)
    assert len(everyone(choose_split(data, "stratified"))) == 20
    with pytest.raises(ValueError, match="10 folds need a class with at least 10 examples"):
        choose_split(data, "fold")
    karate = load("karate")
    assert len(everyone(choose_split(karate, "fold", 3))) == 34


def test_molecules_that_are_all_alike_have_no_scaffold_split():
    data = graphs(np.zeros(12))
    data.smiles = ["C" * (i + 1) for i in range(12)]
    with pytest.raises(ValueError, match="the scaffold split would have 0, 0 and 12 molecules"):
        choose_split(data, "scaffold")


def test_the_seed_of_a_fold_does_not_depend_on_missing_labels():
    data = load("digits")
    whole = choose_split(data, "fold", 13)
    data.y[0] = -1
    assert choose_split(data, "fold", 13).seed == whole.seed
