"""HTTP downloads. pooch verifies the SHA-256, retries, and moves complete files into place."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import requests

from tgnn.utils.progress import bar

_TIMEOUT = 20.0
"""Timeout in seconds for connecting and for each read."""
_RETRIES = 2
"""Number of attempts after the first one."""
_CHUNK = 1 << 16
_RETRIED_STATUS = (408, 416, 429)
"""HTTP status codes below 500 after which another attempt may succeed."""


class DownloadError(OSError):
    """A file could not be downloaded. The message is shown to the user."""


Downloader = Callable[[str, str, object], None]
"""Downloader of pooch, called with the address, the path of a temporary file to write, and pooch's registry."""


def download(url: str, path: Path, *, sha256: str | None = None, downloader: Downloader | None = None) -> Path:
    """Download a file unless it exists. An interrupted download is resumed.

    Args:
        url: Address of the file (``http`` or ``https``), or another source that the downloader understands.
        path: Target path. Nothing but a complete and verified file is ever written there.
        sha256: Expected SHA-256. An existing file with a different one is downloaded again.
        downloader: Function that writes the file. It is called once. Default: :class:`ResumingDownloader`, which is
            called again after temporary errors.
    """
    import pooch  # 50 ms, which data in the cache need not take

    pooch.get_logger().setLevel("WARNING")  # the progress bar says the same
    files = pooch.create(
        path.parent,
        base_url="",
        registry={path.name: sha256},
        urls={path.name: url},
        retry_if_failed=_RETRIES if downloader is None else 0,
    )
    try:
        return Path(files.fetch(path.name, downloader=downloader or ResumingDownloader(path)))
    except requests.RequestException as error:
        raise DownloadError(f"{url}: {_reason(error)}") from error
    except ValueError as error:
        raise DownloadError(f"{url} is not the published file: {error}") from error


class ResumingDownloader:
    """Downloader for pooch that resumes. pooch's own starts a broken download of several gigabytes from the beginning.

    The bytes received so far are in ``<path>.part``, and the version of the file is in ``<path>.part.tag``. The version
    is the ETag or the date that the server sent. If the server has another version, it sends the whole file. A part
    without a version is not resumed.

    Args:
        path: Target path of the download.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.part = path.with_name(f"{path.name}.part")
        self.tag = path.with_name(f"{path.name}.part.tag")

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Download a file. pooch repeats this after a ``RequestException``, but not after a :class:`DownloadError`."""
        try:
            self._receive(url)
        except requests.ConnectionError as error:
            if isinstance(_cause(error), socket.gaierror):  # unknown host or no network
                raise DownloadError(f"{url}: {_reason(error)}") from error
            raise
        os.replace(self.part, output_file)
        self.tag.unlink(missing_ok=True)

    def _receive(self, url: str) -> None:
        """Append the missing bytes to the part."""
        version = self.tag.read_text() if self.tag.exists() and self.part.exists() else ""
        start = self.part.stat().st_size if version else 0
        headers = {"User-Agent": "tgnn", "Accept-Encoding": "identity"}
        if start:
            headers |= {"Range": f"bytes={start}-", "If-Range": version}
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            if response.status_code == 416:
                self._discard()
            if 400 <= response.status_code < 500 and response.status_code not in _RETRIED_STATUS:
                raise DownloadError(f"{url} returned HTTP status {response.status_code} {response.reason}")
            response.raise_for_status()
            if response.status_code == 206 and not _continues(response, start, version):
                self._discard()
                raise requests.ConnectionError(f"the server did not resume at byte {start:,}")
            if response.status_code != 206:  # the server sends the whole file
                start = 0
                self._discard()
                self.tag.write_text(_version(response))
            length = response.headers.get("Content-Length")
            total = None if length is None else start + int(length)
            with bar(f"downloading {self.name}", total, in_bytes=True) as tick, self.part.open("ab") as file:
                tick(start)
                for chunk in response.iter_content(_CHUNK):
                    file.write(chunk)
                    tick(len(chunk))
        received = self.part.stat().st_size
        if total is not None and received != total:  # urllib3 1 does not compare them
            raise requests.ConnectionError(f"incomplete download: received {received:,} of {total:,} bytes")

    def _discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.tag.unlink(missing_ok=True)


def _version(response: requests.Response) -> str:
    """Return the ETag or the date of the file. A weak ETag does not guarantee equal bytes."""
    etag: str = response.headers.get("ETag", "")
    return etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified", "")


def _continues(response: requests.Response, start: int, version: str) -> bool:
    """Whether a partial response starts at the right byte and is of the same version of the file."""
    content_range: str = response.headers.get("Content-Range", "")
    return start > 0 and content_range.startswith(f"bytes {start}-") and _version(response) in (version, "")


def _cause(error: BaseException) -> BaseException:
    """Return the first error of a chain, which requests and urllib3 wrap in several others."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error


def _reason(error: requests.RequestException) -> str:
    """Describe a network error in a few words."""
    if (response := error.response) is not None:
        return f"HTTP status {response.status_code} {response.reason}"
    cause = _cause(error)
    if isinstance(cause, TimeoutError):
        return "the server did not answer in time"
    return str(cause) or type(cause).__name__
