"""Becoming one of several processes, as torchrun's environment says, and leaving again: who fails tells the others."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from tgnn.training.distributed.distributed_world import DistributedWorld
from tgnn.training.distributed.world import World

MEET = 300.0
"""Seconds to wait for the others at the beginning."""
_PORT, _WHY, _READ = "tgnn/port", "tgnn/why", "tgnn/read"
"""Notes that processes leave for each other."""
_SIGNS = ("gloo", "nccl", "connection", "socket", "broken pipe")
"""Words in errors of torch that say that another process is gone."""


class RendezvousError(ValueError):
    """The processes could not find each other."""


class LostProcessError(ConnectionError):
    """Another process is gone; torchrun starts all again, if it may."""

    exit_code = getattr(os, "EX_TEMPFAIL", 75)


class RemoteProcessError(ValueError):
    """Another process could not go on, and said why."""


@contextlib.contextmanager
def joined(seconds: float = MEET) -> Iterator[World]:
    """The world that this process is part of, while this lasts; without torchrun, or with one process, it is alone.

    Args:
        seconds: To wait for the others.
    """
    about = _about()
    if about["size"] == 1:
        yield World(**about)
        return
    world = DistributedWorld(**about)
    store = _meet(world, seconds)
    try:
        yield world
        world.any(False)  # nobody goes before all are done
    except Exception as error:
        if isinstance(error, RuntimeError) and _is_lost(error):
            raise _reason(store, world, error) from error
        _tell(store, world, error)
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _about() -> dict[str, Any]:
    """Of the world, from what torchrun (or a cluster) has put into the environment."""
    found = os.environ
    job = found.get("TORCHELASTIC_RUN_ID", "none")
    size = int(found.get("WORLD_SIZE", "1")) if "RANK" in found else 1
    return {
        "rank": int(found["RANK"]) if size > 1 else 0,
        "size": size,
        "local_rank": int(found.get("LOCAL_RANK", "0")),
        "local_size": int(found.get("LOCAL_WORLD_SIZE", "1")),
        "job": None if job == "none" else job,
        "restarts": int(found.get("TORCHELASTIC_RESTART_COUNT", "0")),
    }


def _meet(world: World, seconds: float) -> Any:
    """Finds the others; gives where notes can be left for them."""
    place = f"{os.environ.get('MASTER_ADDR', '?')}:{os.environ.get('MASTER_PORT', '?')}"
    try:
        store = _notes(world, seconds)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=store, rank=world.rank, world_size=world.size)
        world.any(False)  # all are here
    except (RuntimeError, ValueError, OSError) as error:
        why = str(error).splitlines()[0]
        raise RendezvousError(
            f"rank {world.rank} of {world.size} could not meet the others at {place}: {why}\n"
            "MASTER_ADDR and MASTER_PORT (torchrun --rdzv-endpoint) must name a machine that all can reach, and a port "
            "that is free there"
        ) from error
    return store


def _notes(world: World, seconds: float) -> Any:
    """A place for notes, in the first process.

    torchrun has one too, but keeps it when it starts processes again: there lie notes of those who are gone, and torch
    takes them for new ones (https://github.com/pytorch/pytorch/issues/135712). So it is told only where ours is.
    """
    patience = timedelta(seconds=seconds)
    store: Any = next(rendezvous("env://", world.rank, world.size, timeout=patience))[0]
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return store
    host, end = os.environ["MASTER_ADDR"], time.monotonic() + seconds
    if world.first:
        own = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=patience)
        store.set(_PORT, str(own.port))
        return own
    while True:
        port = int(store.get(_PORT))
        try:
            socket.create_connection((host, port), timeout=1).close()
            return TCPStore(host, port, is_master=False, timeout=patience)
        except OSError:  # that was the place of one who is gone
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _is_lost(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(sign in text for sign in _SIGNS)


def _tell(store: Any, world: World, error: Exception) -> None:
    """Leaves a note, for those who will find this process gone; the first waits until it is read."""
    with contextlib.suppress(RuntimeError):
        store.set(_WHY, f"rank {world.rank}: {error}")
        store.add(_READ, int(not world.first))  # it knows enough
        if world.first:
            dist.destroy_process_group()
            end = time.monotonic() + 5
            while store.add(_READ, 0) < world.size - 1 and time.monotonic() < end:
                time.sleep(0.05)


def _reason(store: Any, world: World, error: Exception) -> Exception:
    """Why another process is gone, if it said so."""
    with contextlib.suppress(RuntimeError):
        time.sleep(0.1)  # the note is left before the process goes, but by another way
        if store.check([_WHY]):
            store.add(_READ, 1)
            return RemoteProcessError(store.get(_WHY).decode())
    return LostProcessError(f"rank {world.rank} of {world.size} lost another process: {str(error).splitlines()[0]}")
