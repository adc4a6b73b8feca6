"""The dependencies of an import, and the contents of the wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_importing_needs_only_the_core():
    """Importing needs torch, torch_geometric, numpy, scipy and scikit-learn, and no package of an extra."""
    script = """
import sys
import torch, torch_geometric, numpy, scipy, sklearn

class NothingElse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in EXTRAS:
            raise ImportError(name)

EXTRAS = set("rich typer pydantic safetensors polars optuna matplotlib plotly rdkit skimage triton tensorly".split())
sys.meta_path.insert(0, NothingElse())
import tgnn.ops
assert tgnn.ops.available_backends()["reference"] == "available"
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_wheel_is_pure_and_whole(tmp_path):
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    options = ["--no-deps", "--no-build-isolation", "-q", "-w", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(tmp_path)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for needed in ("tgnn/ops/kernels/cpu.cpp", "tgnn/ops/kernels/scaled.h", "tgnn/py.typed"):
        assert needed in names
    assert not [name for name in names if name.endswith(".so")]
