"""Small archives, harmful pickles, and a local HTTP server that fails in a chosen way."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CONTENT = bytes(range(256)) * 2_000
"""Content of a file that archives hold and servers send."""


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, members: dict[str, bytes], link: str | None = None) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo("inner/link")
            info.type, info.linkname = tarfile.SYMTYPE, link
            archive.addfile(info)
    return path


def left_behind(folder: Path) -> list[str]:
    """Return the names of all files in a folder."""
    return sorted(path.name for path in folder.iterdir())


class Poison:
    """An object whose pickle creates the file ``poisoned`` in the current folder."""

    def __reduce__(self):
        return os.system, ("touch poisoned",)


# ---- server ----------------------------------------------------------------------------------------------------


class Server:
    """What it serves, how it behaves, and what it was asked.

    Args:
        content: The file that it serves at every address.
        behavior: ``"good"``, ``"no-range"`` (sends the whole file again), ``"dies"`` (closes the connection in the
            middle), ``"long"`` or ``"short"`` (announces more or less than it sends), ``"silent"``, or an HTTP status.
        failures: Number of times that it dies.
        tag: ETag of the file. Empty: it sends none.
        conditional: Whether it compares the version that it is asked for (``If-Range``) with its own.
        shift: Number of bytes by which it resumes too late.
    """

    def __init__(
        self,
        content: bytes,
        behavior: str | int = "good",
        failures: int = 1_000,
        tag: str = '"1"',
        conditional: bool = True,
        shift: int = 0,
    ) -> None:
        self.content, self.behavior, self.failures = content, behavior, failures
        self.tag, self.conditional, self.shift = tag, conditional, shift
        self.asked: list[str | None] = []
        self.conditions: list[str | None] = []
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
        wanted, condition = request.headers.get("Range"), request.headers.get("If-Range")
        self.asked.append(wanted)
        self.conditions.append(condition)
        if isinstance(self.behavior, int):
            request.send_error(self.behavior)
            return
        if self.behavior == "silent":
            time.sleep(2)
            return
        first, status = 0, 200
        other_version = self.conditional and condition not in (None, self.tag)
        if wanted and self.behavior != "no-range" and not other_version:
            first, status = int(wanted.removeprefix("bytes=").removesuffix("-")) + self.shift, 206
            if first >= len(self.content):
                request.send_error(416)
                return
        body = self.content[first:]
        length = {"long": len(body) + 100, "short": len(body) // 2}.get(self.behavior, len(body))
        request.send_response(status)
        request.send_header("Content-Length", str(length))
        if self.tag:
            request.send_header("ETag", self.tag)
        if status == 206:
            request.send_header("Content-Range", f"bytes {first}-{len(self.content) - 1}/{len(self.content)}")
        request.end_headers()
        if self.behavior == "dies" and self.failures > 0:
            self.failures -= 1
            request.wfile.write(body[: len(body) // 2])
            request.wfile.flush()
            request.connection.close()
            return
        request.wfile.write(body)
