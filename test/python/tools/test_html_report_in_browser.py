"""`dynamlir.report` in a real browser: pages load without an error, links lead where they say, pictures are drawn.

Skipped where no Chromium is installed. With ``DYNAMLIR_TEST_PICTURES=folder``, a picture of each page is saved there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import browser
import forked
import pytest
import report_program
import test_html_report

pytestmark = pytest.mark.skipif(browser.find() is None, reason="no Chromium is installed")

PAGES = test_html_report.PAGES


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    settings = test_html_report.environment(DYNAMLIR_DUMP=str(folder / "dump"))
    made = folder / "report.html"
    done = forked.python(Path(report_program.__file__), str(made), env=settings, ignore_warnings=True)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def shared() -> Iterator[browser.Browser]:
    with browser.Browser() as opened:
        yield opened


@pytest.fixture
def page(shared: browser.Browser, file: Path) -> Iterator[browser.Browser]:
    """The report, opened anew. Whatever the test did, no error was logged and nothing else was loaded."""
    shared.call("Page.navigate", url="about:blank")
    shared.until("location.href === 'about:blank'")
    shared.errors.clear()
    shared.requests.clear()
    shared.open(file)
    yield shared
    assert not shared.errors
    assert {request.partition("#")[0] for request in shared.requests} <= {file.as_uri()}


def visible(page: browser.Browser) -> list[str]:
    found: list[str] = page.run("[...document.querySelectorAll('.page')].filter(p => p.offsetHeight).map(p => p.id)")
    return found


def click(page: browser.Browser, selector: str) -> None:
    """Clicks on the first such element of the picture."""
    page.run(
        f"document.querySelector('.graph.on {selector}').dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
    )


def pictures(page: browser.Browser, name: str) -> None:
    folder = os.environ.get("DYNAMLIR_TEST_PICTURES")
    if folder:
        page.run("new Promise(done => setTimeout(done, 300))")
        page.picture(Path(folder) / f"{name}.png")


@pytest.mark.parametrize("name", PAGES)
def test_each_page_is_shown_alone(page: browser.Browser, name: str) -> None:
    page.run(f"document.querySelector('.top nav a[href=\"#{name}\"]').click()")
    page.until(f"document.querySelector('#{name}').classList.contains('on')")
    assert visible(page) == [name]
    assert page.run("document.querySelector('.top nav a[aria-current]').textContent") == name
    wide = page.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, "the page scrolls sideways"
    pictures(page, name)


def test_the_first_page_is_the_overview(page: browser.Browser) -> None:
    assert visible(page) == ["overview"]


def test_every_link_leads_to_an_element_that_is_then_visible(page: browser.Browser) -> None:
    links = page.run("[...new Set([...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href')))]")
    assert len(links) > 40
    wrong = page.run(
        f"""(async () => {{
          const wrong = [];
          for (const link of {links}) {{
            const heard = new Promise(done => addEventListener('hashchange', done, {{ once: true }}));
            if (location.hash !== link) {{ location.hash = link; await heard; }}
            const box = document.querySelector(link).getBoundingClientRect();
            if (!box.height || box.bottom < 0 || box.top > innerHeight) wrong.push([link, box.top, box.bottom]);
          }}
          return wrong;
        }})()"""
    )
    assert wrong == []


def test_a_node_leads_to_its_line_and_its_assembly(page: browser.Browser) -> None:
    page.run("location.hash = '#g0'")
    page.until("document.querySelector('.graph.on svg .node')")
    click(page, ".node[aria-label^=addmm]")
    panel = "document.querySelector('.graph.on .panel')"
    assert page.run(f"{panel}.querySelector('h3').textContent") == "addmm"
    facts = page.run(f"{panel}.querySelector('dl').textContent")
    assert "layers.0.qkv" in facts and "aten.addmm.default" in facts and "report_program.py:" in facts
    titles = page.run(f"[...{panel}.querySelectorAll('summary')].map(one => one.textContent)")
    assert titles[0] == "dynamo operations (stage 02)" and titles[-1] == "assembly"
    page.run(f"{panel}.querySelectorAll('details').forEach(one => {{ one.open = true; }})")
    page.until(f"{panel}.querySelectorAll('pre').length >= 4")
    assert "matmul" in page.run(f"[...{panel}.querySelectorAll('pre')].at(-1).textContent")
    pictures(page, "node")
    target = page.run(f"{panel}.querySelector('dd a').getAttribute('href')")
    page.run(f"{panel}.querySelector('dd a').click()")
    page.until(f"document.querySelector('{target}').offsetHeight")
    assert visible(page) == ["source"]
    assert "self.qkv(self.norm(x))" in page.run(f"document.querySelector('{target}').textContent")


def test_nodes_do_not_overlap_and_lie_in_their_modules(page: browser.Browser) -> None:
    page.run("location.hash = '#g0'")
    page.until("document.querySelector('.graph.on svg .node')")
    page.run("document.querySelector('.graph.on [data-do=views]').click()")
    page.run("document.querySelector('.graph.on [data-do=open]').click()")
    boxes = page.run(
        """[...document.querySelectorAll('.graph.on .node')].map(node => {
          const box = node.querySelector('rect').getBoundingClientRect();
          return [box.left, box.top, box.right, box.bottom];
        })"""
    )
    assert len(boxes) > 40
    for at, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[at + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
    edges = page.run(
        """[...document.querySelectorAll('.graph.on .edge')].filter(edge => {
          const length = edge.getTotalLength();
          return edge.getPointAtLength(0).y > edge.getPointAtLength(length).y;
        }).length"""
    )
    assert edges == 0, "edges lead downwards"


def test_modules_close_and_open(page: browser.Browser) -> None:
    page.run("location.hash = '#g0'")
    page.until("document.querySelector('.graph.on svg .node')")
    count = "document.querySelectorAll('.graph.on .node').length"
    before = page.run(count)
    page.run("document.querySelector('.graph.on [data-do=close]').click()")
    closed = page.run(count)
    assert closed < before and page.run("document.querySelectorAll('.graph.on .group.closed').length") == 1
    page.run(
        "document.querySelector('.graph.on .group.closed').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert page.run("document.querySelectorAll('.graph.on .group.closed').length") == 2, "both layers"
    page.run("document.querySelector('.graph.on [data-do=open]').click()")
    assert page.run(count) >= before


def test_a_graph_moves_and_zooms(page: browser.Browser) -> None:
    page.run("location.hash = '#g0'")
    page.until("document.querySelector('.graph.on svg .node')")
    left = "document.querySelector('.graph.on .node').getBoundingClientRect().left"
    width = "document.querySelector('.graph.on .node').getBoundingClientRect().width"
    before = page.run(left), page.run(width)
    box = page.run(
        "(() => { const b = document.querySelector('.graph.on svg').getBoundingClientRect(); return [b.x, b.y]; })()"
    )
    at = {"x": box[0] + 15, "y": box[1] + 15}
    page.call("Input.dispatchMouseEvent", type="mousePressed", button="left", buttons=1, clickCount=1, **at)
    moved = {"x": at["x"] + 50, "y": at["y"] + 10}
    for kind in ("mouseMoved", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, button="left", buttons=1, clickCount=1, **moved)
    assert abs(page.run(left) - before[0] - 50) < 2
    page.call("Input.dispatchMouseEvent", type="mouseWheel", deltaX=0, deltaY=-200, **at)
    page.until(f"{width} > {before[1] * 1.1}")


def test_decisions_are_filtered_and_sorted(page: browser.Browser) -> None:
    page.run("location.hash = '#decisions'")
    shown = "[...document.querySelectorAll('#decision-table tbody tr')]"
    total = page.run(f"{shown}.length")
    page.run(
        "(() => { const form = document.querySelector('.filters'); form.elements.pass.value = 'guards';"
        " form.dispatchEvent(new Event('input')); })()"
    )
    found = page.run(f"{shown}.map(row => row.cells[1].textContent)")
    assert 0 < len(found) < total and set(found) == {"guards"}
    page.run(
        "(() => { const form = document.querySelector('.filters'); form.elements.pass.value = '';"
        " form.dispatchEvent(new Event('input')); })()"
    )
    page.run("document.querySelector('#decision-table thead button[data-column=\"1\"]').click()")
    found = page.run(f"{shown}.map(row => row.cells[1].textContent)")
    assert found == sorted(found)
    assert page.run("document.querySelectorAll('#decision-table th')[1].getAttribute('aria-sort')") == "ascending"


def test_a_narrow_and_dark_window_shows_the_same(file: Path) -> None:
    with browser.Browser(420, 800, dark=True) as opened:
        opened.open(file, "source")
        background = opened.run("getComputedStyle(document.body).backgroundColor")
        assert sum(map(int, background[4:-1].split(", "))) < 120
        for name in PAGES:
            opened.run(f"location.hash = '#{name}'")
            opened.until(f"document.querySelector('#{name}').classList.contains('on')")
            assert opened.run("document.documentElement.scrollWidth - innerWidth") <= 0, name
            pictures(opened, f"dark-{name}")
        assert not opened.errors
