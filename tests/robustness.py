"""Measure the figures of docs/reliability.md: kills, malformed inputs, poisoned files, concurrent kernel builds.

``python -m tests.robustness kills --count 100`` kills commands at random moments and compares what they write after
they were resumed with an undisturbed run. ``malformed``, ``poisoned`` and ``builds`` are the other measurements. All
end after ``--seconds``, and their exit code is 1 if a case failed. ``python -m tests.fuzz`` tests the products.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pickle
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests import warm

Outcome = tuple[str, str]
"""Kind of a case, and what failed. Empty: nothing."""
_QUICK = ("--epochs", "60", "--patience", "1000", "--set", "train.save_every=0")
_TABLE = ("reproduce", "table-1-citation", "--datasets", "karate", "--models", "gcn", "--runs", "2", "--jobs", "1")
_STUDY = ("tune", "karate", "--model", "gcn", "--trials", "3", "--finals", "0", "--splits", "1", "--jobs", "1")
COMMANDS: dict[str, tuple[str, ...]] = {
    "train": ("train", "karate", *_QUICK, "--out", "result"),
    "runs": ("train", "karate", "--model", "gcn", "--runs", "2", "--jobs", "2", *_QUICK, "--out", "result"),
    "tune": (*_STUDY, "--set", "train.epochs=20", "--out", "result"),
    "reproduce": (*_TABLE, "--set", "train.epochs=60", "--out", "result"),
    "convert": ("data", "convert", "tables", "result"),
}


# ---- kills -----------------------------------------------------------------------------------------------------


def kills(chance: random.Random, folder: Path) -> Iterator[Outcome]:
    """Kill each command in turn at a random moment, continue it, and compare the result with an undisturbed one."""
    durations: dict[str, float] = {}
    expected: dict[str, Any] = {}
    while True:
        for kind in COMMANDS:
            if kind not in durations:
                start = time.monotonic()
                code, output = _complete(kind, folder / "whole" / kind)
                assert code == 0, output
                durations[kind], expected[kind] = time.monotonic() - start, _result(kind, folder / "whole" / kind)
            place = folder / "killed"
            shutil.rmtree(place, ignore_errors=True)
            _prepare(kind, place)
            with warm.Process(warm.TGNN, *COMMANDS[kind], folder=place, environment=_environment()):
                time.sleep(chance.random() * durations[kind])
            code, output = _complete(kind, place)
            if code:
                yield kind, f"exit code {code}: {output}"
            elif _result(kind, place) != expected[kind]:
                yield kind, "another result"
            elif left := [path.name for path in place.iterdir() if path.name not in ("result", "tables")]:
                yield kind, f"left {left}"
            else:
                yield kind, ""


def _complete(kind: str, place: Path) -> tuple[int, str]:
    """Run a command, or continue it if it was started before."""
    _prepare(kind, place)
    words = COMMANDS[kind]
    started = any((place / "result" / name).exists() for name in ("config.yaml", "runs.json"))
    if kind in ("train", "runs") and started:
        words = ("train", "--resume", "result")
    if kind == "convert" and (place / "result").exists():
        words = (*words, "--force")
    done = warm.run(warm.TGNN, *words, folder=place, environment=_environment())
    return done.returncode, done.stderr[-500:]


def _prepare(kind: str, place: Path) -> None:
    if place.exists():
        return
    place.mkdir(parents=True)
    if kind == "convert":
        (place / "tables").mkdir()
        nodes = "".join(f"{i},{i % 7},{i % 2}\n" for i in range(20_000))
        (place / "tables" / "nodes.csv").write_text("id,x,label\n" + nodes)
        edges = "".join(f"{i % 20_000},{(i * 7 + i // 20_000) % 20_000}\n" for i in range(60_000))
        (place / "tables" / "edges.csv").write_text("source,target\n" + edges)


def _result(kind: str, place: Path) -> Any:
    """Return what must be equal in every repetition of a command."""
    result = place / "result"
    if kind == "convert":
        return json.loads((result / "graph.json").read_text())["hash"]
    if kind == "tune":
        trials = json.loads((result / "study.json").read_text())["trials"]
        return sum(trial["state"] in ("complete", "pruned") for trial in trials) >= 3
    files = sorted(result.rglob("metrics.json"))
    return [json.loads(path.read_text())["model_sha256"] for path in files]


def _environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


# ---- malformed inputs ------------------------------------------------------------------------------------------

_TEXTS = [
    "",
    "nan",
    "inf",
    "-1",
    "1e999",
    "9" * 400,
    "é",
    "\ufeff",
    "\x00",
    '"',
    ",",
    "\r",
    "\n\n",
    "null",
    "[[[[",
    "&a",
    "*a",
]


def malformed(chance: random.Random, folder: Path) -> Iterator[Outcome]:
    """Change a file of valid data or of a run at random, and run a command on it. It must end with a clean error."""
    import tgnn

    good = folder / "good"
    _write_tables(good / "tables")
    _run_command("data convert tables graph.npz", good)
    _run_command("data convert tables disk --leave-out", good)
    tgnn.train(good / "tables", out=good / "run", options={"train.epochs": 2})
    (good / "recipe.yaml").write_text("model: {rank: 4}\ntrain: {epochs: 2}\n")
    targets = {
        **{f"tables/{name}": ("data check tables", "train --data tables --epochs 1 --out new") for name in _TABLES},
        "graph.npz": ("data check graph.npz", "train --data graph.npz --epochs 1 --out new"),
        **{f"disk/{name}": ("data check disk",) for name in ("graph.json", "col.npy", "x.npy")},
        "recipe.yaml": ("train karate --recipe recipe.yaml --dry-run",),
        **{f"run/{name}": ("evaluate run", "predict run", "train --resume run", "report run") for name in _RUN_FILES},
    }
    while True:
        place = folder / "bad"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(good, place)
        name = chance.choice(list(targets))
        (place / name).write_bytes(_change(chance, (place / name).read_bytes()))
        command = chance.choice(targets[name])
        code, output = _run_command(command, place)
        kind = name.partition("/")[0]
        yield kind, "" if code in (0, 1, 2) and "Traceback" not in output else f"{command} ({name}): {code} {output}"


_TABLES = ("nodes.csv", "edges.csv", "schema.yaml")
_RUN_FILES = ("config.yaml", "data.json", "metrics.json", "environment.json", "history.jsonl", "model.safetensors")


def _change(chance: random.Random, content: bytes) -> bytes:
    """Cut, repeat, replace or insert bytes."""
    result = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        begin = chance.randrange(len(result) + 1)
        end = min(len(result), begin + chance.choice([0, 1, 3, 20, 10**6]))
        insert = chance.choice([b"", os.urandom(3), chance.choice(_TEXTS).encode(), bytes(result[begin:end]) * 2])
        result[begin:end] = insert
    return bytes(result)


def _write_tables(folder: Path) -> None:
    folder.mkdir(parents=True)
    nodes = "".join(f"n{i},{i / 7:.3f},{i % 3},{'pq'[i % 2]}\n" for i in range(40))
    (folder / "nodes.csv").write_text("id,height,level,label\n" + nodes)
    edges = "".join(f"n{i % 40},n{(i * 3 + 1) % 40},{i / 80:.2f}\n" for i in range(80))
    (folder / "edges.csv").write_text("source,target,weight\n" + edges)
    (folder / "schema.yaml").write_text(
        "undirected: false\nnodes: {features: {level: numeric}}\nedges: {weight: null}\n"
    )


def _run_command(command: str, folder: Path) -> tuple[int, str]:
    """Run a command in this process, and return its exit code and its output."""
    from tgnn.cli import app, console

    argv, before, output = sys.argv, Path.cwd(), io.StringIO()
    os.chdir(folder)
    sys.argv = ["tgnn", *command.split()]
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            console.err.file = console.out.file = output
            app.main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException as error:
        return -1, f"Traceback: {error!r}"
    finally:
        sys.argv = argv
        os.chdir(before)
    return code, output.getvalue()[-300:]


# ---- poisoned files --------------------------------------------------------------------------------------------


class _Payload:
    """Object whose unpickling creates a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.marker}",)


