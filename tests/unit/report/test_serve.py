"""The page over HTTP."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections.abc import Iterator

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


def test_closed_connections_are_ignored(server, capfd):
    with socket.create_connection((HOST, server.server_address[1])) as browser:
        browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing it resets
        browser.sendall(b"GET / HTTP/1.1\r\n")
    assert get(server)[0] == 200
    time.sleep(0.2)
    assert "Traceback" not in capfd.readouterr().err


def test_other_errors_are_printed(server, capfd):
    try:
        raise KeyError("ours")
    except KeyError:
        server.handle_error(None, (HOST, 0))
    assert "KeyError" in capfd.readouterr().err


def test_a_removed_folder(server, tmp_path):
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    code, _, text = get(server)
    assert code == 503
    assert "does not exist" in text


def test_a_port_in_use(server, tmp_path):
    port = server.server_address[1]
    with pytest.raises(OSError, match=f"port {port} is in use"):
        ReportServer([tmp_path / "runs"], port)
