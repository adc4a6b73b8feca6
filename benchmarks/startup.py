"""Time of the first use (with compilation), of later uses and of the import."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

IMPORT = """
import time
import torch_geometric
start = time.perf_counter()
import tgnn
print(time.perf_counter() - start)
"""
LOAD = """
import time
from tgnn.ops import cpp_build as native
start = time.perf_counter()
assert native.load() is not None, native.why_unavailable()
print(time.perf_counter() - start)
"""


def seconds(script: str, cache: Path) -> float:
    import os

    variables = {**os.environ, "TGNN_CACHE_DIR": str(cache)}
    run = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=True)
    return float(run.stdout)


def measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        builds = [seconds(LOAD, Path(scratch) / f"cache{i}") for i in range(3)]
        loads = [seconds(LOAD, Path(scratch) / "cache0") for _ in range(7)]
        imports = [seconds(IMPORT, Path(scratch) / "cache0") for _ in range(7)]
    names = ("first use: build and load", "later use: load", "import tgnn after import torch_geometric")
    return dict(zip(names, map(statistics.median, (builds, loads, imports))))
