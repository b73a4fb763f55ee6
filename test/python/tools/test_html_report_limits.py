"""`dynamlir.report` on large processes and hostile names: what a file shows has a limit, and no name becomes markup."""

from __future__ import annotations

import dataclasses
import json
import linecache
import zlib
from collections.abc import Iterator
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir.html_report import document, limits, locations, modules, process, sources, stages
from dynamlir.reasons import Event
from dynamlir.reports import CompileReport, Extern, Kernel
from dynamlir.reports.decisions import Decision, Site
from report_pages import Pages

HOSTILE = "</script><script>alert('&amp;')</script><img src=x onerror=alert(1)>\"'{{ 7 * 7 }}"


def outline(operations: int, name: str = "L['x']", file: str = "m.py") -> bytes:
    """A chain of operations, in the form that reports keep."""
    calls = [[[file, 1]]]
    ops = [["aten.add.Tensor", [at], [at + 1], ["f32[8]"], "", 0, 0] for at in range(operations)]
    value = {"inputs": [[0, name, "f32[8]"]], "operations": ops, "outputs": [operations], "chains": calls}
    return zlib.compress(json.dumps(value).encode())


def rendered(*reports: CompileReport, **given: Any) -> Pages:
    pages = Pages(document.render(process.Process(reports, **given)))
    pages.check()
    return pages


def test_ten_thousand_graphs_are_a_file_of_bounded_size() -> None:
    kernels = tuple(Kernel(f"kernel_{at}", 1, 1000, (f"m.py:{at}",)) for at in range(50))
    decisions = tuple(Decision("dynamo-fuse", Site(f"%{at} add", "m.py:1"), "one kernel") for at in range(200))
    one = CompileReport("graph", launched=kernels, kernels=50, decisions=decisions, _outline=outline(1000))
    many = [dataclasses.replace(one, graph=f"graph {at}") for at in range(10_000)]
    text = document.render(process.Process(many, {"graphs": 12_000}))
    assert len(text) < 15 << 20
    pages = Pages(text)
    pages.check()
    assert "11,744 of 12,000 graphs; the latest 256 are here" in pages.text
    assert "graph 9999" in pages.text and "graph 9743" not in pages.text
    assert f"{256 * 200 - limits.DECISIONS:,} of {256 * 200:,} decisions" in pages.text
    assert len(pages.data["decision-data"]["rows"]) == limits.DECISIONS
    assert sum(len(data.get("nodes", ())) for data in pages.data.values()) <= limits.ALL_NODES + 2 * limits.GRAPHS
    assert "operations in pictures of graphs, in graph 9804 and 195 more" in pages.text


def test_a_large_graph_shows_its_beginning() -> None:
    pages = rendered(CompileReport("large", _outline=outline(limits.NODES + 7)))
    assert len(pages.data["g0-data"]["nodes"]) <= limits.NODES + 2
    assert f"7 of {limits.NODES + 7:,} operations in pictures of large graphs, in large" in pages.text


