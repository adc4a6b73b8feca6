"""Measure times of several candidates in turn, and memory in a separate process."""

from __future__ import annotations

import ctypes
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch


def side_by_side(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median time of each candidate in seconds.

    Each round runs all candidates in turn, so that a slow phase of the machine affects all of them. Within its turn a
    candidate runs for some time, as in training, so that the cache content of its predecessor does not matter.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    repeats = {}
    for name, run in contenders.items():
        run()
        start = time.perf_counter()
        run()
        repeats[name] = max(1, round(0.1 / (time.perf_counter() - start)))
    for _ in range(rounds):
        for name, run in contenders.items():
            if repeats[name] > 1:
                run()
            start = time.perf_counter()
            for _ in range(repeats[name]):
                run()
            times[name].append((time.perf_counter() - start) / repeats[name])
    return {name: statistics.median(values) for name, values in times.items()}


def paired(one: Callable[[], object], other: Callable[[], object], rounds: int) -> tuple[float, float, float]:
    """Return the median times of two functions in seconds, and the median of the ratios of the second to the first.

    The two runs of a ratio follow each other directly, so it can show differences of a few percent.
    """
    times = []
    for number in range(rounds + 1):
        start = time.perf_counter()
        one()
        middle = time.perf_counter()
        other()
        if number:  # the first round is a warm-up
            times.append((middle - start, time.perf_counter() - middle))
    first, second = zip(*times)
    ratios = [b / a for a, b in times]
    return statistics.median(first), statistics.median(second), statistics.median(ratios)


def machine() -> str:
    """Describe the machine: CPU, threads, memory, operating system and torch."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0] if names else cpu
    memory = ""
    if Path("/proc/meminfo").exists():
        kib = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0])
        memory = f", {kib / 2**20:.0f} GiB"
    return f"{cpu}, {torch.get_num_threads()} threads{memory}, {platform.system()}, torch {torch.__version__}"


def resident() -> float:
    """Return the resident memory of this process in GiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**30


def reset_peak() -> None:
    """Reset the peak memory that :func:`peak` returns."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> float:
    """Return the peak memory since :func:`reset_peak` in GiB."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20


def print_extra_memory(contenders: dict[str, Callable[[], object]]) -> None:
    """Print the peak memory of the candidate that the command line names, beyond its inputs, as a JSON object."""
    run = contenders[sys.argv[1]]
    run()  # compiles kernels and sorts edges
    ctypes.CDLL(None).malloc_trim(0)  # return freed memory, which would count as used otherwise
    reset_peak()
    before = resident()
    run()
    print(json.dumps({"extra_gib": peak() - before}))


def run_in_process(module: str, *arguments: object) -> dict[str, float]:
    """Run ``python -m module arguments`` and return the JSON object on the last line of its output."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{run.stderr[-2000:]}")
    result: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return result
