"""The processes of a torchrun job: start them, join them, and report an error of one process to the others."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from tgnn.training.distributed.world import World

TIMEOUT = 300.0
"""Seconds to wait for the other processes at the start."""
MAX_RESTARTS = 3
_SHUTDOWN_TIMEOUT = "600"
"""Seconds that interrupted processes have to finish an epoch."""
_PORT_KEY, _ERROR_KEY, _READERS_KEY = "tgnn/port", "tgnn/error", "tgnn/readers"
"""Keys of the store that the processes share."""
_CONNECTION_WORDS = ("gloo", "nccl", "connection", "socket", "broken pipe")
"""Words in torch's errors about a lost connection to another process."""


class TooManyRestartsError(ChildProcessError):
    """The processes were restarted too often."""

    exit_code = 1


class RendezvousError(ValueError):
    """The processes could not connect to each other."""


class LostProcessError(ConnectionError):
    """The connection to another process was lost. torchrun restarts all processes, if restarts are left."""

    exit_code = getattr(os, "EX_TEMPFAIL", 75)


class RemoteProcessError(ValueError):
    """Another process failed. The message is its error."""


def launch(work: Callable[[list[str]], int], arguments: list[str], processes: int) -> int:
    """Run a function in several processes with torch's elastic launcher, and return the largest exit code.

    If a process ends in another way than with an exit code of ``work``, all processes are restarted.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, launch_agent

    for name in ("torch.distributed.elastic", "torch.multiprocessing"):
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False  # torch logs a traceback for every killed process
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", _SHUTDOWN_TIMEOUT)
    with tempfile.TemporaryDirectory() as folder:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",  # any free port
            max_restarts=MAX_RESTARTS,
            monitor_interval=0.1,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        try:
            codes: dict[int, int] = launch_agent(config, work, [arguments])
        except SignalException:
            return 130
        except ChildFailedError as error:
            code = next(iter(error.failures.values())).exitcode
            raise TooManyRestartsError(
                f"A process ended with exit code {code}, {MAX_RESTARTS + 1} times. The last checkpoint is kept."
            ) from None
    return max(codes.values())


@contextlib.contextmanager
def join_world(timeout: float = TIMEOUT) -> Iterator[World]:
    """Join the processes of a torchrun job. Without torchrun, or with one process, the world has size 1."""
    world = _read_world()
    if world.size == 1:
        yield world
        return
    store = _connect(world, timeout)
    try:
        yield world
        world.any(False)  # a barrier: no process leaves before all are done
    except Exception as error:
        if isinstance(error, RuntimeError) and _is_connection_error(error):
            raise _explain_lost_process(store, world, error) from error
        _report_error(store, world, error)
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _read_world() -> World:
    """Read the world from the environment variables of torchrun (or of a cluster)."""
    environment = os.environ
    job_id = environment.get("TORCHELASTIC_RUN_ID", "none")
    size = int(environment.get("WORLD_SIZE", "1")) if "RANK" in environment else 1
    return World(
        rank=int(environment["RANK"]) if size > 1 else 0,
        size=size,
        local_rank=int(environment.get("LOCAL_RANK", "0")),
        local_size=int(environment.get("LOCAL_WORLD_SIZE", "1")),
        job_id=None if job_id == "none" else job_id,
        restarts=int(environment.get("TORCHELASTIC_RESTART_COUNT", "0")),
    )


def _connect(world: World, timeout: float) -> Any:
    """Initialize torch.distributed, and return the store that the processes share."""
    address = f"{os.environ.get('MASTER_ADDR', '?')}:{os.environ.get('MASTER_PORT', '?')}"
    try:
        store = _make_store(world, timeout)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=store, rank=world.rank, world_size=world.size)
        world.any(False)  # a barrier: all processes are connected
    except (RuntimeError, ValueError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise RendezvousError(
            f"Rank {world.rank} of {world.size} could not connect to the other processes at {address}: {reason}\n"
            "MASTER_ADDR and MASTER_PORT (torchrun --rdzv-endpoint) must name a machine that all processes can reach, "
            "and a free port on it."
        ) from error
    return store


def _make_store(world: World, timeout: float) -> Any:
    """Create a store on rank 0.

    torchrun has a store too, but keeps it when it restarts the processes. Its old entries confuse torch
    (https://github.com/pytorch/pytorch/issues/135712). torchrun's store therefore only holds the port of this one.
    """
    limit = timedelta(seconds=timeout)
    store: Any = next(rendezvous("env://", world.rank, world.size, timeout=limit))[0]
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return store
    host, end = os.environ["MASTER_ADDR"], time.monotonic() + timeout
    if world.is_rank_zero:
        own = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=limit)
        store.set(_PORT_KEY, str(own.port))
        return own
    while True:
        port = int(store.get(_PORT_KEY))
        try:
            socket.create_connection((host, port), timeout=1).close()
            return TCPStore(host, port, is_master=False, timeout=limit)
        except OSError:  # the port of a process before the restart
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _is_connection_error(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in text for word in _CONNECTION_WORDS)


def _report_error(store: Any, world: World, error: Exception) -> None:
    """Store the error for the other processes. Rank 0 owns the store and waits until they have read it."""
    with contextlib.suppress(RuntimeError):
        store.set(_ERROR_KEY, f"Rank {world.rank}: {error}")
        store.add(_READERS_KEY, int(not world.is_rank_zero))  # this process need not read it
        if world.is_rank_zero:
            dist.destroy_process_group()
            end = time.monotonic() + 5
            while store.add(_READERS_KEY, 0) < world.size - 1 and time.monotonic() < end:
                time.sleep(0.05)


def _explain_lost_process(store: Any, world: World, error: Exception) -> Exception:
    """Return the error that another process has reported, or that the connection was lost."""
    with contextlib.suppress(RuntimeError):
        time.sleep(0.1)  # the report and the end of the process arrive on different connections
        if store.check([_ERROR_KEY]):
            store.add(_READERS_KEY, 1)
            return RemoteProcessError(store.get(_ERROR_KEY).decode())
    return LostProcessError(
        f"Rank {world.rank} of {world.size} lost the connection to another process: {str(error).splitlines()[0]}"
    )
