"""The CUDA kernels without a GPU: run by Triton's interpreter, and compiled to machine code for several GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not installed")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def test_the_contract_under_the_interpreter():
    """Run the contract tests in a process with Triton's interpreter, and a part of the large grid."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("runs in the interpreter already")
    grid = "(test_equals_the_reference and ordinary and float32)"
    numerics = "(test_numerics and not many and not long and not half)"
    chosen = f"triton and (random_graphs or matter or segments_by or {grid} or {numerics})"
    options = ["-q", "-k", chosen, "-p", "no:cacheprovider", "-W", "ignore::RuntimeWarning"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/contract", "tests/unit/ops", *options],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-4000:]
    assert "skipped" not in run.stdout.splitlines()[-1], run.stdout[-1000:]


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from tgnn.ops import triton_kernels as kernels

flags = {"TANH": True, "HAS_ADDEND": True, "HAS_WEIGHT": True, "HAS_EDGE": True, "BLOCK": 128}
inputs = {"z": "*fp32", "addend": "*fp32", "weight": "*fp32", "rank": "i32",
          "ptr": "*i64", "other": "*i32", "edge": "*i64"}
forward = {**inputs, "grad": "constexpr", "out": "*fp32", "code": "constexpr"}
backward = {**inputs, "grad": "*fp32", "out": "*fp64", "code": "*i32"}
spread = {**inputs, "mantissa": "*fp64", "code": "*i32", "grad_z": "*fp32", "grad_addend": "*fp32",
          "grad_weight": "*fp64", "num_edges": "i64"}
for capability in (80, 90):
    for kernel, types, none in (
        (kernels.multiply, forward, {"grad": None, "code": None}),
        (kernels.multiply, backward, {}),
        (kernels.distribute, spread, {}),
    ):
        constants = {**none, **flags}
        signature = {**types, **dict.fromkeys(flags, "constexpr")}
        made = triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("cuda", capability, 32))
        assert len(made.asm["cubin"]) > 1000
print("compiled")
"""


def test_the_kernels_compile_for_gpus():
    variables = {**os.environ, "TRITON_INTERPRET": "0"}
    run = subprocess.run([sys.executable, "-c", COMPILE], env=variables, capture_output=True, text=True)
    assert run.stdout.strip() == "compiled", run.stderr[-3000:]
