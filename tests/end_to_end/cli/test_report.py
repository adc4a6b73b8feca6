"""The command ``tgnn report``."""

from __future__ import annotations

import signal
import socket

from tests import warm
from tests.unit.report.make import table, write_run


def test_a_page(read, succeed, tmp_path):
    write_run(tmp_path / "runs/one")
    table().write(tmp_path / "results/x.json")
    assert "1 result, 1 run\n" in succeed("report runs results -o new/page.html")
    assert "table-x" in (tmp_path / "new/page.html").read_text()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.html"]
    assert read("report runs")["runs"] == 1
    assert (tmp_path / "report.html").exists()


def test_damaged_files_are_reported(run, tmp_path):
    (write_run(tmp_path / "run") / "metrics.json").write_text("{")
    code, out, err = run("report run")
    assert (code, "1 damaged" in out) == (0, True)
    assert "damaged: run: metrics.json is damaged" in err


def test_a_port_in_use(run, tmp_path):
    write_run(tmp_path / "run")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, _, err = run(f"report run --serve --port {port}")
    assert (code, f"port {port} is in use" in err) == (2, True)


def test_interrupting_the_server(tmp_path):
    write_run(tmp_path / "run")
    with warm.Process(warm.TGNN, "report", str(tmp_path / "run"), "--serve", "--port", "0") as process:
        process.until(lambda: process.read("err").endswith("\n"))
        output = process.read("err")
        assert "http://127.0.0.1:" in output
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert (process.read("out"), process.read("err")) == ("", f"{output}interrupted\n")
