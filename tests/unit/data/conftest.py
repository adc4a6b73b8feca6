"""Fixtures of the tests of data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

SHARED = Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture
def impatient(monkeypatch):
    """Do not wait between attempts of a download."""
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """Return the path of real data, or skip the test. Real data is not part of the project."""

    def find(path: str) -> Path:
        if not (SHARED / path).exists():
            pytest.skip(f"needs real data in ../shared/data/{path}, not part of the project")
        return SHARED / path

    return find
