"""Run the C++ kernels under a sanitizer: ``python tools/sanitize_kernels.py address`` (or ``thread``, ``undefined``).

The kernels are compiled with the sanitizer into a separate cache folder. A child process preloads its runtime and runs
every kernel, in both types, with several threads, on graphs with hubs, empty rows and values of every size. The Python
interpreter and torch are not instrumented, so leaks are not reported and races are reported in the kernels only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so", "undefined": "libubsan.so"}
FLAGS = {"thread": "-DTGNN_STD_THREADS"}  # the sanitizer does not know the barriers of OpenMP
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:alloc_dealloc_mismatch=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}
SUPPRESSIONS = "".join(f"called_from_lib:{name}\n" for name in ("libgomp", "libtorch_cpu.so", "libtorch_python.so"))


def exercise() -> None:
    """Call every kernel."""
    import torch
    from tests.fuzz import run

    from tgnn.ops import cpp_build, exclusive_product, exclusive_sum, gated_sum, neighbor_product, neighbor_sum

    cpp_build._BUILD_SECONDS = 3600  # sanitizers compile slowly
    assert cpp_build.load() is not None, cpp_build.why_unavailable()
    torch.set_num_threads(4)
    run(20_000)
    generator = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        for nodes, count, rank in ((1, 0, 3), (7, 40, 1), (300, 6000, 130), (2000, 9000, 33)):
            edges = torch.randint(nodes, (2, count), generator=generator)
            edges[1, : count // 3] = 0  # a hub
            z, z_dst, x = (torch.randn(nodes, rank, generator=generator).to(dtype).requires_grad_() for _ in range(3))
            table = torch.randn(3, rank, generator=generator).to(dtype).requires_grad_()
            rows = torch.randn(count, rank, generator=generator).to(dtype).requires_grad_()
            by_edge, by_column = (
                torch.rand(s, generator=generator).to(dtype).requires_grad_() for s in (count, (count, rank))
            )
            types = torch.arange(count) % 3
            for activation in (None, "tanh", "sigmoid", "bounded"):
                terms = {"z_dst": z_dst, "edge_addend": table, "edge_type": types, "factor_activation": activation}
                more = {"edge_scale": by_column, "edge_shift": by_edge, "edge_weight": by_edge}
                for product in (neighbor_product, exclusive_product):
                    product(z, edges, activation="tanh", **terms, **more).sum().backward()
                    product(z, edges, edge_addend=rows, edge_weight=by_column).sum().backward()
                exclusive_product(z, edges, **terms).sum().backward()
                exclusive_product(z, edges, edge_addend=rows, factor_activation=activation).sum().backward()
            bounded = {"z_dst": z_dst, "factor_activation": "bounded", "bound": 0.9, "degree_exponent": 0.5}
            for more in ({}, {"edge_addend": rows}, {"edge_addend": table, "edge_type": types}):
                for product in (neighbor_product, exclusive_product):
                    product(z, edges, **bounded, **more).sum().backward()
            neighbor_product(z, edges, degree_exponent=0.5).sum().backward()
            neighbor_product(z, edges, degree_exponent=0.5, edge_weight=by_edge).sum().backward()
            neighbor_product(1e9 * z, edges, edge_addend=rows).sum().backward()  # gradients overflow float
            exclusive_product(1e9 * z, edges).sum().backward()
            neighbor_product(z, edges, activation="tanh").sum().backward()
            neighbor_product(z, edges, activation="tanh", edge_weight=by_edge).sum().backward()
            neighbor_sum(x, edges, edge_weight=by_edge).sum().backward()
            exclusive_sum(x, edges, edge_addend=rows, edge_weight=by_edge).sum().backward()
            gates = {"gate_src": z, "gate_dst": z_dst, "edge_weight": by_edge}
            gated_sum(x, edges, gate_edge=table, edge_type=types, normalize=True, **gates).sum().backward()
            out, state = gated_sum(x, edges, gate_edge=rows, return_edge_state=True, **gates)
            (out.sum() + state.sum()).backward()
    large = torch.randn(17_000, 130, generator=generator).requires_grad_()  # larger than a cache: blocks of 32 columns
    neighbor_product(large, torch.randint(17_000, (2, 40_000), generator=generator), activation="tanh").sum().backward()
    print("all kernels ran")


def main() -> None:
    if sys.argv[1] == "--child":
        exercise()
        return
    kind = sys.argv[1]
    compiler = os.environ.get("CXX", "g++")
    # The C++ runtime is loaded with that of the sanitizer, which otherwise cannot intercept exceptions.
    names = (RUNTIMES[kind], "libstdc++.so")
    commands = [[compiler, f"-print-file-name={name}"] for name in names]
    runtimes = [subprocess.run(c, capture_output=True, text=True, check=True).stdout.strip() for c in commands]
    root = Path(__file__).parent.parent
    with tempfile.TemporaryDirectory() as folder:
        suppressions = Path(folder) / "suppressions"
        suppressions.write_text(SUPPRESSIONS)
        environment = {
            **os.environ,
            **OPTIONS,
            "TSAN_OPTIONS": f"suppressions={suppressions}:ignore_noninstrumented_modules=1:halt_on_error=0:exitcode=66",
            "CXX": f"{compiler} -fsanitize={kind} -fno-omit-frame-pointer -g {FLAGS.get(kind, '')}",
            "LD_PRELOAD": ":".join(runtimes),
            "TGNN_CACHE_DIR": folder,
            "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}",
        }
        Path(folder).chmod(0o700)
        command = [sys.executable, str(Path(__file__).resolve()), "--child"]
        raise SystemExit(subprocess.run(command, env=environment, cwd=root, check=False).returncode)


if __name__ == "__main__":
    main()
