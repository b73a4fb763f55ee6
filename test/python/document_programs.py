"""The programs in the documents: which code blocks of a page run, in which order, and what they have to print.

All ``python`` blocks of a page are one program. A ``text`` or ``mlir`` block that follows a block that ran is its
output, in which ``…`` stands for anything. ``sh`` blocks run in the shell, ``console`` blocks are only to be read. A
block that begins with a file's name as a comment, such as ``# gate.py``, is that file. ``<!-- not run: why -->`` above
a block is for what no test machine has.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import linecache
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\n(?P<body>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"(?:#|//) ([\w./-]+\.(?:py|mlir|rs|toml))\n")
SKIPPED = re.compile(r"<!-- not run: (.+) -->\n\s*\Z")
SCRIPT = re.compile(r"(?P<settings>(?:[A-Z_]+=\S+ )*)python (?P<file>\S+\.py)")
RUN = ("python", "sh")
OUTPUT = ("text", "mlir")


@dataclasses.dataclass
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    """The first line of its code, from 1."""
    language: str
    code: str
    skipped: str | None
    """The reason not to run it."""
    output: str | None = None
    """The text that it has to print."""

    @property
    def file(self) -> str | None:
        """The name of the file that it shows."""
        found = FILE.match(self.code)
        return found[1] if found else None

    @property
    def runs(self) -> bool:
        """True if it is a part of the page's program."""
        return self.language in RUN and self.skipped is None and self.file is None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Returns the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    for fence in FENCE.finditer(text):
        indent = fence["indent"]
        code = "".join(line.removeprefix(indent) for line in fence["body"].splitlines(keepends=True))
        skipped = SKIPPED.search(text, 0, fence.start())
        line = text.count("\n", 0, fence.start("body")) + 1
        block = Block(page, line, fence["language"], code, skipped[1] if skipped else None)
        if block.language in OUTPUT and found and found[-1].runs and found[-1].output is None and not block.file:
            found[-1].output = code
        found.append(block)
    return found


def expected(output: str) -> re.Pattern[str]:
    """Returns the pattern of an output: ``…`` is any text within a line, or on its own any lines."""
    lines = []
    for line in output.strip("\n").splitlines():
        if line.strip() in ("…", "// …"):
            lines.append(r"(?:.*\n)*?")
        else:
            lines.append(r"[^\n]*?".join(map(re.escape, line.rstrip().split("…"))) + r"[ \t]*\n")
    return re.compile("".join(lines))


def run(page: Path, folder: Path) -> None:
    """Runs a page's program in a folder; raises what it raises, or `AssertionError` for another output."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.file is not None and block.language in ("python", "mlir"):
            (folder / block.file).write_text(block.code.split("\n", 1)[1])
        if not block.runs:
            continue
        said = _python(block, names) if block.language == "python" else _shell(block, folder)
        said = "".join(line.rstrip() + "\n" for line in said.strip("\n").splitlines())
        if block.output is not None:
            assert expected(block.output).fullmatch(said), f"{block} prints\n{said}\nand not\n{block.output}"


def _python(block: Block, names: dict[str, Any]) -> str:
    """Runs a block and returns what it prints. Its lines have the numbers that they have in the page."""
    source = "\n" * (block.line - 1) + block.code
    file = str(block.page.relative_to(ROOT))
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        exec(compile(source, file, "exec"), names)
    return stream.getvalue()


def _shell(block: Block, folder: Path) -> str:
    """Runs a block in bash and returns what it prints; raises if a command fails."""
    if script := SCRIPT.fullmatch(block.code.strip()):
        # In a process that has imported torch already: that takes seconds.
        settings = dict(setting.split("=", 1) for setting in script["settings"].split())
        ended = forked.python(folder / script["file"], env={**os.environ, **settings})
        assert ended.returncode == 0, f"{block} ends with {ended.returncode}:\n{ended.stderr}"
        return ended.stdout + ended.stderr
    built = os.environ.get("DYNAMLIR_BIN") or str(ROOT / "target" / "debug")
    path = os.pathsep.join([built, str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(ROOT / "python"),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "160",
    }
    command = ["bash", "-euo", "pipefail", "-c", block.code]
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    assert done.returncode == 0, f"{block} ends with {done.returncode}:\n{done.stdout}"
    return done.stdout


def excerpts(page: Path) -> Iterator[tuple[Block, str]]:
    """Yields the blocks that show parts of files of this repository, each with a part that is not in the file."""
    for block in blocks(page):
        if block.file is None or not (ROOT / block.file).is_file():
            continue
        text = (ROOT / block.file).read_text(encoding="utf-8")
        for part in re.split(r"^ *(?://|#) …\n", block.code.split("\n", 1)[1], flags=re.MULTILINE):
            if part.strip("\n") not in text:
                yield block, part
