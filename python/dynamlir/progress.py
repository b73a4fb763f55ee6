"""One line on the terminal while a compilation takes long: ``dynamlir: compiling forward (model.py:12) ... 3 s``.

It appears after two seconds, is written over once a second and is gone when the compilation ends, however it ends. It
is shown if stderr is a terminal and ``dynamlir.config.progress`` does not say otherwise; of several threads, for the
one that came first. tqdm writes it, so that it finds its place beneath a loop's progress bar.

A thread of its own does so, in Python: it waits for the GIL, which the native compiler does without, but C code that
torch calls on fakes may not. Our own capture of a call is counted, but the line comes after it: a capture takes objects
that come to life meanwhile for the call's. What TorchDynamo does before it calls our backend is not ours to count.

What goes wrong in here goes to the log: no compilation fails because of it.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import functools
import multiprocessing
import os
import re
import sys
import threading
import time
import types
import weakref
from collections.abc import Iterator
from typing import Any

from . import config, interruptions, logs

AFTER = 2.0
"""Seconds without a word."""
_EVERY = 1.0

_drawing = threading.RLock()
"""Held while something is written, and while the process forks: tqdm's locks are free in the child."""
_changing = _thread.allocate_lock()
"""Held while the line is changed. Who waits only looks at it: what a signal handler raises right after a lock was taken
would leave it taken."""
_line: Any = None
"""The tqdm that is shown."""
_captures: set[object] = set()
"""Calls that are being captured, in all threads."""
_local = threading.local()


class Shown:
    """A piece of work that is told of if it takes long. Within another one of the same thread it tells nothing."""

    def __init__(self, label: str, since: float | None = None) -> None:
        self._since = time.monotonic() if since is None else since
        self._text = f"dynamlir: compiling {label} ... "
        self._process = 0
        self._running = _thread.allocate_lock()
        self._erased = _thread.allocate_lock()

    def begin(self) -> None:
        """The work begins. Costs a thread, on a terminal."""
        try:
            if getattr(_local, "within", False) or not _is_wanted():
                return
            self._running.acquire()
            self._erased.acquire()
            _local.within = True
            self._process = os.getpid()
            # No `threading.Thread`: what is captured may count those.
            _thread.start_new_thread(_watch, (weakref.ref(self), sys.stderr, self._text, self._since))
        except BaseException as error:
            self._process = 0
            _local.within = False
            interruptions.pass_on(error)
            if not isinstance(error, Exception):
                raise
            _log()

    def end(self) -> None:
        """The work is over, also where it has never begun: the line is gone when this returns."""
        process, self._process = self._process, 0
        if process:
            self._running.release()
            _local.within = False
            if process == os.getpid():  # a child has no thread that would erase anything
                self._erased.acquire(timeout=1)

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *error: object) -> None:
        self.end()


def label(name: str, code: types.CodeType | None = None) -> str:
    """How a function is called in the line: with its file and line, without folders."""
    if code is not None:
        name = f"{name} ({code.co_filename}:{code.co_firstlineno})"
    name = re.sub(r"\([^()]*[/\\]", "(", name)
    return "".join(character if character.isprintable() else "?" for character in name)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Without a change to the line while a call is captured, which takes every new object for the call's."""
    capture = object()
    try:
        _captures.add(capture)
        patience = time.monotonic() + 1
        while _changing.locked() and time.monotonic() < patience:
            time.sleep(0.001)
        yield
    finally:
        _captures.discard(capture)


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Without the line for a moment, to write something else to the terminal."""
    if _line is None:
        yield
        return
    with _drawing, type(_line).external_write_mode(sys.stderr) if _line is not None else contextlib.nullcontext():
        yield


def _is_wanted() -> bool:
    """Whether there is a terminal, and nobody else but this process is likely to write such lines to it."""
    if sys.stderr is None or not sys.stderr.isatty() or not config.read("progress"):
        return False
    return os.environ.get("LOCAL_RANK", "0") == "0" and multiprocessing.parent_process() is None


def _watch(work: weakref.ref[Shown], stream: Any, text: str, since: float) -> None:
    """Shows the line until the work ends, or is forgotten: an interruption may hit where its end would be told."""
    own = None
    found = work()
    if found is None:
        return
    running, erased = found._running, found._erased
    del found
    try:
        wait = max(since + AFTER - time.monotonic(), 0.1)
        while not running.acquire(timeout=wait) and work() is not None:
            seconds = time.monotonic() - since
            own = _draw(own, stream, f"{text}{seconds:.0f} s")
            wait = _EVERY - (time.monotonic() - since) % _EVERY
    except Exception:
        _log()
    finally:
        try:
            _erase(own)
        except Exception:
            _log()
        erased.release()


def _draw(own: Any, stream: Any, text: str) -> Any:
    """The line, with another text; None where there is none yet."""
    global _line
    with _drawing, _changing:
        if _captures:
            return own
        if own is not None:
            own.set_description_str(text)
        elif _line is None:
            # Some terminals say that they have no size, which tqdm takes for small.
            size = os.get_terminal_size(stream.fileno())
            columns, rows = (size.columns or 80) - 1, size.lines or 24
            own = _line = _tqdm()(desc=text, bar_format="{desc}", leave=False, file=stream, ncols=columns, nrows=rows)
        return own


def _erase(own: Any) -> None:
    global _line
    with _drawing, _changing:
        if own is not None and own is _line:
            _line = None
            # Over the ^C that the terminal has echoed behind it.
            own.set_description_str(f"{own.desc}    ")
            own.close()


@functools.cache
def _tqdm() -> Any:
    """tqdm, which is not imported before there is something to show, without a thread that watches over bars."""
    from tqdm import tqdm

    class Line(tqdm):
        monitor_interval = 0

    # Threads end with the process, without a word.
    atexit.register(lambda: _erase(_line))
    return Line


def _log() -> None:
    logs.logger("runtime").debug("the progress line", exc_info=True)


_held = False


def _before_fork() -> None:
    global _held
    # No longer than a terminal that takes nothing may keep somebody waiting.
    _held = _drawing.acquire(timeout=1)


def _after_fork() -> None:
    if _held:
        _drawing.release()


def _in_child() -> None:
    """The line is the parent's; what would erase it is not here."""
    global _line, _drawing, _changing
    left, _line = _line, None
    _captures.clear()
    _drawing, _changing = threading.RLock(), _thread.allocate_lock()
    _local.__dict__.clear()
    if left is not None:
        left.disable = True
        type(left)._instances.discard(left)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
