"""The page on this machine, for as long as runs go on."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tgnn.report.collect import Reader
from tgnn.report.discover import NoRunsFoundError
from tgnn.report.render import render

HOST = "127.0.0.1"
_NAMES = {HOST, "localhost"}


class PortInUseError(OSError):
    """Another program listens there."""


class Server(ThreadingHTTPServer):
    """Answers with the page as it is now; a browser that has it already is told so.

    Args:
        paths: Files and folders to show.
        port: Where to listen; 0: any that is free.
    """

    daemon_threads = True

    def __init__(self, paths: Sequence[Path], port: int) -> None:
        self._reader = Reader(paths)
        self._lock = threading.Lock()
        self._page: tuple[str, bytes] = ("", b"")
        self.page()  # nothing to show is an error before anything is promised
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise PortInUseError(
                f"port {port} is taken by another program; choose another: --port {port + 1}"
            ) from error

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def page(self) -> tuple[str, bytes]:
        """Its stamp and its text."""
        with self._lock:
            contents = self._reader.read()
            if contents.stamp != self._page[0]:
                self._page = contents.stamp, render(contents, live=True).encode()
            return self._page

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is nobody's mistake; the terminal belongs to the user."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.headers.get("Host", "").partition(":")[0] not in _NAMES:  # a page elsewhere that found its way here
            self.send_error(403)
            return
        if self.path != "/":
            self.send_error(404)
            return
        try:
            stamp, text = self.server.page()
        except NoRunsFoundError as error:
            self._answer(503, "", str(error).encode(), "text/plain; charset=utf-8")
            return
        tag = f'"{stamp}"'
        if self.headers.get("If-None-Match") == tag:
            self._answer(304, tag, b"")
        else:
            self._answer(200, tag, text)

    def _answer(self, code: int, tag: str, body: bytes, kind: str = "text/html; charset=utf-8") -> None:
        self.send_response(code)
        if code != 304:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", tag)
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal belongs to the user."""
