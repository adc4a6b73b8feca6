"""Start several processes with torch's elastic launcher, which restarts all of them if one is killed."""

from __future__ import annotations

import logging
import os
import tempfile
import uuid
from collections.abc import Callable

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, launch_agent

MAX_RESTARTS = 3
_SHUTDOWN_TIMEOUT = "600"
"""Seconds that interrupted processes have to finish an epoch."""


class TooManyRestartsError(ChildProcessError):
    """The processes were restarted too often."""

    exit_code = 1


def launch(work: Callable[[list[str]], int], arguments: list[str], processes: int) -> int:
    """Run a function in several processes, and return the largest exit code.

    Args:
        work: Returns an exit code. If a process ends otherwise, all processes are restarted.
        arguments: Arguments of ``work``.
        processes: Number of processes.
    """
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
