"""Registry of the reasons for which a graph runs as plain eager, and the count of how often each was met."""

from __future__ import annotations

import collections
import dataclasses
import os
import threading

import torch

from . import logs

_TORCH = os.path.join(os.path.dirname(torch.__file__), "")

Location = list[tuple[str, int, str]]
"""(file, line, function), innermost first."""


@dataclasses.dataclass(frozen=True)
class Reason:
    """One entry of the registry."""

    id: str
    explanation: str
    hint: str


REASONS: dict[str, Reason] = {
    reason.id: reason
    for reason in (
        Reason("unsupported-torch", "This torch version has not been tried.", "Install torch 2.11 to 2.15."),
        Reason("native-missing", "The native extension cannot be loaded.", "Build it with scripts/setup."),
        Reason("device", "A tensor is neither on the CPU nor on a CUDA device.", "Move it, or use another backend."),
        Reason("mixed-devices", "Tensors of one graph live on several devices.", "Move them to one of them."),
        Reason(
            "no-cuda",
            "The graph's tensors are on a CUDA device, and the CUDA driver cannot be used.",
            "Install a driver, or name its library in DYNAMLIR_CUDA_LIBRARY.",
        ),
        Reason("gpu-chip", "There is no code for this GPU.", "Code is made for sm_80 and later."),
        Reason("gpu-kernel", "A kernel has no form for a GPU's threads, or no code.", "Please report this."),
        Reason("gpu-random", "A graph on a GPU draws random numbers.", "Draw them outside."),
        Reason("misaligned", "An input does not lie in memory as the code for a GPU counts on.", "Clone it."),
        Reason("layout", "A tensor is sparse, quantized, mkldnn or nested.", "Convert it with .to_dense()."),
        Reason("subclass", "A tensor subclass has behaviour of its own.", "Unwrap it before the compiled function."),
        Reason("complex", "Complex numbers have no kernels here.", "Compute with view_as_real()."),
        Reason("dtype", "The element type is not one of f64 f32 bf16 f16 i64 i32 i16 i8 u8 bool.", "Convert it."),
        Reason("lazy-bit", "A tensor carries the conjugate or negative bit.", "Call resolve_conj()/resolve_neg()."),
        Reason("autograd", "Gradients are recorded.", "Call the function under torch.no_grad()."),
        Reason("data-dependent", "A size or a Python value depends on tensor contents.", "Keep it out of the graph."),
        Reason("higher-order-op", "The graph holds an operation with subgraphs.", "Not supported yet."),
        Reason("metadata-mutation", "set_, resize_ or .data changes a tensor's storage or shape.", "Avoid it."),
        Reason(
            "overlap",
            "An operation writes memory that it also reads, so its result depends on the order of eager's loops.",
            "Clone one of its operands.",
        ),
        Reason(
            "no-functional-variant",
            "A mutating operation has no variant that returns the new value.",
            "Use an out-of-place operation.",
        ),
        Reason("runtime-assert", "The graph asserts something about tensor contents.", "Remove the assertion."),
        Reason(
            "opaque-argument",
            "An operation takes an argument that cannot be written down (generator, storage).",
            "Use the default generator.",
        ),
        Reason("non-tensor-result", "An operation returns something that is neither tensor nor None.", ""),
        Reason("non-tensor-output", "The graph returns something that is neither tensor, number, string nor None.", ""),
        Reason("unknown-tensor", "A tensor appeared whose origin the recorder has not seen.", "Please report this."),
        Reason("no-fake", "An operation cannot be run on fake tensors.", "Register a fake implementation for it."),
        Reason(
            "custom-op-view",
            "An output is a view of a custom operator's result, whose version is not known.",
            "Clone it.",
        ),
        Reason("dynamic-shape", "A size is marked dynamic, so it must not be specialised.", "Use mark_static."),
        Reason(
            "disabled",
            "A function is called that a switch of torch's keeps out of graphs.",
            "Call it outside, or remove the switch.",
        ),
        Reason("tracing-error", "The operations raised an exception on fake tensors; eager raises its own.", ""),
        Reason("input-layout", "Inputs alias in too many ways, or change aliasing between calls.", "Clone them."),
        Reason("unsupported", "The native compiler does not support the graph.", ""),
        Reason("run-error", "A compiled call failed; it was repeated as plain eager.", "Please report this."),
        Reason("c-function", "A C function that the capture does not know is called.", "Call it outside."),
        Reason(
            "side-effect", "Something that existed before the call would be changed.", "Return the new value instead."
        ),
        Reason("hidden-operation", "C code runs an operation on tensors that the graph does not show.", ""),
        Reason("unguardable", "A value decides something, but no guard can check it later.", "Pass it as an argument."),
        Reason(
            "tensor-escape", "Memory, contents or gradient of a tensor are asked for.", "Keep it out of the function."
        ),
        Reason(
            "output", "The function returns something that cannot be rebuilt.", "Return tensors and plain containers."
        ),
        Reason(
            "thread-state",
            "Tensors belong to the inference mode that they are made in, and the call is made in another one.",
            "Call the function in that mode.",
        ),
        Reason(
            "print", "The function prints, warns or logs.", "Do it outside, or under torch.compiler.is_compiling()."
        ),
        Reason(
            "unknown-python",
            "What this CPython's frames look like is not known, so nothing is captured.",
            "Use CPython 3.11 to 3.13 without DYNAMLIR_CAPTURE=0, or torch.compile(backend='dynamlir').",
        ),
        Reason("bytecode", "The interpreter does not run this bytecode.", "Please report this."),
        Reason("raised", "The function raised while being captured; plain Python raises its own.", ""),
        Reason(
            "cache-limit",
            "The function was compiled too often.",
            "See which guard fails with DYNAMLIR_LOGS=recompiles.",
        ),
        Reason("internal-error", "The compiler itself failed.", "Please report this."),
    )
}


