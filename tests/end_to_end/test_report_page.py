"""The report in a real browser."""

from __future__ import annotations

import re
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
expect = playwright.expect
expect.set_options(timeout=60_000)  # the machine may be busy
PROGRAM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
if PROGRAM is None:
    pytest.skip("there is no chromium and no chrome", allow_module_level=True)

pytestmark = pytest.mark.browser
LOCAL = ("file:", "data:", "blob:", "http://127.0.0.1")


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        found = driver.chromium.launch(executable_path=PROGRAM, args=options)
        yield found
        found.close()


@pytest.fixture
def page(browser) -> Iterator:
    """A page that must not print errors, violate its content security policy or use the network."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    found = context.new_page()
    found.set_default_timeout(60_000)
    complaints, requests = [], []
    found.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.add_init_script(
        "document.addEventListener('securitypolicyviolation', (event) => console.error(event.violatedDirective))"
    )
    found.on("request", lambda request: requests.append(request.url))
    context.route(lambda url: not url.startswith(LOCAL), lambda route: route.abort())
    yield found
    context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(LOCAL)] == []


def write_page(folder: Path) -> str:
    """Write the report of the folder ``in`` and return its address."""
    file = folder / "report.html"
    file.write_text(render(ReportReader([folder / "in"]).read()), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> str:
    """A report with one of everything."""
    folder = tmp_path_factory.mktemp("report")
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
    return write_page(folder)


def names(page, key: str = "runs-table") -> list[str]:
    """Rows of a table that are seen, in their order."""
    return [row.strip() for row in page.locator(f"#{key} tbody tr:visible th button").all_inner_texts()]


def test_sorting_and_filtering(page, report):
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
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "none"
    assert page.locator("#runs-table th[aria-sort=descending]").inner_text().startswith("val")
    page.locator("#runs-table-filter").fill("cora GCN")
    assert names(page) == ["in/runs/cora-gcn"]
    assert page.locator("#runs-table .shown").inner_text() == "1 of 4 rows"
    page.locator("#runs-table-filter").fill("")
    assert len(names(page)) == 4


def test_details_of_runs(page, report):
    """A run is opened by mouse or keyboard. Its charts show values at the pointer, and series can be hidden."""
    page.goto(report)
    dialog = page.locator("#dialog")
    page.get_by_role("button", name="in/runs/digits-tgnn").click()
    expect(dialog.locator(".scatterlayer .trace")).to_have_count(5)
    for words in ("Learning curves", "Branch weights", "model.rank", "aaa111", "0.9500"):
        assert words in dialog.inner_text()
    plot = dialog.locator(".plot").first
    plot.locator(".nsewdrag").first.hover()
    plot.locator(".hoverlayer text").first.wait_for()
    label = " ".join(plot.locator(".hoverlayer text").all_text_contents())
    assert re.search(r"15|16", label)  # the epoch
    assert re.search(r"\btraining loss : 0\.1\d+", label)
    assert "validation loss : " in label
    plot.locator(".legendtoggle").first.click()
    expect(plot.locator(".scatterlayer .trace")).to_have_count(1)
    page.emulate_media(color_scheme="dark")
    expect(plot.locator(".main-svg").first).not_to_have_css("background-color", "rgb(255, 255, 255)")
    assert plot.locator(".scatterlayer .trace").count() == 1  # a chart keeps its hidden series when the theme changes
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    page.get_by_role("button", name="in/runs/broken").focus()
    page.keyboard.press("Enter")
    assert "metrics.json is damaged" in dialog.inner_text()
    dialog.get_by_role("button", name="Close").click()
    assert not dialog.is_visible()
    assert page.evaluate("document.activeElement.textContent") == "in/runs/broken"


def test_charts_are_drawn_when_they_become_visible(page, report, tmp_path):
    page.goto(report)
    first = page.locator("main .plot").first
    first.locator(".main-svg").first.wait_for()
    assert page.locator("main .plot.js-plotly-plot").count() < page.locator("main .plot").count()
    ticks = first.locator(".xtick text")
    before = ticks.all_text_contents()
    first.hover()
    first.locator("[data-title='Zoom in']").click()
    expect(ticks).not_to_have_text(before)
    with page.expect_download() as download:
        first.locator("[data-title^='Download plot']").click()
    download.value.save_as(tmp_path / "chart.png")
    assert download.value.suggested_filename.startswith("Our scores and those of the paper")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    for plot in page.locator("main .plot").all():
        plot.scroll_into_view_if_needed()
        plot.locator(".main-svg").first.wait_for()
        assert plot.locator("g.trace").count() >= 1
        assert plot.locator("xpath=..").get_attribute("aria-label")
        assert plot.locator(".main-svg").first.get_attribute("aria-hidden") == "true"


def test_a_study(page, report):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(report)
    title = "Hyperparameter search: gcn on cora, accuracy"
    section = page.locator("section", has=page.get_by_role("heading", name=title))
    history, importance = section.locator("figure").all()
    history.scroll_into_view_if_needed()
    assert history.bounding_box()["y"] == pytest.approx(importance.bounding_box()["y"], abs=60)  # side by side
    importance.locator(".nsewdrag").hover(position={"x": 100, "y": 18})
    importance.locator(".hovertext", has_text="lr: 75.0 %").wait_for()
    section.get_by_text("Show all 6 trials").click()
    for order in (["2", "5", "0", "1", "3", "4"], ["0", "5", "2", "1", "3", "4"]):  # none is last
        section.get_by_role("button", name="accuracy").click()
        assert section.locator("tbody th").all_inner_texts() == order
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
    """The page and its charts follow the theme, and are printed in light colors."""
    page.goto(report)
    page.locator("main .plot .main-svg").first.wait_for()
    ground = "getComputedStyle(document.body).backgroundColor"
    chart_ground = "getComputedStyle(document.querySelector('main .plot .main-svg')).backgroundColor"
    light = page.evaluate(ground)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "theme"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    for is_dark in (True, False, True):
        page.keyboard.press("Enter")
        assert (page.evaluate(ground) != light) == is_dark
        assert page.evaluate(chart_ground) == page.evaluate(ground)
        assert (page.locator("#theme").get_attribute("aria-pressed") == "true") == is_dark
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(chart_ground) == light
    assert page.locator("main .plot.js-plotly-plot").count() == page.locator("main .plot").count()  # all are printed
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(chart_ground) != light
    page.evaluate("localStorage.clear(); delete document.documentElement.dataset.theme")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) != light
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(ground) == light


def test_without_javascript(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report)
    assert page.locator("noscript .lead", has_text="Charts and the details of runs need JavaScript.").is_visible()
    assert page.locator("noscript .note", has_text="Average ranks, 1 is best: tgnn 1.00").first.is_visible()
    assert page.get_by_text("0.8000 ± 0.0075").first.is_visible()
    context.close()


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
    page.keyboard.press("Escape")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # draws all charts
    sizes = page.evaluate(
        "[...document.querySelectorAll('.plot text')].map(t => parseFloat(getComputedStyle(t).fontSize))"
    )
    assert len(sizes) > 100
    assert min(sizes) >= 10


@pytest.mark.parametrize("width", [390, 1280])
def test_wide_tables(page, tmp_path, width):
    """No long name runs under the next column, and all columns are visible on a laptop."""
    cells = [replace(table().cells[0], row=f"tgnn {rank}", column=column) for rank in (8, 32) for column in ("3", "10")]
    Result("table-efficiency", cells).write(tmp_path / "in/x.json")
    write_run(tmp_path / "in/cells/amazon-computers-graphsage-0123456789ab", "amazon-computers", "graphsage")
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(write_page(tmp_path))
    over = "(b => b.getBoundingClientRect().right - b.parentElement.getBoundingClientRect().right)"
    assert page.evaluate(f"{over}(document.querySelector('#runs-table .open'))") <= 0
    hidden = page.evaluate("[...document.querySelectorAll('.scroll')].map(box => box.scrollWidth - box.clientWidth)")
    assert len(hidden) == 2
    assert width < 1280 or hidden == [0, 0]


def test_names_stay_text(page, report):
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(report)
    assert page.get_by_role("heading", name="Names " + NASTY, exact=True).is_visible()
    page.get_by_role("button", name="in/runs/nasty").click()
    assert NASTY in page.locator("#dialog").inner_text()
    assert page.title() == "tgnn report"
    assert dialogs == []


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
            page.locator("#dialog .legendtoggle").first.click()
            expect(page.locator("#dialog .scatterlayer .trace")).to_have_count(4)
            (tmp_path / "runs/one/metrics.json").write_text("{")
            page.locator("#dialog", has_text="metrics.json is damaged").wait_for()
            assert page.locator("#dialog .scatterlayer .trace").count() == 4  # the series is still hidden
            page.goto("about:blank")
        finally:
            server.shutdown()
            thread.join()
