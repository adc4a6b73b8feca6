"""``tgnn doctor``: check the installation."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from typing import Any

from tgnn.cli.console import print_json, print_text
from tgnn.cli.options import Json

_OPTIONAL_PACKAGES = {  # what the package is needed for, and the extra that installs it
    "rdkit": ("read molecules from SMILES, build ZINC and MolHIV", "molecules"),
    "scikit-image": ("build the superpixel graphs of MNIST and CIFAR10", "superpixels"),
    "optuna": ("search hyperparameters with `tgnn tune`", "tune"),
    "psycopg2-binary": ("share a search between machines with PostgreSQL", "postgres"),
    "triton": ("run the kernels on a GPU", "triton"),
    "tensorboard": ("log runs to TensorBoard", "tensorboard"),
    "mlflow": ("log runs to MLflow", "mlflow"),
    "wandb": ("log runs to Weights & Biases", "wandb"),
}


def doctor(json: Json = False) -> None:
    """Check the installation and print how to install what is missing.

    The report lists versions, backends, compiler, CPU threads, GPUs, optional packages and the cache folder.
    """
    report = _collect_report()
    if json:
        print_json(report)
        return
    for section, lines in report.items():
        print_text(section, style="bold")
        for name, value in lines.items():
            print_text(f"  {name:<16} {value}")


def _collect_report() -> dict[str, dict[str, Any]]:
    """Return the report as nested dictionaries, one for each section."""
    import torch

    from tgnn.ops import available_backends
    from tgnn.utils.cache_dir import cache_dir

    compiler = os.environ.get("CXX") or next((c for c in ("g++", "c++", "clang++") if shutil.which(c)), None)
    cache = cache_dir()
    size = sum(f.stat().st_size for f in cache.rglob("*") if f.is_file()) if cache.exists() else 0
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    packages = ("tgnn", "torch", "torch_geometric", "numpy", "scikit-learn", "polars")
    return {
        "versions": {
            **{name: _version(name) or "not installed" for name in packages},
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "backends": available_backends(),
        "machine": {
            "cores": os.cpu_count(),
            "torch threads": torch.get_num_threads(),
            "compiler": compiler or "not found, the slower torch backend is used: install g++ or clang++",
            "npm": shutil.which("npm") or "not found: MNIST and CIFAR10 cannot be downloaded from npm",
            "gpu": ", ".join(gpus) or "none",
        },
        "optional packages": {
            name: _version(name) or f"not installed (needed to {purpose}): pip install '.[{extra}]'"
            for name, (purpose, extra) in _OPTIONAL_PACKAGES.items()
        },
        "cache": {
            "folder": str(cache),
            "size": f"{size / 2**20:,.1f} MiB",
            "change folder": "set the environment variable TGNN_CACHE_DIR",
        },
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
