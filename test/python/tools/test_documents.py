"""The documents: every program in them runs and prints what they say, and excerpts are what the files have."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import document_programs as programs
import pytest
from dynamlir import config

PAGES = sorted(
    page
    for page in [programs.ROOT / "README.md", *(programs.ROOT / "docs").rglob("*.md")]
    # The dialect's examples are from the ODS files, whose tests are in test/dialect.
    if "dialect" not in page.parts and any(block.runs for block in programs.blocks(page))
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(programs.ROOT)))
@pytest.mark.filterwarnings("default::dynamlir.PlainRunWarning", "ignore::FutureWarning")
@pytest.mark.unaudited
def test_programs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DYNAMLIR_CACHE_DIR", str(tmp_path / "measurements"))
    # Pytest would collect the warnings that the interpreter prints.
    monkeypatch.setattr(warnings, "showwarning", show)
    before = dict(config._made)
    try:
        programs.run(page, tmp_path)
    finally:
        config._made.clear()
        config._made.update(before)
        config.touch()


def show(message: Warning | str, category: type[Warning], file: str, line: int, *_: object) -> None:
    """Prints a warning as the interpreter does."""
    sys.stderr.write(warnings.formatwarning(message, category, file, line))


@pytest.mark.parametrize("page", sorted((programs.ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_excerpts(page: Path) -> None:
    assert [f"{block}: {part}" for block, part in programs.excerpts(page)] == []


def test_blocks_that_do_not_run_say_why() -> None:
    reasons = {block.skipped for page in PAGES for block in programs.blocks(page) if block.skipped is not None}
    assert reasons <= {"needs a GPU", "needs two processes", "needs the network"}


def test_an_output_that_differs_is_seen() -> None:
    cases = {"one\n2\n": True, "o…\n2\n": True, "…\n2\n": True, "one\n": False, "one\n…3\n": False}
    for output, fits in cases.items():
        assert bool(programs.expected(output).fullmatch("one\n2\n")) == fits, output


def test_every_language_is_known() -> None:
    """A misspelled language would be code that nobody runs."""
    known = {"", "python", "sh", "console", "text", "mlir", "rust", "json", "lua", "lisp", "{toctree}", "{eval-rst}"}
    for page in (programs.ROOT / "docs").rglob("*.md"):
        for block in programs.blocks(page):
            assert block.language in known, str(block)
            assert block.language != "python" or re.search(r"\S", block.code), str(block)


def test_links_of_the_readme_work_elsewhere() -> None:
    """A package index shows the README, and has none of the files next to it."""
    links = re.findall(r"\]\(([^)]+)\)", (programs.ROOT / "README.md").read_text())
    assert links and [link for link in links if not link.startswith("https://")] == []
