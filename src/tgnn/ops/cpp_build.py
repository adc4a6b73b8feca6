"""Compile and load the C++ kernels of ``kernels/`` on first use, against the installed torch.

The library is cached in ``TGNN_CACHE_DIR``, or in the cache folder of the user. Its file name contains hashes of
everything that determines its code (sources, flags, torch, CPU, compiler) and its own checksum. The file is written
under a temporary name and then moved, so no process sees an incomplete file. A lock lets one process compile while the
others wait. If anything fails, :func:`load` logs one line and returns ``None``, and the torch backend is used.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tgnn.utils.cache_dir import make_cache_dir

logger = logging.getLogger("tgnn")

_HERE = Path(__file__).parent
_PARTS = 4
_SOURCES = (_HERE / "kernels" / "cpu.cpp", *sorted((_HERE / "kernels").glob("*.h")))
_TORCH = Path(torch.__file__).parent
_BUILD_SECONDS = 300

# These flags are tried in turn until the library builds and loads. OpenMP is enabled for compiling but not for linking,
# so that its symbols come from the OpenMP runtime that torch has loaded. Without OpenMP the kernels run on one thread.
_PARALLEL = (["-fopenmp"], ["-fopenmp-simd"])


class BuildUnavailableError(Exception):
    """The C++ kernels cannot be used on this machine; the message says why."""


class Library:
    """The loaded kernels. ``kernels/cpu.cpp`` documents the functions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._functions = ctypes.CDLL(str(path))
        self._kernels: dict[str, Callable[..., int]] = {}
        # Declare the argument types, because ctypes passes integers with 32 bits by default.
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        graph = [integer, pointer, pointer, pointer]
        inputs = [pointer, integer, ctypes.c_int, ctypes.c_double]
        for suffix in ("f32", "f64"):
            self._declare(f"tgnn_forward_{suffix}", [*inputs, *graph, integer, *[pointer] * 3])
            self._declare(f"tgnn_sum_{suffix}", [pointer, pointer, integer, *graph, pointer])
            self._declare(f"tgnn_backward_{suffix}", [*inputs, *graph, *graph, *[pointer] * 4])
            self._declare(f"tgnn_edge_product_{suffix}", [pointer, *graph, pointer])
            self._declare(f"tgnn_edge_product_backward_{suffix}", [pointer, *graph, *graph, pointer, pointer])
            self._declare(f"tgnn_exclusive_product_{suffix}", [pointer, *graph, pointer])
            self._declare(f"tgnn_exclusive_product_backward_{suffix}", [pointer, *graph, *graph, pointer, pointer])
            self._declare(f"tgnn_exclusive_sum_{suffix}", [pointer, integer, *graph, pointer])
            self._declare(f"tgnn_gated_sum_{suffix}", [pointer, *graph, pointer, pointer])
            self._declare(f"tgnn_gated_sum_backward_{suffix}", [pointer, *graph, *graph, *[pointer] * 4])
            self._declare(f"tgnn_edge_rows_{suffix}", [pointer, *graph, pointer])
            self._declare(f"tgnn_edge_rows_backward_{suffix}", [pointer, *graph, *graph, *[pointer] * 4])
        self._declare("tgnn_weighted_forward_f32", [pointer, *inputs, *graph, *[pointer] * 3])
        self._declare("tgnn_weighted_backward_f32", [pointer, *inputs, *graph, *graph, *[pointer] * 5])
        for suffix in ("i32", "i64"):
            self._declare(f"tgnn_group_{suffix}", [pointer, pointer, integer, integer, *[pointer] * 3])
            sampling = [pointer, integer, pointer, integer, integer, *[ctypes.c_int] * 3]
            self._declare(f"tgnn_sample_{suffix}", [*[pointer] * 3, integer, integer, *sampling, pointer])
        self._declare("tgnn_group_both_i64", [pointer, integer, integer, integer, *[pointer] * 7])
        self._declare("tgnn_sample_take", [pointer] * 4)

    def _declare(self, name: str, arguments: list[type]) -> None:
        function = getattr(self._functions, name)
        function.argtypes = arguments
        function.restype = ctypes.c_int
        self._kernels[name] = function

    def call(self, name: str, *arguments: Any) -> None:
        """Call a kernel. Tensors must be contiguous CPU tensors of the types that it expects."""
        pointers = [a if type(a) in _NOT_TENSORS else a.data_ptr() for a in arguments]
        if self._kernels[name](*pointers) != 0:
            raise MemoryError(f"There is not enough memory for the scratch space of {name}.")

    def group(self, key: Tensor, other: Tensor | None, num_groups: int) -> tuple[Tensor, Tensor, Tensor]:
        """Group edges by ``key`` with a stable counting sort; return ``ptr``, ``index`` and ``perm``.

        Keys must be below ``num_groups``, see :class:`~tgnn.ops.graph.CompressedEdges`.
        """
        key = key.contiguous()
        other = None if other is None else other.to(key.dtype).contiguous()
        ptr = torch.empty(num_groups + 1, dtype=torch.int64, device=key.device)
        index = torch.empty(key.numel(), dtype=torch.int32, device=key.device)
        perm = torch.empty(key.numel(), dtype=torch.int64, device=key.device)
        suffix = "i32" if key.dtype == torch.int32 else "i64"
        self.call(f"tgnn_group_{suffix}", key, other, key.numel(), num_groups, ptr, index, perm)
        return ptr, index, perm

    def group_both(self, edge_index: Tensor, num_src: int, num_dst: int) -> tuple[Tensor, list[int], list[int]]:
        """Check an ``edge_index`` (int64, contiguous) and group it by destination and by source, in one call.

        Returns a buffer with both forms, the positions of their ``ptr``, ``index`` (as int32) and ``perm`` in it, and
        the smallest and largest source and destination, and whether the sources and the destinations are sorted. If
        nodes are out of range, or the edges are sorted, the forms or ``perm`` are undefined.
        """
        edges = edge_index.size(1)
        half = (edges + 1) // 2  # int32 numbers take half the space
        of_src = num_dst + 1 + edges + half
        places = [0, num_dst + 1, num_dst + 1 + half, of_src, of_src + num_src + 1, of_src + num_src + 1 + half]
        buffer = edge_index.new_empty(of_src + num_src + 1 + edges + half)
        address, found = buffer.data_ptr(), (ctypes.c_int64 * 6)()
        forms = [address + 8 * place for place in places]
        self.call("tgnn_group_both_i64", edge_index, edges, num_src, num_dst, *forms, ctypes.addressof(found))
        return buffer, places, list(found)


