"""A call in pieces, for `dynamlir.explain`: the captured graphs, and what ran between them."""

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
    """The results of a call, in the order in which they were found."""

    captured: list[Captured] = dataclasses.field(default_factory=list)
    """The graphs."""
    frames: list[Any] = dataclasses.field(default_factory=list)
    """Their ``CapturedFrame``s."""
    breaks: list[reasons.Event] = dataclasses.field(default_factory=list)
    """The reason for each graph break, and for each frame that runs as plain Python to its end."""


class Collector(Compiler):
    """Records the graphs that it is to compile, but compiles none: they run as torch's functions."""

    def __init__(self, function: types.FunctionType, name: str, pieces: Pieces) -> None:
        super().__init__(function, name, "eager", False, (None, None))
        self.pieces_found = pieces

    def compile(self, frame: Any) -> backends.Runner | tuple[reasons.Event, bool]:
        """Records a graph."""
        self.pieces_found.captured.append(Captured.of(self.name, frame))
        self.pieces_found.frames.append(frame)
        return super().compile(frame)

    def takes_recurrent(self) -> bool:
        """As for our own compiler."""
        return True

    def broke(self, reason: str, message: str, location: reasons.Location) -> reasons.Event:
        """Records the reason for a graph break."""
        return self._found(reason, message, location)

    def tell_break(self, event: reasons.Event) -> None:
        """Does nothing."""

    def forbidden(self, event: reasons.Event) -> None:
        """Does nothing."""

    def stopped(
        self, reason: str, message: str, location: reasons.Location, forbidden: bool = False
    ) -> tuple[reasons.Event, bool]:
        """Records the reason that a frame is plain Python from here on."""
        return self._found(reason, message, location), True

    def called(self, function: types.FunctionType) -> tuple[types.FunctionType, Compiler] | None:
        """Returns a function called between graphs, and the collector that records its captures."""
        found = super().called(function)
        return found and (found[0], Collector(found[0], found[1].name, self.pieces_found))

    def _found(self, reason: str, message: str, location: reasons.Location) -> reasons.Event:
        event = reasons.Event(reason, message, tuple(location or self.defined()))
        # It ends the graphs of all running frames, and leads to others that need no report.
        known = {(known.reason, known.line) for known in self.pieces_found.breaks}
        if reason != "resumed" and (reason, event.line) not in known:
            self.pieces_found.breaks.append(event)
        return event


def collect(function: types.FunctionType, bound: tuple[Any, ...], model: Any, args: Any, kwargs: Any) -> Pieces:
    """Runs a call in pieces."""
    pieces = Pieces()
    collector = Collector(function, function.__qualname__, pieces)
    run = native.module().compiled_function(function, list(bound), model, collector)
    with config.patch(on_plain="ignore"):
        run(*args, **kwargs)
    return pieces
