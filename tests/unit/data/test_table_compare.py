"""In what two encodings differ is said, the first thing first."""

from __future__ import annotations

from typing import Any

import pytest

from tgnn.data.tables.compare_encodings import first_difference

AGE = {"column": "age", "kind": "numeric", "width": 1}
TOWN = {"column": "town", "kind": "categorical", "vocabulary": ["Oslo", "Rome"]}
KNOWN = {"nodes": [AGE, TOWN], "edges": [], "largest_weight": 1.0, "schema": {"undirected": True}, "sparse": False}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, None),
        ({"sparse": True, "target": {"classes": ["x"]}, "schema": {}}, None),
        ({"nodes": [TOWN, AGE]}, "different order ('town' instead of 'age')"),
        ({"nodes": [AGE]}, "no column 'town' of nodes"),
        ({"nodes": [AGE, TOWN, AGE | {"column": "size"}]}, "a column 'size' of nodes"),
        ({"nodes": [AGE | {"width": 2}, TOWN]}, "'age' has the width 2 instead of 1"),
        ({"nodes": [AGE | {"kind": "tokens"}, TOWN]}, "'age' is encoded as 'tokens' instead of 'numeric'"),
        (
            {"nodes": [AGE, TOWN | {"vocabulary": ["Oslo", "Paris"]}]},
            "'town' has a different vocabulary ('Paris' is not in the training data)",
        ),
        ({"nodes": [AGE, TOWN | {"vocabulary": ["Oslo"]}]}, "'town' has a different vocabulary ('Rome' is missing)"),
        ({"nodes": [AGE, TOWN | {"vocabulary": ["Rome", "Oslo"]}]}, "'town' has its vocabulary in a different order"),
        ({"nodes": [AGE | {"mean": [2.0], "deviation": [4.0]}, TOWN]}, "'age' is standardized with mean 2 and"),
        ({"edges": [AGE]}, "a column 'age' of edges"),
        ({"largest_weight": 2.0}, "divided by 2 instead of 1"),
        ({"schema": {"undirected": False}}, "undirected: false instead of true"),
    ],
)
def test_the_first_difference_is_named(change: dict[str, Any], text: str | None) -> None:
    found = first_difference(KNOWN, KNOWN | change)
    assert found is None if text is None else text in str(found)


def test_a_mean_that_was_added_up_in_another_order_is_the_same() -> None:
    known, found = ({"nodes": [AGE | {"fill": fill}]} for fill in (1 / 3, 1 / 3 + 1e-12))
    assert first_difference(known, found) is None
