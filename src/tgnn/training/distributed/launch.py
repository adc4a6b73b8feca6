"""Several processes on this machine: torch's own elastic launcher, which starts all again when one is killed."""

from __future__ import annotations

import logging
import os
import tempfile
import uuid
from collections.abc import Callable

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, launch_agent

RESTARTS = 3
_PATIENCE = "600"
"""Seconds in which those that are asked to stop can finish an epoch."""


class TooManyRestartsError(ChildProcessError):
    """Processes were lost too often."""

    exit_code = 1


def launch(work: Callable[[list[str]], int], words: list[str], processes: int) -> int:
    """Does the same work in some processes, and gives the largest exit code.

    Args:
        work: Gives an exit code. A process that ends otherwise was lost: then all begin again.
        words: For it.
        processes: How many.
    """
    for name in ("torch.distributed.elastic", "torch.multiprocessing"):
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False  # they show tracebacks of their own where a process was killed
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", _PATIENCE)
    with tempfile.TemporaryDirectory() as folder:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",  # any port that is free
            max_restarts=RESTARTS,
            monitor_interval=0.1,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        try:
            codes: dict[int, int] = launch_agent(config, work, [words])
        except SignalException:
            return 130
        except ChildFailedError as error:
            code = next(iter(error.failures.values())).exitcode
            raise TooManyRestartsError(
                f"a process ended with {code}, {RESTARTS + 1} times; what was saved is kept"
            ) from None
    return max(codes.values())
