"""Local web server for the report page, which updates while runs are training."""

from __future__ import annotations

import errno
import sys
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tgnn.report.collect import NoRunsFoundError, ReportReader
from tgnn.report.render import policy, render

HOST = "127.0.0.1"
_NAMES = {HOST, "localhost"}
_HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": f"{policy(live=True)}; frame-ancestors 'none'",
}


class ReportServer(ThreadingHTTPServer):
    """HTTP server that renders the current page. A browser with an up-to-date page gets a 304 response.

    Args:
        paths: Files and folders to show.
        port: Port to listen on. 0 chooses a free port.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, paths: Sequence[Path], port: int) -> None:
        self._reader = ReportReader(paths)
        self._lock = threading.Lock()
        self._page: tuple[str, bytes] = ("", b"")
        self._read_at = 0.0
        self.page()  # raises before the port is opened if there is nothing to show
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise OSError(
                f"port {port} is in use by another program; choose another one, for example --port {port + 1}"
            ) from error

    @property
    def address(self) -> str:
        """URL of the page."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def page(self) -> tuple[str, bytes]:
        """Return the version stamp and the HTML of the current page."""
        requested = time.monotonic()
        with self._lock:
            if self._read_at < requested:  # else another request has read the files while this one waited
                self._read_at = time.monotonic()
                contents = self._reader.read()
                if contents.stamp != self._page[0]:
                    self._page = contents.stamp, render(contents, live=True).encode()
            return self._page

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore closed connections and print other errors."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer
    timeout = 10.0  # seconds until a client that sends or reads nothing is dropped

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self.headers.get("Host", "").partition(":")[0] not in _NAMES:  # protects against DNS rebinding
            self.send_error(403)
            return
        if self.path != "/":
            self.send_error(404)
            return
        try:
            stamp, text = self.server.page()
        except NoRunsFoundError as error:
            self._respond(503, "", str(error).encode(), "text/plain; charset=utf-8")
            return
        tag = f'"{stamp}"'
        if self.headers.get("If-None-Match") == tag:
            self._respond(304, tag, b"")
        else:
            self._respond(200, tag, text)

    def _respond(self, code: int, tag: str, body: bytes, content_type: str = "text/html; charset=utf-8") -> None:
        self.send_response(code)
        if code != 304:
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", tag)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def end_headers(self) -> None:
        """Add the headers of every response."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the access log."""