def poisoned(chance: random.Random, folder: Path) -> Iterator[Outcome]:
    """Replace files by pickles and YAML tags that would run code, and run commands on them. No code may run."""
    import torch

    import tgnn

    good, marker = folder / "good", folder / "marker"
    _write_tables(good / "tables")
    tgnn.train(good / "tables", out=good / "run", options={"train.epochs": 2})
    array = np.empty(1, dtype=object)
    array[0] = _Payload(marker)
    buffers = {"pickle": pickle.dumps(_Payload(marker))}
    for name, write in (
        ("npz", lambda file: np.savez(file, num_nodes=array, edge_index=array, x=array)),
        ("npy", lambda file: np.save(file, array, allow_pickle=True)),
        ("torch", lambda file: torch.save(_Payload(marker), file)),
    ):
        buffer = io.BytesIO()
        write(buffer)
        buffers[name] = buffer.getvalue()
    tag = f"!!python/object/apply:os.system ['touch {marker}']"
    buffers["yaml tag"] = f"data: {tag}\nmodel: {tag}\n".encode()
    buffers["yaml key"] = yaml.safe_dump({"model": {"name": f"__import__('os').system('touch {marker}')"}}).encode()
    own = (
        "x.npz",
        "x.pkl",
        "x.pt",
        "x.csv",
        "raw/ind.cora.graph",
        "disk/graph.json",
        "disk/x.npy",
        "tables/schema.yaml",
    )
    commands = ("evaluate run", "predict run", "train --resume run", "report run")
    while True:
        for kind, content in buffers.items():
            place = folder / "bad"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(good, place)
            name = chance.choice([*own, *(f"run/{file}" for file in (*_RUN_FILES, "checkpoint.safetensors"))])
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(content)
            path = name.partition("/")[0]
            command = (
                chance.choice(commands) if path == "run" else f"{chance.choice(['data check', 'train --data'])} {path}"
            )
            code, output = _run_command(command, place)
            failed = "code was executed" if marker.exists() else "" if code in (0, 1, 2) else f"{code} {output}"
            marker.unlink(missing_ok=True)
            yield kind, failed and f"{command} ({name}): {failed}"


