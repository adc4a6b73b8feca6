"""Interrupts: finish the epoch and save a checkpoint on Ctrl-C (SIGINT) and SIGTERM."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

_DUPLICATE_SECONDS = 1.0
"""A second Ctrl-C within this time is the same one, forwarded by a parent process."""


class Interrupted(KeyboardInterrupt):
    """Training was interrupted after it saved a checkpoint."""


_active: threading.Event | None = None
"""The event of the outermost :func:`catch_interrupts`."""


@contextlib.contextmanager
def catch_interrupts() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set. A second Ctrl-C raises ``KeyboardInterrupt``.

    Nested calls share one event.
    """
    global _active
    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()
        return
    if _active is not None:
        yield _active
        return
    event, first = threading.Event(), 0.0

    def set_event(number: int, frame: Any) -> None:
        nonlocal first
        if event.is_set() and number == signal.SIGINT and time.monotonic() - first > _DUPLICATE_SECONDS:
            raise KeyboardInterrupt
        first = first or time.monotonic()
        event.set()

    before = {number: signal.signal(number, set_event) for number in (signal.SIGINT, signal.SIGTERM)}
    _active = event
    try:
        yield event
    finally:
        _active = None
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Raise :class:`Interrupted` on SIGTERM, where there is nothing to save."""

    def stop(number: int, frame: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def delay_interrupts() -> Iterator[None]:
    """Block Ctrl-C while processes are started. They inherit the block, so that only their parent receives Ctrl-C."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
