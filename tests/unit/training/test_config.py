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
    ("model", "hops"),
    [
        ({"name": "tgnn"}, 2),
        ({"name": "tgnn", "num_layers": 1}, 1),
        ({"name": "mixhop", "powers": [0, 1]}, 2),
        ({"name": "mixhop"}, 4),
        ({"name": "h2gcn"}, 4),
        ({"name": "appnp", "steps": "3"}, 3),
        ({"name": "gprgnn"}, 10),
    ],
)
def test_num_neighbors_has_one_entry_per_hop(model, hops):
    assert make_config({"model": model, "train": {"num_neighbors": [5] * hops}}).train.num_neighbors
    message = (
        f"num_neighbors is 5.*,5, but needs one number for each of the {hops} hops that {model['name']} aggregates"
    )
    with pytest.raises(ConfigError, match=message):
        make_config({"model": model, "train": {"num_neighbors": [5] * (hops + 1)}})
    with pytest.raises(ConfigError, match="node2vec trains on the whole graph; remove train.num_neighbors"):
        make_config({"model": {"name": "node2vec"}, "train": {"num_neighbors": [5, 5]}})


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
    assert one.hash == "61ae6b745a44", "stored results have this hash"
    for data in ({"positional_encoding": "random-walk"}, {"positional_channels": 3}, {"relative_positions": True}):
        assert one.hash != make_config({"data": data}).hash
