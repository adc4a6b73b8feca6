"""A real server on this machine that behaves badly in a way of the test's choosing."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """What it serves, how it behaves, and what it was asked.

    ``behavior``: ``"good"``; ``"no-range"`` (sends everything again); ``"dies"`` (closes in the middle, the first
    ``failures`` times); ``"long"`` / ``"short"`` (says more / less than it sends); ``"slow"`` (a byte now and then);
    ``"silent"``; a number (that status).
    """

    def __init__(self, content: bytes, behavior: str | int = "good", failures: int = 1_000) -> None:
        self.content, self.behavior, self.failures = content, behavior, failures
        self.asked: list[str | None] = []
        self.url = ""

    @contextlib.contextmanager
    def running(self) -> Iterator[Server]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    outer.answer(self)

            def log_message(self, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}/folder/data.bin"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append(request.headers.get("Range"))
        if isinstance(self.behavior, int):
            request.send_error(self.behavior)
            return
        if self.behavior == "silent":
            time.sleep(2)
            return
        first, status = 0, 200
        if (wanted := request.headers.get("Range")) and self.behavior != "no-range":
            first, status = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
            if first >= len(self.content):
                request.send_error(416)
                return
        body = self.content[first:]
        length = {"long": len(body) + 100, "short": len(body) // 2}.get(self.behavior, len(body))
        request.send_response(status)
        request.send_header("Content-Length", str(length))
        if status == 206:
            request.send_header("Content-Range", f"bytes {first}-{len(self.content) - 1}/{len(self.content)}")
        request.end_headers()
        if self.behavior == "slow":
            for byte in body:
                request.wfile.write(bytes([byte]))
                request.wfile.flush()
                time.sleep(0.02)
            return
        if self.behavior == "dies" and self.failures > 0:
            self.failures -= 1
            request.wfile.write(body[: len(body) // 2])
            request.wfile.flush()
            request.connection.close()
            return
        request.wfile.write(body)
