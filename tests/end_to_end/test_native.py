"""Compiling and loading the C++ kernels, and all ways in which this fails, each in a separate process."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tgnn.ops import cpp_build
from tgnn.utils.cache_dir import cache_dir

if sys.platform not in ("linux", "darwin"):
    pytest.skip("the kernels are built on Linux and macOS", allow_module_level=True)

pytestmark = pytest.mark.slow
USE = """
import torch
from tgnn.ops import available_backends, neighbor_product
z = torch.tensor([[2.0], [3.0], [5.0]], requires_grad=True)
out = neighbor_product(z, torch.tensor([[0, 1, 2], [2, 2, 0]]), activation="tanh")
out.sum().backward()
assert abs(out.flatten().tolist()[1] - 0.7615942) < 1e-6
neighbor_product(z, torch.tensor([[1, 0, 2], [2, 2, 0]]))
print(available_backends()["cpp"])
"""


def use(
    cache: Path, script: str = USE, cold: bool = False, **environment: str | None
) -> subprocess.CompletedProcess[str]:
    """Use the operator in a new process with its own cache folder. ``None`` removes an environment variable."""
    variables = {**os.environ, "TGNN_CACHE_DIR": str(cache), **environment}
    variables = {name: value for name, value in variables.items() if value is not None}
    if cold:
        words = [sys.executable, "-c", script]
        return subprocess.run(words, env=variables, capture_output=True, text=True, timeout=300)
    return warm.run(script, environment=variables)


def logs_once(run: subprocess.CompletedProcess[str], words: str) -> bool:
    """Return whether the operator worked and exactly one log line gave the reason why the kernels are not used."""
    assert run.returncode == 0, run.stderr
    lines = [line for line in run.stderr.splitlines() if line.strip()]
    return len(lines) == 1 and "the torch backend is used" in lines[0] and words in lines[0] and words in run.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with the library in it."""
    if cpp_build._compiler() is None:
        pytest.skip("no C++ compiler")
    cache = tmp_path_factory.mktemp("cache") / "tgnn"
    run = use(cache)
    assert run.stdout.strip() == "available", run.stderr
    return cache


def write_compiler(folder: Path, script: str) -> Path:
    """Write a shell script that is used as the compiler. ``$output`` is the library that it must write."""
    compiler = folder / "c++"
    find_output = 'for word; do case "$last" in -o) output="$word";; esac; last="$word"; done'
    compiler.write_text(f"#!/bin/sh\n{find_output}\n{script}\n")
    compiler.chmod(0o755)
    return compiler


@pytest.fixture
def copier(built: Path, tmp_path: Path) -> Path:
    """A fast compiler that copies the library of the real compiler and records its arguments."""
    (library,) = built.glob("*.so")
    return write_compiler(tmp_path, f'echo "$@" >> "{tmp_path}/calls"\nsleep 0.1\ncp "{library}" "$output"')


def builds(compiler: Path) -> list[str]:
    """Return the arguments of each call that links a library."""
    return [words for words in compiler.with_name("calls").read_text().splitlines() if "-shared" in words]


def test_the_folder_is_the_users_alone(built):
    assert stat.S_IMODE(built.stat().st_mode) == 0o700
    (library,) = built.glob("*.so")
    assert not library.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    assert sorted(path.name for path in built.iterdir()) == sorted([library.name, "lock"])  # no temporary files


def test_a_built_library_is_used_without_a_compiler(built):
    run = use(built, PATH="", CXX=None, cold=True)  # importing prints nothing either
    assert run.stdout.strip() == "available", run.stderr
    assert run.stderr == ""


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "no C++ compiler was found"),
        ("echo 'error: out of luck' >&2\nexit 1", "out of luck"),
        ('echo nonsense > "$output"', "cannot be loaded"),
    ],
)
def test_a_missing_or_broken_compiler(tmp_path, script, message):
    compiler = {"PATH": "", "CXX": None} if script is None else {"CXX": str(write_compiler(tmp_path, script))}
    assert logs_once(use(tmp_path / "cache", **compiler), message)
    assert not list((tmp_path / "cache").glob("*.so"))


