"""Timing side by side, and memory in a process of its own."""

from __future__ import annotations

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
    """Median seconds of each. The rounds go through all contenders in turn, so that a slow moment hits them alike; in
    its turn a contender runs for a while, as in training, so that none pays for what the one before did to the caches.
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
    """Median seconds of two, and the median of how many times as long the second took as the first just before it:
    for differences of a few per cent, which a slow minute of the machine would hide.
    """
    times = []
    for number in range(rounds + 1):
        start = time.perf_counter()
        one()
        middle = time.perf_counter()
        other()
        if number:  # the first warms up
            times.append((middle - start, time.perf_counter() - middle))
    first, second = zip(*times)
    quotients = [b / a for a, b in times]
    return statistics.median(first), statistics.median(second), statistics.median(quotients)


def machine() -> str:
    """What the figures were measured on."""
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
    """Memory in use now, in GiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**30


def forget_peak() -> None:
    """From now on :func:`peak` speaks of what comes after."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> float:
    """Most memory in use since :func:`forget_peak`, in GiB."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20


def in_its_own_process(module: str, *arguments: object) -> dict[str, float]:
    """Runs ``python -m module arguments`` and reads the JSON object on its last line."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{run.stderr[-2000:]}")
    result: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return result
