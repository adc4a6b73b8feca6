"""Muting the log records of one thread."""

from __future__ import annotations

import logging
import threading

from tgnn.training.parallel_runs import mute_logs


def test_one_thread_is_muted_and_others_are_logged(caplog):
    logger = logging.getLogger("tgnn")
    with caplog.at_level("INFO", logger="tgnn"):
        with mute_logs():
            logger.info("mine")
            with mute_logs():
                pass
            logger.info("still mine")
            other = threading.Thread(target=logger.info, args=("another's",))
            other.start()
            other.join()
        logger.info("mine again")
    assert [record.getMessage() for record in caplog.records] == ["another's", "mine again"]
