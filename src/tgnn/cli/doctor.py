"""``tgnn doctor``: what is there, what is missing, and what to type."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from typing import Annotated, Any

import typer

from tgnn.cli.console import out, print_json

_EXTRAS = {  # what it is for, and the extra that brings it
    "rdkit": ("molecules from SMILES; ZINC and MolHIV from packages", "molecules"),
    "scikit-image": ("superpixels of MNIST and CIFAR10 from packages", "superpixels"),
    "optuna": ("searching for settings, `tgnn tune`", "tune"),
    "psycopg2-binary": ("searching with many machines on one PostgreSQL", "postgres"),
    "triton": ("the kernels on a GPU", "triton"),
    "tensorboard": ("watching runs in TensorBoard", "tensorboard"),
    "mlflow": ("watching runs in MLflow", "mlflow"),
    "wandb": ("watching runs in Weights & Biases", "wandb"),
}


def doctor(json: Annotated[bool, typer.Option("--json", help="Print one machine-readable object.")] = False) -> None:
    """Versions, backends, compiler, threads, devices, caches; what is missing and what to type."""
    report = examine()
    if json:
        print_json(report)
        return
    for section, lines in report.items():
        out.print(f"[bold]{section}[/]", highlight=False)
        for name, value in lines.items():
            out.print(f"  {name:<16} {value}", markup=False, highlight=False, soft_wrap=True)


def examine() -> dict[str, dict[str, Any]]:
    """The same as plain values."""
    import torch

    from tgnn.ops import available_backends
    from tgnn.utils.cache_dir import cache_dir

    compiler = os.environ.get("CXX") or next((c for c in ("g++", "c++", "clang++") if shutil.which(c)), None)
    cache = cache_dir()
    size = sum(f.stat().st_size for f in cache.rglob("*") if f.is_file()) if cache.exists() else 0
    gpus = (
        [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    return {
        "versions": {
            **{
                name: _version(name) or "missing"
                for name in ("tgnn", "torch", "torch_geometric", "numpy", "scikit-learn", "polars")
            },
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "backends": available_backends(),
        "machine": {
            "cores": os.cpu_count(),
            "torch threads": torch.get_num_threads(),
            "compiler": compiler or "none: install g++ or clang++ for the fast kernels (torch serves meanwhile)",
            "npm": shutil.which("npm") or "none: MNIST and CIFAR10 cannot come from packages",
            "gpu": ", ".join(gpus) or "none",
        },
        "extras": {
            name: _version(name) or f"missing ({what}): pip install 'tgnn[{extra}]'"
            for name, (what, extra) in _EXTRAS.items()
        },
        "cache": {"folder": str(cache), "size": f"{size / 2**20:,.1f} MiB", "change it with": "TGNN_CACHE_DIR"},
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
