"""Fixtures of the tests of data."""

from __future__ import annotations

from types import SimpleNamespace

import pytest


@pytest.fixture
def impatient(monkeypatch):
    """Use a short timeout for downloads, and no delay between attempts."""
    monkeypatch.setattr("tgnn.data.download.http._TIMEOUT", 0.5)
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))