# ---- concurrent kernel builds ----------------------------------------------------------------------------------

_BUILD = """
import torch, tgnn.ops
from tgnn.ops import neighbor_product, use_backend
with use_backend("cpp"):
    print(neighbor_product(torch.full((3, 2), 2.0), torch.tensor([[0, 1, 2], [0, 0, 0]])).tolist()[0])
"""


def builds(chance: random.Random, folder: Path) -> Iterator[Outcome]:
    """Start eight processes at once with an empty cache. Each of them must use a whole kernel."""
    while True:
        environment = _environment() | {"TGNN_CACHE_DIR": str(folder / f"cache-{chance.random()}")}
        with contextlib.ExitStack() as stack:
            started = [stack.enter_context(warm.Process(_BUILD, environment=environment)) for _ in range(8)]
            for process in started:
                code, output = process.wait(), process.read("out").strip()
                yield "build", "" if (code, output) == (0, "[8.0, 8.0]") else f"{code} {process.read('err')[-300:]}"


# ---- command line ----------------------------------------------------------------------------------------------

MEASUREMENTS = {"kills": kills, "malformed": malformed, "poisoned": poisoned, "builds": builds}


def measure(name: str, count: int, seed: int = 0, seconds: float = 3600) -> tuple[Counter[str], list[str]]:
    """Try so many cases, or as many as the time allows. Return the number of each kind, and the failures."""
    tried: Counter[str] = Counter()
    failures: list[str] = []
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        for kind, failed in MEASUREMENTS[name](random.Random(seed), Path(folder)):
            tried[kind] += 1
            failures += [f"{kind}: {failed}"] if failed else []
            if tried.total() >= count or time.monotonic() > end:
                break
    return tried, failures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.robustness", description=__doc__)
    parser.add_argument("measurement", choices=MEASUREMENTS)
    parser.add_argument("--count", type=int, default=100, help="Number of cases (default: %(default)s).")
    parser.add_argument("--seed", type=int, default=0, help="Random seed (default: %(default)s).")
    parser.add_argument("--seconds", type=float, default=3600, help="Maximum time (default: %(default)s).")
    arguments = parser.parse_args()
    start = time.monotonic()
    tried, failures = measure(arguments.measurement, arguments.count, arguments.seed, arguments.seconds)
    for failure in failures:
        print(failure)
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in tried.items())
    seconds = time.monotonic() - start
    print(f"{arguments.measurement}: {tried.total():,} tried ({kinds}), {len(failures):,} failed, {seconds:.0f} s")
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
