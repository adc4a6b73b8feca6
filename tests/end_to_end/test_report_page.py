"""The report in a real browser."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.report.make import NASTY, study, table, write_run
from tgnn.experiments.results import CellResult, Result
from tgnn.report.collect import ReportReader
from tgnn.report.render import render
from tgnn.report.serve import ReportServer

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
PROGRAM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
if PROGRAM is None:
    pytest.skip("there is no chromium and no chrome", allow_module_level=True)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        found = driver.chromium.launch(executable_path=PROGRAM, args=options)
        yield found
        found.close()


@pytest.fixture
def page(browser) -> Iterator:
    """A page that must not complain, nor ask for anything."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    found = context.new_page()
    found.set_default_timeout(15000)
    complaints, requests = [], []
    found.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on("request", lambda request: requests.append(request.url))
    context.route(lambda url: not url.startswith(("file:", "data:", "http://127.0.0.1")), lambda route: route.abort())
    yield found
    context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "http://127.0.0.1"))] == []


def write_all(folder: Path) -> Path:
    """A report with one of everything."""
    result = table()
    result.write(folder / "in/table.json")
    nasty = [replace(cell, column=NASTY) if cell.column == "cora" else cell for cell in result.cells]
    replace(result, name="Names " + NASTY, cells=nasty).write(folder / "in/nasty.json")
    sizes = [
        CellResult(f"{model} {size}", "cora", "accuracy", runs=result.cells[0].runs)
        for model in ("tgnn", "gcn")
        for size in (8, 16, 1024)
    ]
    Result("figure-rank", sizes).write(folder / "in/rank.json")
    study(folder / "in/tune/cora-gcn")
    write_run(folder / "in/runs/digits-tgnn", data="digits", test=0.95)
    write_run(folder / "in/runs/cora-gcn", data="cora", model="gcn", test=0.81)
    write_run(folder / "in/runs/nasty", data=NASTY, test=0.5)
    (write_run(folder / "in/runs/broken") / "metrics.json").write_text("{")
    file = folder / "report.html"
    file.write_text(render(ReportReader([folder / "in"]).read()), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> str:
    return write_all(tmp_path_factory.mktemp("report")).as_uri()


def names(page, key: str = "runs-table") -> list[str]:
    """Rows of a table that are seen, in their order."""
    return [row.strip() for row in page.locator(f"#{key} tbody tr:visible th button").all_inner_texts()]


def test_sorting(page, report):
    page.goto(report)
    head = page.locator("#runs-table thead th", has_text="test")
    assert head.get_attribute("aria-sort") == "none"
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert names(page) == ["in/runs/digits-tgnn", "in/runs/cora-gcn", "in/runs/nasty", "in/runs/broken"]
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert names(page) == ["in/runs/nasty", "in/runs/cora-gcn", "in/runs/digits-tgnn", "in/runs/broken"]  # none is last
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "none"
    assert page.locator("#runs-table th[aria-sort=descending]").inner_text().startswith("val")


def test_filtering(page, report):
    page.goto(report)
    page.locator("#runs-table-filter").fill("cora GCN")
    assert names(page) == ["in/runs/cora-gcn"]
    assert page.locator("#runs-table .shown").inner_text() == "1 of 4 rows"
    page.locator("#runs-table-filter").fill("")
    assert len(names(page)) == 4


def test_opening_a_run_by_mouse_and_by_keyboard(page, report):
    page.goto(report)
    dialog = page.locator("#dialog")
    page.get_by_role("button", name="in/runs/digits-tgnn").click()
    assert dialog.is_visible()
    assert dialog.locator("path.curve").count() == 5
    for words in ("Learning curves", "Branch weights", "model.rank", "aaa111", "0.9500"):
        assert words in dialog.inner_text()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    page.get_by_role("button", name="in/runs/broken").focus()
    page.keyboard.press("Enter")
    assert dialog.is_visible()
    assert "metrics.json cannot be read" in dialog.inner_text()
    dialog.get_by_role("button", name="Close").click()
    assert not dialog.is_visible()
    assert page.evaluate("document.activeElement.textContent") == "in/runs/broken"


def test_a_curve_says_its_values(page, report):
    page.goto(report)
    page.get_by_role("button", name="in/runs/digits-tgnn").click()
    page.locator("#dialog svg[data-x]").first.hover()
    words = page.locator("#readout").inner_text()
    assert words.startswith("epoch  ")
    assert "val_loss" in words


def test_a_study(page, report):
    page.goto(report)
    section = page.locator(
        "section", has=page.get_by_role("heading", name="Hyperparameter search: gcn on cora, accuracy")
    )
    history, importance = section.locator("figure svg").all()
    assert history.get_attribute("aria-label") == "Validation accuracy of 6 trials, best 0.8300 in trial 2"
    assert importance.get_attribute("aria-label").endswith("lr 75 %, norm 25 %")
    assert history.bounding_box()["y"] == pytest.approx(importance.bounding_box()["y"], abs=60)  # side by side
    history.hover(position={"x": 380, "y": 100})
    assert page.locator("#readout").inner_text() == "trial  5\nbest so far  0.83"
    section.get_by_text("Show all 6 trials").click()
    for order in (["2", "5", "0", "1", "3", "4"], ["0", "5", "2", "1", "3", "4"]):  # none is last
        section.get_by_role("button", name="accuracy").click()
        assert section.locator("tbody th").all_inner_texts() == order


def test_the_best_hyperparameters_are_copied(page, report):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(report)
    button = page.get_by_role("button", name="Copy")
    button.click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "# Best of 6 trials\noptimizer: {lr: 0.1}\n"
    button.wait_for()  # its name is back
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('forbidden')); }")
    button.click()
    page.get_by_role("button", name="Selected").wait_for()
    assert page.evaluate("getSelection().toString()").startswith("# Best of 6 trials")


