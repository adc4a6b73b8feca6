"""Things made ahead of the one who wants them, by threads: sampling and copying rows do not hold Python's lock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


def prefetched(make: Callable[[int], T], count: int, workers: int, ahead: int) -> Iterator[T]:
    """``make(0)`` to ``make(count - 1)``, in order. What one of them raises is raised where it would be given.

    Whoever stops early closes the iterator, or lets it go: what is not begun is never made.

    Args:
        make: Called by several threads at once.
        count: How many.
        workers: Threads; 0: each is made when it is asked for, by who asks.
        ahead: How many may be made, or be in the making, before they are asked for.

    Example:
        >>> list(prefetched(lambda number: number**2, 5, workers=2, ahead=3))
        [0, 1, 4, 9, 16]
    """
    if workers == 0:
        yield from map(make, range(count))
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="tgnn-prefetch")
    try:
        waiting: deque[Future[T]] = deque(pool.submit(make, number) for number in range(min(ahead, count)))
        for number in range(count):
            made = waiting.popleft().result()
            if number + ahead < count:
                waiting.append(pool.submit(make, number + ahead))
            yield made
    finally:
        pool.shutdown(cancel_futures=True)


class Timed(Generic[T]):
    """Things as they come, and the time that was spent waiting for them.

    Args:
        things: To wait for.
    """

    def __init__(self, things: Iterator[T]) -> None:
        self._things, self._began, self._ended, self._waited = things, time.perf_counter(), 0.0, 0.0

    def __iter__(self) -> Iterator[T]:
        while True:
            asked = time.perf_counter()
            thing = next(self._things, None)
            self._ended = time.perf_counter()
            self._waited += self._ended - asked
            if thing is None:
                return
            yield thing

    def share_waited(self) -> float:
        """Of the time from the beginning to the end of the things, the share in which nobody had any."""
        return round(self._waited / max(self._ended - self._began, 1e-9), 4)