_NOT_TENSORS = {int, bool, float, type(None), type(ctypes.byref(ctypes.c_int()))}  # the last: a structure by reference


# ---- loading ---------------------------------------------------------------------------------------------------

_lock = threading.RLock()
_outcome: Library | BuildUnavailableError | None = None


def load() -> Library | None:
    """Load the kernels, compiled first if needed; return ``None`` (logged once) if this is not possible."""
    global _outcome
    if _outcome is None:
        with _lock:
            if _outcome is None:
                try:
                    _outcome = _find_or_build()
                except (BuildUnavailableError, OSError, RuntimeError, ValueError) as reason:
                    _outcome = BuildUnavailableError(str(reason))
                    logger.warning("tgnn: the C++ kernels are not used, the torch backend is used instead: %s", reason)
    return _outcome if isinstance(_outcome, Library) else None


def why_unavailable() -> str | None:
    """Return why :func:`load` returns ``None``, or ``None`` if the kernels are available."""
    load()
    return str(_outcome) if isinstance(_outcome, BuildUnavailableError) else None


def _new_lock_after_fork() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock_after_fork)


def _find_or_build() -> Library:
    if sys.platform not in ("linux", "darwin"):
        raise BuildUnavailableError(f"they support Linux and macOS only, but this is {sys.platform}")
    folder = _private_folder()
    compiler = _compiler()
    name = f"kernels-{_fingerprint()}-"
    if compiler is not None:
        name += f"{_compiler_fingerprint(compiler)}-"
    # Without a compiler, use a cached library that any compiler has built.
    if library := _find(folder, name):
        return library
    if compiler is None:
        raise BuildUnavailableError("no C++ compiler was found (install g++ or clang++, or set CXX)")
    with _exclusive(folder):
        return _find(folder, name) or _build(compiler, folder, name)


def _find(folder: Path, name: str) -> Library | None:
    """Return the first cached library of that name that is complete and that no other user can have written."""
    for path in sorted(folder.glob(f"{name}*.so")):
        with contextlib.suppress(OSError, AttributeError, BuildUnavailableError):
            _refuse_if_others_can_write(path)
            if path.stem.endswith(_digest(path)):  # loading a damaged library would crash the process
                return Library(path)
    return None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _build(compiler: list[str], folder: Path, name: str) -> Library:
    command, reason = " ".join(compiler), ""
    logger.info("tgnn: compiling the C++ kernels with %s (once per machine)", command)
    for parallel in _PARALLEL:
        try:
            with tempfile.TemporaryDirectory(dir=folder, prefix="build-") as scratch:
                library = _compile(compiler, parallel, Path(scratch))
                library.chmod(0o700)
                Library(library)  # raises if these flags gave a library that does not load
                path = folder / f"{name}{_digest(library)}.so"
                os.replace(library, path)
            return Library(path)
        except subprocess.CalledProcessError as error:
            reason = reason or f"{command} failed: {_first_error(error.stderr)}"
        except subprocess.TimeoutExpired:
            reason = reason or f"{command} did not finish within {_BUILD_SECONDS} seconds"
        except (OSError, AttributeError) as error:
            reason = reason or f"the library that {command} built in {folder} cannot be loaded: {error}"
    raise BuildUnavailableError(reason)