def test_light_and_dark(page, report):
    page.goto(report)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    button = page.locator("#theme")
    button.click()
    assert page.evaluate(ground) != light
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert page.evaluate(ground) == light
    page.evaluate("localStorage.clear(); delete document.documentElement.dataset.theme")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) != light
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_makes_the_page_scroll_sideways(page, report, width):
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(report)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for details in page.locator("main details").all():
        details.locator("summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="in/runs/nasty").click()
    assert page.evaluate("document.getElementById('dialog').scrollWidth") <= width


def test_all_columns_of_costs_are_seen_on_a_laptop(page, tmp_path):
    cells = [replace(table().cells[0], row=f"tgnn {rank}", column=column) for rank in (8, 32) for column in ("3", "10")]
    Result("table-efficiency", cells).write(tmp_path / "x.json")
    file = tmp_path / "report.html"
    file.write_text(render(ReportReader([tmp_path]).read()), encoding="utf-8")
    page.goto(file.as_uri())
    assert page.locator("small", has_text="paper 58,128").first.is_visible()
    assert page.evaluate("(box => box.scrollWidth - box.clientWidth)(document.querySelector('.scroll'))") == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_runs_of_long_names(page, tmp_path, width):
    """No name runs under what is beside it, and on a laptop all columns are seen."""
    write_run(tmp_path / "reproduce/cells/amazon-computers-graphsage-0123456789ab", "amazon-computers", "graphsage")
    file = tmp_path / "report.html"
    file.write_text(render(ReportReader([tmp_path / "reproduce"]).read()), encoding="utf-8")
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(file.as_uri())
    over = "(b => b.getBoundingClientRect().right - b.parentElement.getBoundingClientRect().right)"
    assert page.evaluate(f"{over}(document.querySelector('#runs-table .open'))") <= 0
    beyond = page.evaluate("(box => box.scrollWidth - box.clientWidth)(document.querySelector('#runs-table .scroll'))")
    assert width < 1280 or beyond == 0


def test_text_of_charts_is_not_too_small(page, report):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(report)
    sizes = page.evaluate("[...document.querySelectorAll('main svg text')].map(t => t.getBoundingClientRect().height)")
    assert min(sizes) >= 10


def test_names_stay_text(page, report):
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(report)
    assert page.get_by_role("heading", name="Names " + NASTY, exact=True).is_visible()
    page.get_by_role("button", name="in/runs/nasty").click()
    assert NASTY in page.locator("#dialog").inner_text()
    assert page.title() == "tgnn report"
    assert dialogs == []


def test_focus_is_seen(page, report):
    page.goto(report)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "theme"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_a_served_page_refreshes_itself(page, tmp_path):
    write_run(tmp_path / "runs/one")
    with ReportServer([tmp_path / "runs"], 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            page.goto(server.address)
            page.locator("#runs-table-filter").fill("runs")
            page.locator("#runs-table thead th", has_text="test").get_by_role("button").click()
            page.evaluate("window.same = true")
            write_run(tmp_path / "runs/two", test=0.99)
            page.get_by_role("button", name="runs/two").wait_for()
            assert names(page) == ["runs/two", "runs/one"]  # still sorted
            assert page.locator("#runs-table-filter").input_value() == "runs"
            assert page.evaluate("window.same") is True  # not loaded anew
            page.get_by_role("button", name="runs/one").click()
            (tmp_path / "runs/one/metrics.json").write_text("{")
            page.locator("#dialog", has_text="metrics.json cannot be read").wait_for()
            page.goto("about:blank")
        finally:
            server.shutdown()
            thread.join()
