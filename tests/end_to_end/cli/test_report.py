"""``tgnn report``, as a user types it."""

from __future__ import annotations

import json
import signal
import socket

from tests import warm
from tests.unit.report.make import table, write_run


def test_a_page(run, tmp_path):
    write_run(tmp_path / "runs/one")
    table().write(tmp_path / "results/x.json")
    page = tmp_path / "new/page.html"
    code, out, err = run("report", str(tmp_path / "runs"), str(tmp_path / "results"), "-o", str(page))
    assert code == 0, err
    assert "1 result, 1 run\n" in out
    assert "table-x" in page.read_text()
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]
    code, out, _ = run("report", str(tmp_path / "runs"), "-o", str(page), "--json")
    assert json.loads(out)["runs"] == 1


def test_damaged_files_are_reported(run, tmp_path):
    (write_run(tmp_path / "run") / "metrics.json").write_text("{")
    code, out, err = run("report", str(tmp_path / "run"), "-o", str(tmp_path / "page.html"))
    assert code == 0
    assert "1 damaged" in out
    assert "metrics.json cannot be read" in err


def test_nothing_to_show(run, tmp_path):
    for words in ((str(tmp_path),), (str(tmp_path / "nowhere"),), (str(tmp_path), "--serve")):
        code, _, err = run("report", *words)
        assert code == 2
        assert "error: " in err
        assert "Traceback" not in err
    assert not (tmp_path / "report.html").exists()


def test_a_page_that_cannot_be_written(run, tmp_path):
    write_run(tmp_path / "run")
    (tmp_path / "file").write_text("")
    for place, words in ((tmp_path / "run", "is a folder; give the name of a file"), (tmp_path / "file/page", "file")):
        code, _, err = run("report", str(tmp_path / "run"), "-o", str(place))
        assert code == 2
        assert words in " ".join(err.replace("│", " ").split())
        assert ".part" not in err


def test_a_port_in_use(run, tmp_path):
    write_run(tmp_path / "run")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, _, err = run("report", str(tmp_path / "run"), "--serve", "--port", str(port))
    assert code == 2
    assert f"port {port} is in use" in err


def test_interrupting_the_server(tmp_path):
    write_run(tmp_path / "run")
    with warm.Process(warm.TGNN, "report", str(tmp_path / "run"), "--serve", "--port", "0") as process:
        process.until(lambda: process.read("err").endswith("\n"))
        output = process.read("err")
        assert "http://127.0.0.1:" in output
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert (process.read("out"), process.read("err")) == ("", f"{output}interrupted\n")