def _compile(compiler: list[str], parallel: list[str], scratch: Path) -> Path:
    """Compile the parts of ``cpu.cpp`` in parallel, and link them."""

    def run(command: list[str]) -> None:
        subprocess.run(command, check=True, capture_output=True, text=True, errors="replace", timeout=_BUILD_SECONDS)

    library, objects = scratch / "kernels.so", [str(scratch / f"part{part}.o") for part in range(_PARTS)]
    compile_part = [*compiler, *_flags(), *parallel, "-c", str(_SOURCES[0])]
    with ThreadPoolExecutor(_PARTS) as pool:
        parts = [pool.submit(run, [*compile_part, f"-DTGNN_PART={i}", "-o", name]) for i, name in enumerate(objects)]
        for part in parts:
            part.result()
    run([*compiler, "-shared", *objects, "-o", str(library), *_link_flags()])
    return library


def _flags() -> list[str]:
    apple_silicon = sys.platform == "darwin" and platform.machine() == "arm64"
    flags = ["-O3", "-std=c++17", "-fPIC", "-DNDEBUG", "-fno-math-errno", "-DAT_PARALLEL_OPENMP=1"]
    flags += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-I{_TORCH / 'include'}"]
    flags += ["-mcpu=native" if apple_silicon else "-march=native"]
    return flags + (["-mprefer-vector-width=512"] if platform.machine() == "x86_64" else [])


def _link_flags() -> list[str]:
    folder = _TORCH / "lib"
    return [f"-L{folder}", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{folder}"] + (
        ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    )


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no error message")


# ---- the file name of a library --------------------------------------------------------------------------------


def _compiler() -> list[str] | None:
    """Return the compiler command. ``CXX`` may contain arguments, such as ``ccache g++``."""
    requested = shlex.split(os.environ.get("CXX", ""))
    for command in [requested] if requested else [["g++"], ["c++"], ["clang++"]]:
        if executable := shutil.which(command[0]):
            return [executable, *command[1:]]
    return None


def _fingerprint() -> str:
    parts = [source.read_bytes() for source in _SOURCES]
    parts += [repr((_flags(), _link_flags(), torch.__version__, torch.version.git_version)).encode(), _cpu()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]


def _compiler_fingerprint(compiler: list[str]) -> str:
    real = Path(compiler[0]).resolve()
    info = real.stat()
    return hashlib.sha256(f"{real} {compiler[1:]} {info.st_size} {info.st_mtime_ns}".encode()).hexdigest()[:12]


def _cpu() -> bytes:
    """Describe the CPU, which ``-march=native`` depends on."""
    with contextlib.suppress(OSError):
        fields = (b"model name", b"flags", b"Features", b"CPU part")
        lines = {line for line in Path("/proc/cpuinfo").read_bytes().splitlines() if line.startswith(fields)}
        return b"\n".join(sorted(lines))
    return repr((platform.machine(), platform.processor(), platform.release())).encode()


# ---- the cache folder ------------------------------------------------------------------------------------------


def _private_folder() -> Path:
    folder = make_cache_dir()
    _refuse_if_others_can_write(folder)
    folder = folder.resolve()
    for parent in folder.parents:  # a user who can write to a parent folder could replace the cache folder
        info = parent.stat()
        shared = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not info.st_mode & stat.S_ISVTX
        if shared or info.st_uid not in (0, os.geteuid()):
            raise BuildUnavailableError(
                f"other users can replace the cache folder {folder}, because they can write to {parent}"
            )
    return folder


def _refuse_if_others_can_write(path: Path) -> None:
    """Raise an error if other users can write this path: a library that is not ours must not be loaded."""
    try:
        info = path.lstat()
    except OSError as error:
        raise BuildUnavailableError(f"{path}: {error}") from None
    if stat.S_ISLNK(info.st_mode):
        raise BuildUnavailableError(f"{path} is a symbolic link; remove it or set TGNN_CACHE_DIR")
    if info.st_uid != os.geteuid():
        raise BuildUnavailableError(f"{path} belongs to another user; set TGNN_CACHE_DIR to a folder that you own")
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BuildUnavailableError(f"{path} is writable by other users; run: chmod go-w {path}")


@contextlib.contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Let one process compile while the others wait. If locks do not work, all compile; the final move is atomic."""
    import fcntl  # does not exist on Windows, where this module is imported too

    try:
        handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BuildUnavailableError(
            f"the cache folder {folder} is not writable: {error} (set TGNN_CACHE_DIR)"
        ) from None
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
