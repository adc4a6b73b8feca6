"""Builders of graphs from molecules and images, for machines that cannot download the official graphs."""

from __future__ import annotations

import importlib
from typing import Any


def import_optional(module: str, extra: str) -> Any:
    """Import a module of an optional dependency. The error names the extra of this package that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is not installed; run pip install '.[{extra}]'", name=error.name
        ) from error
