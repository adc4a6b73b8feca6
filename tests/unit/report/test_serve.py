"""The page over HTTP."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.report.make import write_run
from tgnn.report.serve import HOST, ReportServer


@pytest.fixture
def server(tmp_path) -> Iterator[ReportServer]:
    write_run(tmp_path / "runs/one")
    with ReportServer([tmp_path / "runs"], 0) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def get(server: ReportServer, path: str = "/", **headers: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(HOST, server.server_address[1], timeout=30)
    try:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.getheader("ETag", ""), answer.read().decode()
    finally:
        connection.close()


def test_unchanged_pages_are_not_sent_again(server, tmp_path):
    code, tag, page = get(server)
    assert code == 200
    assert "runs/one" in page
    assert get(server, If_None_Match=tag) == (304, tag, "")
    write_run(tmp_path / "runs/two")
    code, new, page = get(server, If_None_Match=tag)
    assert (code, "runs/two" in page) == (200, True)
    assert new != tag


def test_other_paths_and_hosts(server):
    assert get(server, "/etc/passwd")[0] == 404
    assert get(server, "/../run/config.yaml")[0] == 404
    assert get(server, Host="evil.example:80")[0] == 403
    assert get(server, Host="localhost")[0] == 200  # a browser leaves port 80 out


def test_errors_are_printed_unless_the_browser_closes_the_connection(server, capfd):
    for error in (KeyError("ours"), ConnectionResetError("theirs")):
        try:
            raise error
        except Exception:
            server.handle_error(None, (HOST, 0))
    output = capfd.readouterr().err
    assert ("ours" in output, "theirs" in output) == (True, False)


def test_a_removed_folder(server, tmp_path):
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    code, _, text = get(server)
    assert code == 503
    assert "does not exist" in text


def test_headers_and_head(server):
    connection = http.client.HTTPConnection(HOST, server.server_address[1], timeout=30)
    for method, path in (("GET", "/"), ("HEAD", "/"), ("GET", "/other")):
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read()
        assert (answer.status, bool(body)) == (404 if path == "/other" else 200, method == "GET")
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        policy = answer.getheader("Content-Security-Policy", "")
        assert policy.startswith("default-src 'none'; ")
        assert policy.endswith("; frame-ancestors 'none'")
        connection.close()


def test_half_sent_requests_are_dropped(server, monkeypatch):
    monkeypatch.setattr(server.RequestHandlerClass, "timeout", 0.2)
    slow = [socket.create_connection((HOST, server.server_address[1])) for _ in range(50)]
    for connection in slow:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
    for connection in slow:
        connection.settimeout(60)
        assert connection.recv(1) == b""  # closed by the server
        connection.close()


def test_200_concurrent_requests_are_answered(server):
    tag = get(server)[1]
    with ThreadPoolExecutor(200) as pool:
        assert set(pool.map(lambda _: get(server, If_None_Match=tag), range(200))) == {(304, tag, "")}
