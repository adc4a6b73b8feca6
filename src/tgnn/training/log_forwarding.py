"""Forward log records from worker processes to the main process."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from logging.handlers import QueueHandler
from multiprocessing.context import SpawnContext
from typing import Any


@contextlib.contextmanager
def receive_logs(context: SpawnContext) -> Iterator[Any]:
    """Yield a queue for :func:`send_logs_to`, and handle the records that arrive in it."""
    queue: Any = context.Queue()
    thread = threading.Thread(target=_handle_records, args=(queue,), daemon=True)
    thread.start()
    try:
        yield queue
    finally:
        queue.put(None)
        thread.join(timeout=2)  # a killed process may have left the queue locked
        queue.cancel_join_thread()


def send_logs_to(queue: Any) -> None:
    """Send the log records of this process to the main process.

    Args:
        queue: From :func:`receive_logs`.
    """
    logger = logging.getLogger("tgnn")
    logger.handlers, logger.propagate = [QueueHandler(queue)], False
    logger.setLevel(logging.INFO)
    queue.cancel_join_thread()  # do not wait for the queue when this process ends


def _handle_records(queue: Any) -> None:
    while (record := queue.get()) is not None:
        logging.getLogger(record.name).handle(record)


@contextlib.contextmanager
def mute_logs() -> Iterator[None]:
    """Discard the log records of this thread. Other threads still log."""
    own_thread, logger = threading.get_ident(), logging.getLogger("tgnn")

    def is_from_other_thread(record: logging.LogRecord) -> bool:
        return record.thread != own_thread

    logger.addFilter(is_from_other_thread)
    try:
        yield
    finally:
        logger.removeFilter(is_from_other_thread)
