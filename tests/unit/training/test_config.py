"""Configurations: which options are accepted, how errors name them, and what the hash depends on."""

from __future__ import annotations

import pytest

from tgnn.training.config import Config, ConfigError, make_config, with_options


def test_every_option_has_a_description():
    for section in Config.model_fields.values():
        for name, field in section.annotation.model_fields.items():
            assert field.description, name


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"optimizer": {"lrr": 1}}, "unknown option optimizer.lrr; did you mean optimizer.lr?"),
        ({"train": {"lr": 1}}, "unknown option train.lr; did you mean optimizer.lr?"),
        ({"train": {"zzzzzz": 1}}, "unknown option train.zzzzzz; train has seed, epochs"),
        ({"optimiser": {"lr": 1}}, "unknown section 'optimiser'; the sections are data, model, optimizer, train"),
        ({"optimizer": {"lr": -1}}, "optimizer.lr is -1, but it should be greater than 0"),
        ({"train": {"epochs": "many"}}, "train.epochs is 'many', but it should be a valid integer"),
        ({"train": {"precision": "float8"}}, "train.precision is 'float8', but it should be 'float32'"),
        ({"train": {"epochs": True}}, "train.epochs is True, but it should not be true or false"),
        ({"train": {"num_neighbors": "5,x"}}, "train.num_neighbors is '5,x', but it should be integers separated"),
        ({"model": {"hidden_channels": True}}, "model.hidden_channels is True, but it should not"),
    ],
)
def test_errors_name_the_option_and_what_is_allowed(sections, message):
    with pytest.raises(ConfigError, match=message):
        make_config(sections)


@pytest.mark.parametrize(
    ("model", "hops", "message"),
    [
        ({"name": "tgnn"}, 2, "num_neighbors is 5,5,5, but tgnn with 2 layers needs 2 numbers, e.g. --sample 10,5"),
        ({"name": "tgnn", "num_layers": 1}, 1, "tgnn with 1 layer needs 1 number, e.g. --sample 10"),
        ({"name": "mixhop", "powers": [0, 1]}, 2, "mixhop with 2 layers needs 2 numbers"),
        ({"name": "mixhop"}, 4, "mixhop aggregates 4 hops and needs 4 numbers, e.g."),
        ({"name": "h2gcn"}, 4, "h2gcn aggregates 4 hops and needs 4 numbers"),
        ({"name": "appnp", "steps": "3"}, 3, "appnp aggregates 3 hops and needs 3 numbers, e.g. --sample 10,5,2"),
        ({"name": "gprgnn"}, 10, "gprgnn aggregates 10 hops"),
        ({"name": "node2vec"}, 0, "node2vec trains on the whole graph; remove train.num_neighbors"),
    ],
)
def test_num_neighbors_has_one_entry_per_hop(model, hops, message):
    with pytest.raises(ConfigError, match=message):
        make_config({"model": model, "train": {"num_neighbors": [5] * (hops + 1)}})
    if hops:
        assert make_config({"model": model, "train": {"num_neighbors": [5] * hops}}).train.num_neighbors


def test_single_options():
    assert with_options({}, {"train.seed": 3}) == {"train": {"seed": 3}}
    for key in ("rank", "modle.rank", "rnak"):
        with pytest.raises(ConfigError, match=f"unknown option '{key}'.*e.g. model.rank"):
            with_options({}, {key: 3}, ["model.rank"])
    with pytest.raises(ConfigError, match=r"unknown option 'lr'; .*e\.g\. optimizer\.lr"):
        with_options({}, {"lr": 3})


def test_the_hash_depends_on_results_not_on_locations():
    one = make_config({"data": {"root": "here"}})
    assert one.hash == make_config({"data": {"root": "there", "offline": True}}).hash == make_config({}).hash
    assert one.hash == make_config({"train": {"select_by": "metric", "prior_correction": "none", "workers": 2}}).hash
    for train in ({"seed": 1}, {"select_by": "loss"}, {"prior_correction": "validation"}):
        assert one.hash != make_config({"train": train}).hash
    assert one.hash != make_config({"model": {"rank": 3}}).hash
