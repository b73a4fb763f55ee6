"""A call in pieces, for `dynamlir.explain`: what was captured, and what ran between."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

from .. import config, native, reasons
from . import backends
from .api import Compiler
from .backends import Captured


@dataclasses.dataclass
class Pieces:
    """What a call has come to, in the order in which it was found out."""

    captured: list[Captured] = dataclasses.field(default_factory=list)
    """The graphs."""
    frames: list[Any] = dataclasses.field(default_factory=list)
    """Their ``CapturedFrame``s."""
    breaks: list[reasons.Event] = dataclasses.field(default_factory=list)
    """Why each graph ends before its frame, and what runs as plain Python to its end."""


class Collector(Compiler):
    """Notes what it is asked to compile, and compiles nothing: the graphs run as torch's functions."""

    def __init__(self, function: types.FunctionType, name: str, pieces: Pieces) -> None:
        super().__init__(function, name, "eager", False, (None, None))
        self.pieces_found = pieces

    def compile(self, frame: Any) -> backends.Runner | tuple[reasons.Event, bool]:
        """Note a graph."""
        self.pieces_found.captured.append(Captured.of(self.name, frame))
        self.pieces_found.frames.append(frame)
        return super().compile(frame)

    def takes_recurrent(self) -> bool:
        """As our own compiler does."""
        return True

    def broke(self, reason: str, message: str, location: reasons.Location) -> reasons.Event:
        """Note why a graph ends."""
        return self._found(reason, message, location)

    def tell_break(self, event: reasons.Event) -> None:
        """Say nothing."""

    def forbidden(self, event: reasons.Event) -> None:
        """Say nothing."""

    def stopped(
        self, reason: str, message: str, location: reasons.Location, forbidden: bool = False
    ) -> tuple[reasons.Event, bool]:
        """Note why a frame is plain Python from here on."""
        return self._found(reason, message, location), True

    def called(self, function: types.FunctionType) -> tuple[types.FunctionType, Compiler] | None:
        """A function that is called between graphs, and who notes what becomes of it."""
        found = super().called(function)
        return found and (found[0], Collector(found[0], found[1].name, self.pieces_found))

    def _found(self, reason: str, message: str, location: reasons.Location) -> reasons.Event:
        event = reasons.Event(reason, message, tuple(location or self.defined()))
        # It ends the graphs of all frames that are running, and leads to others of which there is nothing to say.
        known = {(known.reason, known.line) for known in self.pieces_found.breaks}
        if reason != "resumed" and (reason, event.line) not in known:
            self.pieces_found.breaks.append(event)
        return event


def collect(function: types.FunctionType, bound: tuple[Any, ...], model: Any, args: Any, kwargs: Any) -> Pieces:
    """Run a call in pieces."""
    pieces = Pieces()
    collector = Collector(function, function.__qualname__, pieces)
    run = native.module().compiled_function(function, list(bound), model, collector)
    with config.patch(on_plain="ignore"):
        run(*args, **kwargs)
    return pieces
