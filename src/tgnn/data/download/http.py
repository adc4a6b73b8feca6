"""One file from the web: time-outs, tries, resumed where it broke off, checked, moved into place whole."""

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
    """How long to wait for a server."""

    silence: float = 20.0
    """Seconds without a byte, or to connect."""
    window: float = 60.0
    """Seconds over which the speed is taken."""
    least: float = 2_000.0
    """Bytes a second, below which it is given up."""
    tries: int = 3
    pause: float = 1.0
    """Seconds before the second try; doubled for each that follows."""


PATIENT = Patience()


class DownloadError(OSError):
    """Why a file could not be had; the text is for the user."""


def download(
    url: str, path: Path, *, sha256: str | None = None, size: int | None = None, patience: Patience = PATIENT
) -> Path:
    """Downloads a file unless it is there already. What has arrived before an interruption is kept and continued.

    Args:
        url: ``http`` or ``https``.
        path: Where it goes; while it arrives, ``<path>.part``, and ``<path>.part.tag`` says of which version it is.
        sha256: What it must be. A file that was there with another is downloaded again.
        size: Bytes to expect, for the bar, where the server does not say.
        patience: With the server.
    """
    if path.exists() and _matches(path, sha256):
        return path
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(f"{url} is neither http nor https")
    path.parent.mkdir(parents=True, exist_ok=True)
    part, tag = path.with_name(path.name + ".part"), path.with_name(path.name + ".part.tag")
    reason: Exception = DownloadError("it was not tried")
    for attempt in range(patience.tries):
        if attempt:
            time.sleep(patience.pause * 2 ** (attempt - 1))
        if sha256 is None and not tag.exists():
            _forget(part)  # nothing could tell whether the rest is of the same file
        resumed = part.exists()
        try:
            with bar(f"downloading {path.name}", size, in_bytes=True) as tick:
                _receive(url, part, tag, patience, tick)
            verify(part, sha256)
        except ChecksumError as error:
            _forget(part, tag)
            reason = DownloadError(str(error).replace(str(part), f"what {url} serves"))
            if not resumed:
                break  # the whole file came at once: asking again gives the same
        except urllib.error.HTTPError as error:
            reason = DownloadError(f"{url} answers {error.code} {error.reason}")
            if error.code < 500 and error.code not in (408, 416, 429):
                break
            if error.code == 416:
                _forget(part, tag)
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "errno", None) == 28 or isinstance(error, PermissionError):
                raise  # a full disk does not get better by asking the server again
            reason = DownloadError(f"{url}: {_plain(error)}")
            if isinstance(getattr(error, "reason", error), socket.gaierror):
                break  # there is no such host, or no network at all
        else:
            os.replace(part, path)
            _forget(tag)
            return path
    raise reason


def _matches(path: Path, sha256: str | None) -> bool:
    try:
        verify(path, sha256)
    except ChecksumError:
        return False
    return True


def _forget(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _receive(url: str, part: Path, tag: Path, patience: Patience, tick: Tick) -> None:
    have = part.stat().st_size if part.exists() else 0
    version = tag.read_text() if have and tag.exists() else ""
    headers = {"User-Agent": "tgnn", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    if version:
        headers["If-Range"] = version  # if it is another by now, all of it is sent
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=patience.silence) as answer:
        if answer.status == 206 and not _continues(answer, have, version):
            _forget(part, tag)
            raise DownloadError(f"it sent another part than the one from byte {have:,} on")
        if answer.status != 206:
            have = 0  # it sends everything again
            _forget(part, tag)
            if new := _version(answer):
                tag.write_text(new)
        tick(have)
        promised = _promised(answer, have)
        with part.open("ab") as file:
            arrived = have + _copy(answer, file, patience, tick)
    if promised is not None and arrived != promised:
        raise DownloadError(f"it promised {promised:,} bytes and sent {arrived:,}")


def _continues(answer: http.client.HTTPResponse, have: int, version: str) -> bool:
    """Whether the answer goes on where the file broke off, and of the same version."""
    where = answer.headers.get("Content-Range", "")
    told = (answer.headers.get("ETag"), answer.headers.get("Last-Modified"))
    same = not version or version in told or told == (None, None)
    return have > 0 and same and where.startswith(f"bytes {have}-")


def _version(answer: http.client.HTTPResponse) -> str:
    """What tells this version of the file from others; a weak tag does not, byte for byte."""
    tag = answer.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified", "")


def _promised(answer: http.client.HTTPResponse, have: int) -> int | None:
    """Bytes of the whole file: of a part, the number behind the stroke of ``bytes 5-9/10``."""
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
                raise DownloadError(f"too slow: {(arrived - since) / passed:,.0f} bytes a second")
            start, since = time.monotonic(), arrived
    return arrived


def _plain(error: Exception) -> str:
    """What went wrong, without the classes around it."""
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        error = error.reason
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