def test_folders_that_cannot_be_trusted_are_refused(built, tmp_path):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "link").symlink_to(built)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    refused = {
        tmp_path / "file" / "cache": "cannot be created",
        tmp_path / "link": "is a symbolic link",
        tmp_path / "open": "writable by other users",
        tmp_path / "open" / "cache": "other users can replace",
    }
    if os.geteuid() == 0:  # only root can give a folder to another user
        shutil.copytree(built, tmp_path / "other")
        os.chown(tmp_path / "other", 12345, -1)
        refused[tmp_path / "other"] = "belongs to another user"
    for cache, message in refused.items():
        assert logs_once(use(cache), message)
    no_home = "import os\nos.path.expanduser = lambda path: path\n" + USE
    assert logs_once(use(tmp_path, no_home, TGNN_CACHE_DIR=None, XDG_CACHE_HOME=None), "home directory")


def test_a_read_only_cache(tmp_path):
    """A real read-only file system: even root cannot write there."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None:
        cache = tmp_path / "cache"
        cache.mkdir(mode=0o500)
        if os.geteuid() == 0:
            pytest.skip("root writes everywhere, and unshare is not here to make a read-only file system")
        assert logs_once(use(cache), "is not writable")
        return
    mount = f"mount -t tmpfs -o ro,mode=700 none {tmp_path}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a read-only file system")
    script = f"{mount} && exec {sys.executable} -c '{USE}'"
    variables = {**os.environ, "TGNN_CACHE_DIR": str(tmp_path)}
    run = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], env=variables, capture_output=True, text=True, timeout=300
    )
    assert logs_once(run, "is not writable")


def test_a_compiler_of_several_words(copier, tmp_path):
    run = use(tmp_path / "cache", CXX=f"{copier} -g0")
    assert (run.stdout.strip(), run.stderr) == ("available", "")
    assert builds(copier)[0].startswith("-g0 ")


@pytest.mark.parametrize(
    "damage", [lambda library: library.write_bytes(b"damaged"), lambda library: library.chmod(0o777)]
)
def test_a_library_that_is_damaged_or_that_others_can_write_is_built_again(copier, tmp_path, damage):
    cache = tmp_path / "cache"
    use(cache, CXX=str(copier))
    (library,) = cache.glob("*.so")
    damage(library)
    run = use(cache, CXX=str(copier))
    assert run.stdout.strip() == "available", run.stderr
    assert len(builds(copier)) == 2
    states = [path.stat() for path in cache.glob("*.so")]
    assert len([state for state in states if state.st_size > 1000 and not state.st_mode & stat.S_IWOTH]) == 1


def test_ten_processes_at_once(copier, tmp_path):
    variables = {**os.environ, "TGNN_CACHE_DIR": str(tmp_path / "cache"), "CXX": str(copier), "OMP_NUM_THREADS": "1"}
    with contextlib.ExitStack() as all_of_them:
        runs = [all_of_them.enter_context(warm.Process(USE, environment=variables)) for _ in range(10)]
        for run in runs:
            assert (run.wait(), run.read("out").strip(), run.read("err")) == (0, "available", "")
    assert len(builds(copier)) == 1
    assert len(list((tmp_path / "cache").glob("*.so"))) == 1
    assert not list((tmp_path / "cache").glob("build-*"))


def test_threads_of_torch_are_used(built):
    """One pool: the kernel's OpenMP runtime is the one that torch has loaded."""
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    script = USE + "\nprint({line.split()[-1] for line in open('/proc/self/maps') if 'gomp' in line or 'iomp' in line})"
    runtimes = eval(use(built, script, cold=True).stdout.splitlines()[-1])
    assert len([path for path in runtimes if "torch" in path]) == 1
    for path in cache_dir().glob("*.so"):
        needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True).stdout
        assert "gomp" not in needed
