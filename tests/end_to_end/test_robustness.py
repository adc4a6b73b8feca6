"""Short runs of the measurements of docs/reliability.md."""

from __future__ import annotations

import pytest

from tests.robustness import measure


@pytest.mark.parametrize(("name", "count"), [("kills", 1), ("malformed", 25), ("poisoned", 12)])
def test_no_case_fails(name, count):
    tried, failures = measure(name, count)
    assert tried.total() == count
    assert not failures