class Fallback(Exception):
    """The graph cannot be compiled; carries the ID of the reason, a message and the Python line."""

    def __init__(self, reason: str, message: str = "", location: Location | None = None) -> None:
        super().__init__(message)
        self.reason = reason if reason in REASONS else "unsupported"
        self.message = message
        self.location = location or []


@dataclasses.dataclass(frozen=True)
class Event:
    """One occasion on which plain eager ran."""

    reason: str
    message: str
    location: tuple[tuple[str, int, str], ...] = ()

    def __str__(self) -> str:
        entry = REASONS[self.reason]
        # The user's line, where torch's own Python code was run for it.
        own = [place for place in self.location if not place[0].startswith(_TORCH)] or self.location
        where = f" at {own[0][0]}:{own[0][1]}" if own else ""
        detail = f" ({self.message})" if self.message else ""
        hint = f" Hint: {entry.hint}" if entry.hint else ""
        return f"{entry.id}{where}: {entry.explanation}{detail}{hint}"


_lock = threading.Lock()
_counts: collections.Counter[str] = collections.Counter()
_EVENT_LIMIT = 1000
_events: collections.deque[Event] = collections.deque(maxlen=_EVENT_LIMIT)


def note(reason: str, message: str = "", location: Location | None = None) -> Event:
    """Count one use of ``reason`` and log it under the topic ``fallback``."""
    event = Event(reason, message, tuple(location or ()))
    with _lock:
        _counts[reason] += 1
        _events.append(event)
    logs.logger("fallback").info("%s", event)
    return event


def counts() -> dict[str, int]:
    """How often each reason was met since the last reset."""
    with _lock:
        return dict(_counts)


def events() -> list[Event]:
    """The latest events, oldest first."""
    with _lock:
        return list(_events)


def reset() -> None:
    """Forget all counts and events."""
    with _lock:
        _counts.clear()
        _events.clear()
