"""Who may say something."""

from __future__ import annotations

import logging
import threading

from tgnn.training.log_forwarding import quietly


def test_one_thread_is_quiet_and_the_others_are_heard(caplog):
    logger = logging.getLogger("tgnn")
    with caplog.at_level("INFO", logger="tgnn"):
        with quietly():
            logger.info("mine")
            with quietly():
                pass
            logger.info("still mine")
            other = threading.Thread(target=logger.info, args=("another's",))
            other.start()
            other.join()
        logger.info("mine again")
    assert [record.getMessage() for record in caplog.records] == ["another's", "mine again"]
