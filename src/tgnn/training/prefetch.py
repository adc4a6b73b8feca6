"""Prefetching: prepare batches in threads before they are needed. Sampling and copying release the GIL."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetched(make: Callable[[int], T], count: int, workers: int, ahead: int) -> Iterator[T]:
    """Yield ``make(0)`` to ``make(count - 1)`` in order, made ahead by threads. An error is raised at its position.

    Closing the iterator early cancels the items that have not been started.

    Args:
        make: Makes one item. Several threads call it at the same time.
        count: Number of items.
        workers: Number of threads; 0: each item is made by the consumer, when it is needed.
        ahead: Maximum number of items that are made or in the making before they are consumed.

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
