"""One line on the terminal while a compilation takes long: ``dynamlir: compiling forward (model.py:12) ... 3 s``.

It appears after two seconds, is rewritten once a second and disappears when the compilation ends, however it ends. It
is shown if stderr is a terminal and ``dynamlir.config.progress`` allows it; with several threads, for the one that came
first. tqdm writes it, so that it is placed below a loop's progress bar.

A separate thread does this, in Python. It waits for the GIL, which the native compiler releases, but C code called by
torch on fakes may not. The time of our own capture counts, but the line appears only after it, because a capture treats
objects created meanwhile as the call's. TorchDynamo's work before it calls our backend cannot be counted.

Errors in this module go to the log: they never make a compilation fail.
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
"""Seconds before the line appears."""
_EVERY = 1.0

_drawing = threading.RLock()
"""Held while something is written, and while the process forks: tqdm's locks are free in the child."""
_changing = _thread.allocate_lock()
"""Held while the line is changed. Waiting code only polls it, because a signal handler that raises right after a lock
was taken would leave it taken."""
_line: Any = None
"""The visible tqdm."""
_captures: set[object] = set()
"""Calls that are being captured, in all threads."""
_local = threading.local()


class Shown:
    """A piece of work that is shown if it takes long. Nested in another one of the same thread it shows nothing."""

    def __init__(self, label: str, since: float | None = None) -> None:
        self._since = time.monotonic() if since is None else since
        self._text = f"dynamlir: compiling {label} ... "
        self._process = 0
        self._running = _thread.allocate_lock()
        self._erased = _thread.allocate_lock()

    def begin(self) -> None:
        """Begins the work. On a terminal this starts a thread."""
        try:
            if getattr(_local, "within", False) or not _is_wanted():
                return
            self._running.acquire()
            self._erased.acquire()
            _local.within = True
            self._process = os.getpid()
            # Not a `threading.Thread`: the captured code may count those.
            _thread.start_new_thread(_watch, (weakref.ref(self), sys.stderr, self._text, self._since))
        except BaseException as error:
            self._process = 0
            _local.within = False
            interruptions.pass_on(error)
            if not isinstance(error, Exception):
                raise
            _log()

    def end(self) -> None:
        """Ends the work, even if it has never begun: the line is gone when this returns."""
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
    """Returns the text for a function in the line: with its file and line, without folders."""
    if code is not None:
        name = f"{name} ({code.co_filename}:{code.co_firstlineno})"
    name = re.sub(r"\([^()]*[/\\]", "(", name)
    return "".join(character if character.isprintable() else "?" for character in name)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Keeps the line unchanged while a call is captured, because a capture treats every new object as the call's."""
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
    """Removes the line for a moment, to write something else to the terminal."""
    if _line is None:
        yield
        return
    with _drawing, type(_line).external_write_mode(sys.stderr) if _line is not None else contextlib.nullcontext():
        yield


def _is_wanted() -> bool:
    """Returns true if there is a terminal, and probably no other process writes such lines to it."""
    if sys.stderr is None or not sys.stderr.isatty() or not config.read("progress"):
        return False
    return os.environ.get("LOCAL_RANK", "0") == "0" and multiprocessing.parent_process() is None


def _watch(work: weakref.ref[Shown], stream: Any, text: str, since: float) -> None:
    """Shows the line until the work ends, or is garbage-collected: an interruption may skip the call of `end`."""
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
    """Draws the line with another text; returns None if there is none yet."""
    global _line
    with _drawing, _changing:
        if _captures:
            return own
        if own is not None:
            own.set_description_str(text)
        elif _line is None:
            # Some terminals report that they have no size, which tqdm takes for small.
            size = os.get_terminal_size(stream.fileno())
            columns, rows = (size.columns or 80) - 1, size.lines or 24
            own = _line = _tqdm()(desc=text, bar_format="{desc}", leave=False, file=stream, ncols=columns, nrows=rows)
        return own


def _erase(own: Any) -> None:
    global _line
    with _drawing, _changing:
        if own is not None and own is _line:
            _line = None
            # Overwrites the ^C that the terminal has echoed after it.
            own.set_description_str(f"{own.desc}    ")
            own.close()


@functools.cache
def _tqdm() -> Any:
    """Returns tqdm, imported only when there is something to show, without its thread that monitors bars."""
    from tqdm import tqdm  # only long compilations need it

    class Line(tqdm):
        monitor_interval = 0

    # Threads end with the process, without notice.
    atexit.register(lambda: _erase(_line))
    return Line


def _log() -> None:
    logs.logger("runtime").debug("the progress line", exc_info=True)


_held = False


def _before_fork() -> None:
    global _held
    # With a timeout: a terminal that accepts no output must not block for long.
    _held = _drawing.acquire(timeout=1)


def _after_fork() -> None:
    if _held:
        _drawing.release()


def _in_child() -> None:
    """Drops the line in a child: it is the parent's, and the thread that would erase it does not exist here."""
    global _line, _drawing, _changing
    left, _line = _line, None
    _captures.clear()
    _drawing, _changing = threading.RLock(), _thread.allocate_lock()
    _local.__dict__.clear()
    if left is not None:
        left.disable = True
        type(left)._instances.discard(left)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
