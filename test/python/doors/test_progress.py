"""The progress line that a long compilation shows on a terminal, tested on a pseudo-terminal."""

from __future__ import annotations

import logging
import os
import pty
import re
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import logs, progress
from dynamlir.capture.session import Session

X = torch.ones(3)


def add(x: torch.Tensor) -> torch.Tensor:
    return x + 1


ADD = f"add (test_progress.py:{add.__code__.co_firstlineno})"


def screen(written: str) -> list[str]:
    """The screen that a terminal shows for this output: rows without trailing spaces, up to the last non-empty row."""
    rows, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[A|\x1b\[K|.", written, re.DOTALL):
        if part == "\x1b[A":
            row -= 1
        elif part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            rows += [""] * (row == len(rows))
        else:
            rows[row] = f"{rows[row].ljust(column)[:column]}{part}{rows[row][column + 1 :]}"
            column += 1
    return [text.rstrip() for text in rows if text.strip()]


class Terminal:
    """A pseudo-terminal, and the output written to it."""

    patch: pytest.MonkeyPatch

    def __init__(self) -> None:
        self.main, self.other = pty.openpty()
        self.stream = os.fdopen(self.other, "w")

    def attach(self) -> None:
        """Called by the tests themselves, since pytest replaces stderr before they run."""
        self.patch.setattr(sys, "stderr", self.stream)

    def written(self) -> str:
        found = b""
        while select.select([self.main], [], [], 0.05)[0]:
            found += os.read(self.main, 4096)
        return found.decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal as stderr, and a short delay before the line appears."""
    made = Terminal()
    made.patch = monkeypatch
    monkeypatch.setattr(progress, "AFTER", 0.3)
    monkeypatch.setattr(progress, "_EVERY", 0.1)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    yield made
    made.stream.close()
    os.close(made.main)


def slow(seconds: float, do: Callable[[], Any] = lambda: None) -> Callable[..., Any]:
    """A backend that takes this time."""

    def compile_it(graph: torch.fx.GraphModule, _: Any) -> Any:
        time.sleep(seconds)
        do()
        return graph.forward

    return compile_it


def compile_slowly(seconds: float = 0.7, do: Callable[[], Any] = lambda: None) -> None:
    with torch.no_grad():
        assert dynamlir.compile(add, backend=slow(seconds, do))(X).tolist() == [2, 2, 2]


def test_our_door(terminal: Terminal) -> None:
    terminal.attach()
    compile_slowly(1.0)
    written = terminal.written()
    assert screen(written) == []
    lines = [line.strip() for line in written.split("\r") if line.strip()]
    assert set(lines) == {f"dynamlir: compiling {ADD} ... 0 s", f"dynamlir: compiling {ADD} ... 1 s"}
    assert len(lines) > 3  # rewritten repeatedly


def test_torchs_door(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.attach()
    backend: Any = sys.modules["dynamlir.backend"]
    record = backend.record
    monkeypatch.setattr(backend, "record", lambda *args: time.sleep(0.7) or record(*args))
    with torch.no_grad():
        torch.compile(add, backend="dynamlir")(X)
    written = terminal.written()
    line = add.__code__.co_firstlineno + 1
    assert f"dynamlir: compiling add (test_progress.py:{line}) ... 0 s" in written
    assert screen(written) == []


def test_a_capture_is_counted_and_left_alone(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that are created during a capture, in any thread, might belong to the captured call."""
    terminal.attach()
    add_input, within = Session._add_input, []

    def slowly(*args: Any) -> torch.Tensor:
        time.sleep(1)
        within.append(terminal.written())
        return add_input(*args)

    monkeypatch.setattr(Session, "_add_input", slowly)
    other = threading.Thread(target=lambda: sleep_shown(0.8))
    other.start()
    compile_slowly(0.3)
    other.join()
    assert within == [""]
    assert f"{ADD} ... 1 s" in terminal.written()
    assert dynamlir.fallbacks() == []


def sleep_shown(seconds: float) -> None:
    with progress.Shown("other"):
        time.sleep(seconds)


def test_code_generation_lets_the_line_go_on(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """The native compiler runs without the GIL."""
    terminal.attach()

    def many(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.softmax(x[: 10 * k, : 7 * k].sin(), 1).reshape(-1) for k in range(1, 25)])

    seen: list[str] = []
    draw = progress._draw
    monkeypatch.setattr(progress, "_draw", lambda *args: seen.append(where(main)) or draw(*args))
    main = threading.get_ident()
    with torch.no_grad(), dynamlir.config.patch(threads=1, no_cache=True):
        dynamlir.compile(many)(torch.ones(300, 300))
    assert seen.count("compile_recording") > 2
    assert screen(terminal.written()) == []


def where(thread: int) -> str:
    return sys._current_frames()[thread].f_code.co_name


def test_nothing_is_shown(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.attach()
    with torch.no_grad():
        dynamlir.compile(add, backend=slow(0.1))(X)
    with dynamlir.config.patch(progress=False):
        compile_slowly()
    with monkeypatch.context() as patch:
        patch.setenv("LOCAL_RANK", "1")
        compile_slowly()
    with monkeypatch.context() as patch:
        patch.setenv("DYNAMLIR_PROGRESS", "0")
        compile_slowly()
    assert terminal.written() == ""
    compile_slowly()
    assert terminal.written() != ""  # so the lines above did suppress it


def test_no_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    terminal.attach()
    for stderr in ((tmp_path / "stderr").open("w"), None):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stderr)
            compile_slowly()
    assert (tmp_path / "stderr").read_text() == terminal.written() == ""


def test_of_two_threads_one_is_shown(terminal: Terminal) -> None:
    terminal.attach()

    thread = threading.Thread(target=sleep_shown, args=(1.2,))
    main = threading.Thread(target=compile_slowly)
    main.start()
    time.sleep(0.1)
    thread.start()
    main.join()
    thread.join()
    written = terminal.written()
    named = re.findall(r"compiling (\w+)", written)
    assert named == sorted(named) and set(named) == {"add", "other"}
    assert screen(written) == [] and "\n" not in written


def test_a_child_leaves_the_line_alone(terminal: Terminal) -> None:
    """A process forked meanwhile does not write to the line, and can have lines of its own."""
    terminal.attach()

    def fork() -> None:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                before = progress._line
                with progress.Shown("child"):
                    time.sleep(0.5)
                code = 0 if before is None and progress._line is None else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0

    compile_slowly(0.7, fork)
    written = terminal.written()
    assert "child ... 0 s" in written  # forked directly, not by multiprocessing
    assert screen(written) == [] and written.rstrip().count("\n") == 0


def test_what_breaks_the_line_breaks_nothing_else(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.attach()
    told = []
    monkeypatch.setattr(progress, "_log", lambda: told.append(sys.exc_info()[1]))

    def fail(*_: Any) -> Any:
        raise OSError("no line")

    for name in ("_is_wanted", "_tqdm", "_draw", "_erase"):
        with monkeypatch.context() as patch:
            patch.setattr(progress, name, fail)
            compile_slowly()
    assert len(told) >= 4 and all("no line" in str(error) for error in told)
    progress._erase(progress._line)
    terminal.written()
    compile_slowly()
    assert ADD in terminal.written()


def test_what_a_signal_handler_raises_is_the_callers(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.attach()

    def handler(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGUSR1, handler)
    monkeypatch.setattr(progress, "_is_wanted", lambda: signal.raise_signal(signal.SIGUSR1))
    try:
        with pytest.raises(TimeoutError), progress.Shown("never"):
            pass
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_log_is_not_written_into_the_line(terminal: Terminal) -> None:
    terminal.attach()
    handler = logs._StderrHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.Logger("alone")
    log.addHandler(handler)
    compile_slowly(0.7, lambda: log.warning("said meanwhile"))
    assert screen(terminal.written()) == ["said meanwhile"]


SLOW = """
import signal, time, torch, dynamlir

# A shell's background jobs ignore it, and so do their children.
signal.signal(signal.SIGINT, signal.default_int_handler)

def slow(graph, _):
    print("now", flush=True)
    time.sleep(60)

with torch.no_grad():
    dynamlir.compile(lambda x: x + 1, backend=slow)(torch.ones(3))
"""


def test_nothing_is_left_after_an_interruption(tmp_path: Path) -> None:
    """Ctrl-C as typed at a terminal, which echoes it; the line appears after two seconds, the usual delay."""
    program = tmp_path / "slow.py"
    program.write_text(textwrap.dedent(SLOW))
    made = Terminal()
    # CPython 3.13 colors tracebacks on a terminal.
    path = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": path, "PYTHON_COLORS": "0"}
    child = subprocess.Popen(
        [sys.executable, program], stderr=made.stream, stdout=subprocess.PIPE, env=environment, text=True
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "now\n"
        started, written = time.monotonic(), ""
        while written.count(" s") < 2 and time.monotonic() < started + 30:
            written += made.written()
        assert "dynamlir: compiling <lambda> (slow.py:12) ... " in written
        os.write(made.other, b"^C")
        child.send_signal(signal.SIGINT)
        child.wait(60)
        shown = screen(written + made.written())
    finally:
        child.kill()
        child.wait()
        made.stream.close()
        os.close(made.main)
    assert shown[0] == "Traceback (most recent call last):" and shown[-1] == "KeyboardInterrupt"
    assert not any("compiling" in row or "^C" in row for row in shown)