def test_long_texts_of_kernels_are_shortened_and_then_left_out() -> None:
    budget = limits.Budget()
    text = budget.text("x" * (limits.KERNEL_TEXT + 5))
    assert text is not None and text.endswith("… 5 more characters: see the dump")
    found = [budget.text("y" * limits.KERNEL_TEXT) for _ in range(limits.TEXT // limits.KERNEL_TEXT + 5)]
    assert found[0] is not None and found[-1] is None
    assert any(sentence.endswith("texts of kernels") for sentence in budget.sentences())


def test_names_are_never_markup() -> None:
    event = Event("print", HOSTILE, ((HOSTILE, 3, HOSTILE),))
    decision = Decision("guards", Site(HOSTILE, f"{HOSTILE}:3"), HOSTILE, (HOSTILE,), HOSTILE, None, {HOSTILE: 1.0})
    report = CompileReport(
        HOSTILE,
        launched=(Kernel(HOSTILE, 1, 8, (f"{HOSTILE}:3",)),),
        kernels=1,
        externs=(Extern(HOSTILE, HOSTILE, f"{HOSTILE}:3"),),
        stages={HOSTILE: 1.0},
        decisions=(decision, dataclasses.replace(decision, pass_="capture")),
        _outline=outline(2, HOSTILE, HOSTILE),
    )
    eager = CompileReport(HOSTILE, eager=event)
    given = {
        "events": [event],
        "guarded": [process.Guarded(HOSTILE, HOSTILE, 3, ((f"L['x'] == {HOSTILE}",),))],
        "fallbacks": {"print": 1},
        "program": HOSTILE,
        "facts": {HOSTILE: HOSTILE},
    }
    linecache.cache[HOSTILE] = 9, None, ["# one\n", "two\n", f"x = {HOSTILE!r}  # {HOSTILE}\n"], HOSTILE
    try:
        pages = rendered(report, eager, **given)
    finally:
        del linecache.cache[HOSTILE]
    # Every element is one that templates write: `check` has refused pictures, sources and handlers.
    assert [name for name in pages.texts] == ["g0-data", "decision-data", ""]
    assert sum(tag == "script" for tag, _ in pages.elements) == 3
    assert pages.text.count(HOSTILE) >= 10 and "49" not in pages.text
    assert pages.data["g0-data"]["nodes"][0][0] == HOSTILE


def test_a_function_with_markup_in_its_name_and_file_is_compiled_and_reported(tmp_path: Any) -> None:
    dynamlir.reset()
    file = "<script>alert(1)</script>.py"
    source = "def f(x):\n    y = x + 1\n    print('<b>')\n    return y * 2\n"
    space: dict[str, Any] = {}
    exec(compile(source, file, "exec"), space)
    function = space["f"]
    function.__qualname__ = "<script>alert(2)</script>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    try:
        dynamlir.compile(function)(torch.ones(3))
        pages = Pages(dynamlir.report(tmp_path / "report.html").read_text())
    finally:
        del linecache.cache[file]
    pages.check()
    assert file in pages.text and function.__qualname__ in pages.text and "print( '<b>' )" in pages.text
    assert sum(tag == "script" for tag, _ in pages.elements) == 4


@pytest.fixture
def cell() -> Iterator[str]:
    """A cell of a notebook, with a command that is not Python."""
    name = "ipykernel_1/2.py"
    lines = ["%matplotlib inline\n", "def f(x):\n", "    return x + 1\n"]
    linecache.cache[name] = sum(map(len, lines)), None, lines, name
    yield name
    del linecache.cache[name]


def test_the_source_of_a_notebooks_cell_is_shown(cell: str) -> None:
    pages = rendered(CompileReport("f", launched=(Kernel("k", 1, 8, (f"{cell}:3",)),), kernels=1))
    assert "%matplotlib inline" in pages.text and "f0-L3" in pages.ids


def test_source_that_is_gone_leaves_its_lines() -> None:
    pages = rendered(CompileReport("f", launched=(Kernel("k", 1, 8, ("/gone/m.py:7",)),), kernels=1))
    assert "This source is not available any more" in pages.text
    assert "f0-L7" in pages.ids and "f0-L6" not in pages.ids and "#f0-L7" in pages.links


def test_a_long_file_shows_lines_around_notes() -> None:
    name = "long.py"
    linecache.cache[name] = 1, None, [f"x = {at}\n" for at in range(1, 1001)], name
    try:
        pages = rendered(CompileReport("f", launched=(Kernel("k", 1, 8, (f"{name}:500",)),), kernels=1))
    finally:
        del linecache.cache[name]
    assert {"f0-L492", "f0-L508"} <= set(pages.ids) and "f0-L491" not in pages.ids
    assert "491 more lines" in pages.text and "492 more lines" in pages.text


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("a.py:3", ("a.py", 3)),
        ("a.py:3:7", ("a.py", 3)),
        ("C:a.py:3", ("C:a.py", 3)),
        ("a.py", ("a.py", 0)),
        ("", ("", 0)),
        ("<stdin>:1", ("<stdin>", 1)),
    ],
)
def test_places(place: str, found: tuple[str, int]) -> None:
    assert sources.split(place) == found


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("L['self']._modules['layers']._modules['3'].weight", "layers.3"),
        ("L_self_modules_layers_modules_3_modules_linear_parameters_weight_", "layers.3.linear"),
        ("L_self_modules_bn_buffers_running_mean_", "bn"),
        ("L['x']", None),
        ("L_x_", None),
    ],
)
def test_modules_of_parameters(name: str, path: str | None) -> None:
    assert modules.path_of(name) == path


ALIASES = [
    '#loc1 = loc("a \\22b\\22.py":3:0)',
    '#loc2 = loc("f"(#loc1))',
    '#loc3 = loc("g"("t.py":9:0 to :4))',
    "#loc4 = loc(callsite(#loc3 at #loc2))",
    '#loc5 = loc(fused<"x">[#loc4, #loc1])',
    "#loc6 = loc(fused[#loc6, #loc2])",
    "#loc = loc(unknown)",
]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#loc2", {(('a "b".py', 3),)}),
        ("#loc4", {(("t.py", 9), ('a "b".py', 3))}),
        ("#loc5", {(("t.py", 9), ('a "b".py', 3)), (('a "b".py', 3),)}),
        ("#loc6", {(('a "b".py', 3),)}),
        ("#loc", set()),
        ("#loc99", set()),
        ("callsite(", set()),
        ('"open', set()),
    ],
)
def test_locations(text: str, found: set[locations.Chain]) -> None:
    assert locations.Locations(ALIASES).of_line(f"%0 = op loc({text})") == found


def test_lines_without_their_locations() -> None:
    line = '%0 = op(%a: t loc("x)"("y":1:0)), %b) : t loc(callsite(#loc1 at #loc2))'
    assert locations.without(line) == "%0 = op(%a: t, %b) : t"
    assert locations.without("x loc(") == "x"


def test_a_folder_without_stages_or_with_other_files_gives_none(tmp_path: Any) -> None:
    assert stages.read(None) is None and stages.read(str(tmp_path / "gone")) is None
    (tmp_path / "03-kernels.mlir").write_bytes(b"\xff\x00 no MLIR\n    func.func @k(\n")
    found = stages.read(str(tmp_path))
    assert found is not None and not found.kernels
