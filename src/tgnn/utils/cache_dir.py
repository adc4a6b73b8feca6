"""The cache folder: compiled kernels, downloaded and prepared data sets."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the cache folder: ``$TGNN_CACHE_DIR``, or the folder ``tgnn`` in the platform's cache folder.

    The latter is ``~/.cache/tgnn`` on Linux (or below ``$XDG_CACHE_HOME``) and ``~/Library/Caches/tgnn`` on macOS.
    The function raises a ``RuntimeError`` if it cannot find the home directory.
    """
    if chosen := os.environ.get("TGNN_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path  # 15 ms, which `import tgnn` need not take

    folder = user_cache_path("tgnn", appauthor=False)
    if not folder.is_absolute():  # old versions of platformdirs return ~/.cache as it is
        raise RuntimeError("The home directory could not be determined. Set TGNN_CACHE_DIR.")
    return folder


def make_cache_dir() -> Path:
    """Create the cache folder if it is missing, readable by this user only, and return it."""
    folder = cache_dir()
    try:
        for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            missing.mkdir(exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OSError(f"The cache folder {folder} cannot be created: {error}. Set TGNN_CACHE_DIR.") from None
    return folder
