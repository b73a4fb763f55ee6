"""Warns the user about plain runs: code meant to be compiled that runs as plain Python is slow, without any other sign.

A warning is given before any user code runs, once for each function and reason, or once for a reason that does not
concern a function: a tensor of a subclass reaches all functions of a library, a tracer watches them all. Alternatively
an `Unsupported` is raised each time, or nothing is reported (`dynamlir.config.on_plain`). If a filter turns the warning
into an exception, nothing has been done, and the next call repeats it. No registry of the user's modules is modified:
the record of warnings is kept here, and forked children inherit it.
"""

from __future__ import annotations

import functools
import sys
import types
import warnings
from collections.abc import Iterator

import torch.fx

from . import config, reasons
from .source_lines import Line, innermost, is_users, parse_stack

Place = tuple[str, int]


class PlainRunWarning(UserWarning):
    """Code meant to be compiled runs as plain Python. The message has the reason, and what to do; it is given once."""


class Unsupported(RuntimeError):
    """A function cannot be captured and compiled whole, and must not run as plain Python.

    Raised with ``fullgraph=True``, and if `dynamlir.config.on_plain` is ``"error"``. The message has the reason, the
    Python line and what to do. What is raised is also a ``torch._dynamo.exc.Unsupported``, so that code that handles
    torch's exception handles this one.
    """

    def __new__(cls, *args: object) -> Unsupported:
        return super().__new__(_with_torchs() if cls is Unsupported else cls, *args)

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        # Torch's exception counts itself as a graph break of TorchDynamo's.
        getattr(self, "remove_from_stats", lambda: None)()

    def __reduce__(self) -> tuple[object, ...]:
        return Unsupported, self.args


# The name in a traceback is the one for the user's filters and `except` clauses.
PlainRunWarning.__module__ = Unsupported.__module__ = "dynamlir"


@functools.cache
def _with_torchs() -> type[Unsupported]:
    """Returns the class of instances, which is torch's as well: an import of TorchDynamo takes as long as one of torch,
    so it is left to the first exception."""
    from torch._dynamo.exc import Unsupported as OfTorch  # see above

    bases: tuple[type, ...] = (Unsupported, OfTorch)
    return type("Unsupported", bases, {"__module__": "dynamlir", "__doc__": Unsupported.__doc__})


class Subject:
    """The function or module to be compiled, as far as warnings are concerned."""

    def __init__(self, name: str, code: types.CodeType | None = None) -> None:
        self.name = name
        self.place: Place | None = None
        """Its place, if it is the user's code."""
        self.function = ""
        """The name of its frame there."""
        self.key: object = object()
        """Equal for what the user considers one function. None: identified by the calling line."""
        if code is not None and is_users(code.co_filename):
            self.place = (code.co_filename, code.co_firstlineno)
            self.function = code.co_name
            self.key = (code.co_filename, hash(code))

    @staticmethod
    def of_graph(gm: torch.fx.GraphModule) -> Subject:
        """Returns the function that a graph of torch.compile comes from, according to its nodes."""
        stacks = (parse_stack(node.stack_trace) for node in gm.graph.nodes if node.stack_trace)
        file, line, function, _ = next((frames[-1] for frames in stacks if frames), ("", 0, "", 0))
        subject = Subject(f"a graph of {function}" if function else "a graph")
        subject.key = None
        if file and is_users(file):
            subject.place, subject.function = (file, line), function
            subject.key = (file, function)
        return subject


_ONCE = "(Said once{}; dynamlir.config.on_plain = 'error' raises, 'ignore' is silent.)"

_FOR_ALL = frozenset(["process", "argument", "call"])
"""The causes that do not lie in the function which runs as plain Python."""

_said: dict[tuple[object, str], object] = {}


def tell(subject: Subject, event: reasons.Event, breaks: bool = False) -> None:
    """Reports that ``subject`` is about to run as plain Python, or raises.

    With ``breaks`` only a part of it does, between two graphs; that is reported once for each function, and for each
    place.
    """
    action = config.on_plain
    if action == "error":
        raise Unsupported(_text(subject, event, breaks=breaks))
    if action == "ignore":
        return
    owner = subject.key if subject.key is not None else _caller(subject)
    me = object()
    for_all = event.entry.cause in _FOR_ALL
    key: tuple[object, str] = (None if for_all else owner, event.reason)
    if breaks and not for_all:
        # It ends the graphs of all running frames, and one frame may have many of them.
        key = (users_line(event.location) or owner, "break")
        if _said.setdefault((owner, "break"), me) is not me:
            _said.setdefault(key, me)
            return
    if _said.setdefault(key, me) is not me:
        return
    try:
        place = _place(subject, event)
        text = f"{_text(subject, event, place, breaks)} {_ONCE.format(' for all functions' if for_all else '')}"
        file, line = place or ("<unknown>", 1)
        warnings.warn_explicit(text, PlainRunWarning, file, line, _module_of(file))
    except BaseException:
        _said.pop(key, None)
        if breaks and not for_all:
            _said.pop((owner, "break"), None)
        raise


def reset() -> None:
    """Discards the record of warnings."""
    _said.clear()
    config.touch()


def _text(subject: Subject, event: reasons.Event, place: Place | None = None, breaks: bool = False) -> str:
    """Returns the text: the event and what to do, with the line if it is not the ``place`` that is shown anyway."""
    reason = event.entry
    detail = f" ({' '.join(event.message.split())})" if event.message else ""
    cause = users_line(event.location) or subject.place
    at = f" at {cause[0]}:{cause[1]}" if cause and cause != place else ""
    hint = f" {reason.hint}" if reason.hint else ""
    what = "is compiled in parts, with plain Python between" if breaks else "runs as plain Python"
    return f"{subject.name} {what}: {reason.id}{at}{detail}. {reason.explanation}{hint}"


def users_line(location: tuple[Line, ...]) -> Place | None:
    """Returns the innermost line that is the user's own."""
    found = innermost(location)
    return None if found is None else found[:2]


def _place(subject: Subject, event: reasons.Event) -> Place | None:
    """Returns the line that a warning concerns."""
    cause = users_line(event.location)
    if event.entry.cause == "call":
        return _caller(subject) or cause or subject.place
    return cause or subject.place or _caller(subject)


def _caller(subject: Subject) -> Place | None:
    """Returns the user's line that calls the compiled object."""
    for code, line in _stack():
        is_itself = subject.place is not None and (code.co_filename, code.co_name) == (
            subject.place[0],
            subject.function,
        )
        if is_users(code.co_filename) and not is_itself:
            return code.co_filename, line
    return None


def _stack() -> Iterator[tuple[types.CodeType, int]]:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame.f_code, frame.f_lineno
        frame = frame.f_back


def _module_of(file: str) -> str:
    """Returns the module name of a file, as filters use it."""
    for name, module in list(sys.modules.items()):
        if (
            isinstance(module, types.ModuleType)
            and types.ModuleType.__getattribute__(module, "__dict__").get("__file__") == file
        ):
            return name
    return file.removesuffix(".py")  # Python's own fallback; with None it would not warn
