"""HTTP downloads. pooch verifies the SHA-256, retries, and moves complete files into place."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
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
    """Download a file unless it exists with the expected SHA-256. An interrupted download is resumed.

    Only a complete and verified file is written to ``path``. ``downloader`` writes the file and is called once.
    Default: :func:`_download_or_resume`, which is called again after temporary errors.
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
        return Path(files.fetch(path.name, downloader=downloader or partial(_download_or_resume, path)))
    except requests.RequestException as error:
        raise DownloadError(f"{url}: {_reason(error)}") from error
    except ValueError as error:
        raise DownloadError(f"{url} is not the published file: {error}") from error


def _download_or_resume(path: Path, url: str, output_file: str, pooch: object) -> None:
    """Download a file to ``output_file``. pooch's own downloader starts a broken download from the beginning.

    The bytes received so far are in ``<path>.part``, and the version of the file (its ETag or date) is in
    ``<path>.part.tag``. If the server has another version, it sends the whole file. A part without a version is not
    resumed. pooch repeats this after a ``RequestException``, but not after a :class:`DownloadError`.
    """
    part, tag = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.tag")
    version = tag.read_text() if tag.exists() and part.exists() else ""
    start = part.stat().st_size if version else 0
    headers = {"User-Agent": "tgnn", "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": version}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            resumed = response.status_code == 206 and _continues(response, start, version)
            if response.status_code in (200, 206, 416) and not resumed:
                start = 0
                part.unlink(missing_ok=True)
                tag.unlink(missing_ok=True)
            if 400 <= response.status_code < 500 and response.status_code not in _RETRIED_STATUS:
                raise DownloadError(f"{url} returned HTTP status {response.status_code} {response.reason}")
            response.raise_for_status()
            if response.status_code == 206 and not resumed:
                raise requests.ConnectionError("the server did not resume the download at the right byte")
            tag.write_text(version if resumed else _version(response))
            length = response.headers.get("Content-Length")
            total = None if length is None else start + int(length)
            with bar(f"downloading {path.name}", total, in_bytes=True) as tick, part.open("ab") as file:
                tick(start)
                for chunk in response.iter_content(_CHUNK):
                    file.write(chunk)
                    tick(len(chunk))
    except requests.ConnectionError as error:
        if isinstance(_cause(error), socket.gaierror):  # an unknown host or no network is not tried again
            raise DownloadError(f"{url}: {_reason(error)}") from error
        raise
    received = part.stat().st_size
    if total is not None and received != total:  # urllib3 1 does not compare them
        raise requests.ConnectionError(f"incomplete download: received {received:,} of {total:,} bytes")
    os.replace(part, output_file)
    tag.unlink(missing_ok=True)


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
