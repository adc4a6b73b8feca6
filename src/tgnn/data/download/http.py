"""HTTP download with timeouts, retries, resumption and SHA-256 verification."""

from __future__ import annotations

import http.client
import os
import socket
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tgnn.data.download.checksum import ChecksumError, verify
from tgnn.utils.progress import Tick, bar

_BLOCK = 1 << 16


@dataclass(frozen=True)
class Patience:
    """Timeouts and retries of a download."""

    silence: float = 20.0
    """Timeout in seconds for connecting and for each read."""
    window: float = 60.0
    """Interval in seconds over which the speed is measured."""
    least: float = 2_000.0
    """Minimum speed in bytes per second."""
    tries: int = 3
    """Number of attempts."""
    pause: float = 1.0
    """Delay in seconds before the second attempt. It doubles for each further attempt."""


PATIENT = Patience()


class DownloadError(OSError):
    """A file could not be downloaded. The message is shown to the user."""


def download(
    url: str, path: Path, *, sha256: str | None = None, size: int | None = None, patience: Patience = PATIENT
) -> Path:
    """Download a file unless it exists. An interrupted download is resumed.

    Args:
        url: Address of the file (``http`` or ``https``).
        path: Target path. An incomplete download is ``<path>.part``, with its ETag in ``<path>.part.tag``.
        sha256: Expected SHA-256. An existing file with a different one is downloaded again.
        size: Expected size in bytes, for the progress bar.
        patience: Timeouts and retries.
    """
    if path.exists() and _matches(path, sha256):
        return path
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(f"{url} is neither an http nor an https address")
    path.parent.mkdir(parents=True, exist_ok=True)
    part, tag = path.with_name(path.name + ".part"), path.with_name(path.name + ".part.tag")
    reason: Exception = DownloadError("no attempt was made")
    for attempt in range(patience.tries):
        if attempt:
            time.sleep(patience.pause * 2 ** (attempt - 1))
        if sha256 is None and not tag.exists():
            _remove(part)  # without a checksum or an ETag the part may be of another file
        resumed = part.exists()
        try:
            with bar(f"downloading {path.name}", size, in_bytes=True) as tick:
                _receive(url, part, tag, patience, tick)
            verify(part, sha256)
        except ChecksumError as error:
            _remove(part, tag)
            reason = DownloadError(str(error).replace(str(part), f"the file at {url}"))
            if not resumed:
                break  # the whole file was downloaded at once, so a retry would give the same
        except urllib.error.HTTPError as error:
            reason = DownloadError(f"{url} returned HTTP status {error.code} {error.reason}")
            if error.code < 500 and error.code not in (408, 416, 429):
                break
            if error.code == 416:
                _remove(part, tag)
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "errno", None) == 28 or isinstance(error, PermissionError):
                raise  # a retry does not help against a full disk
            reason = DownloadError(f"{url}: {_error_reason(error)}")
            if isinstance(getattr(error, "reason", error), socket.gaierror):
                break  # unknown host or no network
        else:
            os.replace(part, path)
            _remove(tag)
            return path
    raise reason


def _matches(path: Path, sha256: str | None) -> bool:
    try:
        verify(path, sha256)
    except ChecksumError:
        return False
    return True


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _receive(url: str, part: Path, tag: Path, patience: Patience, tick: Tick) -> None:
    have = part.stat().st_size if part.exists() else 0
    version = tag.read_text() if have and tag.exists() else ""
    headers = {"User-Agent": "tgnn", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    if version:
        headers["If-Range"] = version  # a changed file is sent from the start
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=patience.silence) as answer:
        if answer.status == 206 and not _continues(answer, have, version):
            _remove(part, tag)
            raise DownloadError(f"the server did not resume at byte {have:,}")
        if answer.status != 206:
            have = 0  # the server sends the whole file
            _remove(part, tag)
            if new := _version(answer):
                tag.write_text(new)
        tick(have)
        expected = _expected_size(answer, have)
        with part.open("ab") as file:
            arrived = have + _copy(answer, file, patience, tick)
    if expected is not None and arrived != expected:
        raise DownloadError(f"incomplete download: received {arrived:,} of {expected:,} bytes")


def _continues(answer: http.client.HTTPResponse, have: int, version: str) -> bool:
    """Whether the response resumes at the right byte and belongs to the same version of the file."""
    content_range = answer.headers.get("Content-Range", "")
    tags = (answer.headers.get("ETag"), answer.headers.get("Last-Modified"))
    same = not version or version in tags or tags == (None, None)
    return have > 0 and same and content_range.startswith(f"bytes {have}-")


def _version(answer: http.client.HTTPResponse) -> str:
    """Return the ETag or the date of the file. A weak ETag does not guarantee equal bytes."""
    tag = answer.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified", "")


def _expected_size(answer: http.client.HTTPResponse, have: int) -> int | None:
    """Return the size of the whole file; for a partial response, the number after the slash of ``bytes 5-9/10``."""
    whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
    if answer.status == 206 and whole.isdigit():
        return int(whole)
    length = answer.headers.get("Content-Length")
    return None if length is None else have + int(length)


def _copy(answer: http.client.HTTPResponse, file: object, patience: Patience, tick: Tick) -> int:
    arrived, start, since = 0, time.monotonic(), 0
    while block := answer.read1(_BLOCK):
        file.write(block)  # type: ignore[attr-defined]
        arrived += len(block)
        tick(len(block))
        if (passed := time.monotonic() - start) > patience.window:
            if (arrived - since) / passed < patience.least:
                raise DownloadError(f"too slow: {(arrived - since) / passed:,.0f} bytes per second")
            start, since = time.monotonic(), arrived
    return arrived


def _error_reason(error: Exception) -> str:
    """Return the reason of a network error without its wrapper classes."""
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        error = error.reason
    if isinstance(error, TimeoutError):
        return "the server did not answer in time"
    return str(error) or type(error).__name__
