"""Who may say something: other processes through the one that the user looks at, and trials nothing."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from logging.handlers import QueueHandler
from multiprocessing.context import SpawnContext
from typing import Any


@contextlib.contextmanager
def listening(context: SpawnContext) -> Iterator[Any]:
    """A queue for :func:`send_logs_to`; what comes through it is said here while this lasts."""
    said: Any = context.Queue()
    thread = threading.Thread(target=_repeat, args=(said,), daemon=True)
    thread.start()
    try:
        yield said
    finally:
        said.put(None)
        thread.join(timeout=2)  # a process that was killed may have left the queue locked
        said.cancel_join_thread()


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """This thread says nothing while this lasts; others may."""
    mine, logger = threading.get_ident(), logging.getLogger("tgnn")

    def others(record: logging.LogRecord) -> bool:
        return record.thread != mine

    logger.addFilter(others)
    try:
        yield
    finally:
        logger.removeFilter(others)


def send_logs_to(said: Any) -> None:
    """In another process: warnings and news go through the queue.

    Args:
        said: From :func:`listening`.
    """
    logger = logging.getLogger("tgnn")
    logger.handlers, logger.propagate = [QueueHandler(said)], False
    logger.setLevel(logging.INFO)
    said.cancel_join_thread()  # nor does it wait at its own end


def _repeat(said: Any) -> None:
    while (record := said.get()) is not None:
        logging.getLogger(record.name).handle(record)
