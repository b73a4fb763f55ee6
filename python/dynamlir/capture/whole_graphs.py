"""Graphs for foreign backends with unbacked sizes: not cut where these become known.

Such a graph consists of the program's own calls, on tensors of the actual sizes; it depends on the sizes only through
the assumptions of the capture. So right after the node that produces a size, there is a node that checks them. If a
check fails, the call is rerun as plain Python, which raises what eager raises. No effect that a second run would reveal
may have happened by then: `refuse` ends the capture, and `careful` restores what can be restored.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from .. import native
from ..reasons import Fallback
from ..thread_state import ThreadState

if TYPE_CHECKING:
    from .session import Session


class Checks:
    """The checks to run as soon as some symbols, given by their numbers, are known."""

    def __init__(self, sizes: Any, symbols: Sequence[int]) -> None:
        self._sizes, self._symbols = sizes, symbols

    def __deepcopy__(self, memo: Any) -> Checks:
        return self

    def __fx_create_arg__(self, tracer: torch.fx.Tracer) -> torch.fx.Node:
        """Returns the node for it in a graph that is traced from the graph that has it."""
        name = next(name for name, value in vars(tracer.root).items() if value is self)
        return tracer.create_node("get_attr", name, (), {})

    def __repr__(self) -> str:
        return ", ".join(f"s{symbol}" for symbol in self._symbols)

    def check(self, values: Sequence[Any]) -> None:
        """Raises the error that reruns the call as plain Python, unless all checks hold for these values."""
        if torch.jit.is_tracing() or any(type(value) is not int for value in values):
            raise Fallback("traced-again", f"the values of {self}")
        known: list[int | None] = [None] * len(self._sizes)
        for symbol, value in zip(self._symbols, values, strict=True):
            known[symbol] = value
        if (broken := self._sizes.violated(known)) is not None:
            raise native.module().RunError(f"{broken} does not hold")


@torch.fx.node.has_side_effect
def check_sizes(checks: Checks, *values: Any) -> Any:
    """The checking node. Passes of fx must neither drop it because it returns nothing, nor call it while they trace."""
    for value in values:
        if isinstance(value, torch.fx.Proxy):
            return value.tracer.create_proxy("call_function", check_sizes, (checks, *values), {})
    return checks.check(values)


def refuse(session: Session) -> None:
    """Raises `Fallback` if an irreversible effect comes before the last check, or if no node produces a size."""
    assert session.calls is not None
    recording = session.recording
    order = {id(op): at for at, op in enumerate(recording.ops)}
    born = {birth.symbol: order[id(birth.op)] for birth in session.births}
    checked = [symbols for symbols in session.calls.sizes.checked() if any(symbol in born for symbol in symbols)]
    last = max((born.get(symbol, -1) for symbols in checked for symbol in symbols), default=-1)
    if last < 0:
        return
    if not {symbol for symbols in checked for symbol in symbols if symbol in born} <= {*session.spelled}:
        raise _refused("is within another operation")
    given = len(recording.inputs) - len(recording.captures)
    inputs = {record.id for record in recording.inputs[:given]}
    roots = recording.roots()
    for op in recording.ops[:last]:
        if any(roots.get(op.operands[at], op.operands[at]) in inputs for at in op.mutates):
            raise _refused("is known after an input is written")
        if op.random and torch.cuda.is_initialized():
            raise _refused("is known after random numbers were drawn, which may be of a GPU")
    if any(at <= last for at in session.opaque):
        raise _refused("is known after a function has run that is not looked into")
    if session.frees:
        raise _refused("is known in a graph that computes gradients")


def _refused(message: str) -> Fallback:
    return Fallback("data-dependent-size", f"for another's backend: one that {message}")


def has_checks(session: Session) -> bool:
    """Returns true if the graph has checks."""
    return session.uncut and bool(session.births) and bool(session.calls and session.calls.sizes.checked())


def careful(session: Session, run: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a graph so that it restores the thread state if a check fails."""
    if not (session.recording.has_random or session.sets_state):
        return run
    refused = native.module().RunError

    def call(*inputs: Any) -> Any:
        with put_back(refused):
            return run(*inputs)

    return call


@contextlib.contextmanager
def put_back(*errors: type[BaseException]) -> Iterator[None]:
    """Restores the thread state if one of these is raised."""
    state = ThreadState()
    try:
        yield
    except errors:
        state.put_back()
        if not torch.is_autocast_enabled("cpu") and state.nesting == 0:
            torch.clear_autocast_cache()
        raise


def raise_if_traced(session: Session, error: BaseException) -> None:
    """Raises `Fallback` if a backend failed because it does not run such a graph as it is, or if a check failed."""
    known = [native.module().RunError, DataDependentOutputException, DynamicOutputShapeException]
    symbolic: Any = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    if symbolic is not None:
        known.append(symbolic.GuardOnDataDependentSymNode)
    seen: BaseException | None = error
    met: set[int] = set()
    while session.uncut and session.births and seen is not None and id(seen) not in met:
        if type(seen) is Fallback:
            raise seen from None
        if isinstance(seen, tuple(known)):
            raise Fallback("traced-again", f"{type(seen).__name__}: {seen}".split("\n")[0]) from None
        met.add(id(seen))
        seen = seen.__cause__ or seen.__context__
