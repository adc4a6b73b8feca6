"""Packages that only some builders need: imported when they are used, and named when they are missing."""

from __future__ import annotations

import importlib
from typing import Any


def load(module: str, extra: str) -> Any:
    """The module, or an error that says what to install.

    Args:
        module: Such as ``"rdkit.Chem"``.
        extra: The extra of this package that brings it.

    Example:
        >>> load("math", "molecules").floor(1.5)
        1
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is not installed: pip install tgnn[{extra}]", name=error.name
        ) from error
