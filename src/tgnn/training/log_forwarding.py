"""Forward log records from worker processes to the main process."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from logging.handlers import QueueHandler, QueueListener
from multiprocessing.context import SpawnContext
from typing import Any


class _LogListener(QueueListener):
    """Pass every record to the logger of its name, so that levels, filters and handlers of this process apply."""

    def handle(self, record: logging.LogRecord) -> None:
        logging.getLogger(record.name).handle(record)


@contextlib.contextmanager
def receive_logs(context: SpawnContext) -> Iterator[Any]:
    """Yield a queue for :func:`send_logs_to`, and handle the records that arrive in it."""
    queue: Any = context.Queue()
    listener = _LogListener(queue)
    listener.start()
    try:
        yield queue
    finally:
        stopping = threading.Thread(target=listener.stop, daemon=True)
        stopping.start()
        stopping.join(timeout=2)  # a killed process may have left the queue locked
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
