"""Being asked to stop, by Ctrl-C or a polite kill: what is under way is saved first."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

_SAME = 1.0
"""Seconds within which a second Ctrl-C is the same one: programs that start others hand it on."""


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop, and has saved where it was."""


_listens: threading.Event | None = None
"""What is set, while somebody listens."""


@contextlib.contextmanager
def catch_interrupts() -> Iterator[threading.Event]:
    """Set by Ctrl-C or a polite kill: the epoch is finished and saved. A second Ctrl-C stops at once.

    One within another is the same: what was asked of the outer is asked of the inner.
    """
    global _listens
    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()
        return
    if _listens is not None:
        yield _listens
        return
    event, first = threading.Event(), 0.0

    def note(number: int, frame: Any) -> None:
        nonlocal first
        if event.is_set() and number == signal.SIGINT and time.monotonic() - first > _SAME:
            raise KeyboardInterrupt
        first = first or time.monotonic()
        event.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    _listens = event
    try:
        yield event
    finally:
        _listens = None
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Where nothing is to be saved, a polite kill is what Ctrl-C is: :class:`Interrupted`, at once."""

    def stop(number: int, frame: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def delay_interrupts() -> Iterator[None]:
    """Processes that are begun in here never see Ctrl-C, which goes to all: the one that began them asks them."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
