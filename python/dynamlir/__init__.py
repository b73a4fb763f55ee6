"""dynamlir: a torch.compile stack on MLIR.

``dynamlir.compile(model)`` and ``torch.compile(model, backend="dynamlir")`` compile for the CPU; `last_compile()` says
what became of it.
"""

from __future__ import annotations

import os
from typing import Any

from . import requirement  # noqa: F401 (before all that imports torch)

# isort: split
from . import logs, native, reasons, report
from .backend import dynamlir_backend
from .capture.api import Unsupported, compile
from .capture.explain import explain
from .capture.steps import trace_steps
from .report import CompileReport

__version__ = "0.1.0"

backend = dynamlir_backend

logs.configure()


def last_compile() -> CompileReport | None:
    """The report of the latest compilation, of any thread; None before the first."""
    return report.last()


def compiles() -> list[CompileReport]:
    """The latest reports, oldest first."""
    return report.all_reports()


def counters() -> dict[str, Any]:
    """Totals since the last `reset`: graphs, operations, kernels, and under ``fallbacks`` each reason's count."""
    return {**report.counters(), "fallbacks": reasons.counts()}


def fallbacks() -> list[reasons.Event]:
    """The latest occasions on which plain eager ran, oldest first."""
    return reasons.events()


def explain_last() -> str:
    """The latest report and the reasons met so far, as text."""
    made = report.last()
    parts = [str(made) if made is not None else "nothing compiled yet"]
    table = report.reasons_table(reasons.counts())
    return "\n".join([*parts, table] if table else parts)


def decompile(function: Any) -> str:
    """The bytecode of a function or code object as Python source; what has none that means the same, as disassembly."""
    return native.module().decompile(function)


def disassemble(function: Any) -> str:
    """The instructions of a function or code object, one a line."""
    return native.module().disassemble(function)


def reset() -> None:
    """Forget reports, counters and reasons. What was compiled stays.

    ``fn.reset()`` drops the entries of what `compile` returned for a function, ``torch.compiler.reset()`` those of
    torch.compile, and neither touches the other's.
    """
    report.reset()
    reasons.reset()


def load(path: str | os.PathLike[str], stage: str | None = None) -> Any:
    """Replay a dumped ``.mlir`` of any stage to an executable: call it with the graph's tensors.

    ``stage`` (``"linalg"``, ``"05-linalg"``) says at which stage the text is. Without it the file's name does, if it is
    a dump's, and else the text itself. `ValueError` where the text is no such program.
    """
    return native.module().load(os.fspath(path), stage)


__all__ = [
    "CompileReport",
    "Unsupported",
    "__version__",
    "backend",
    "compile",
    "compiles",
    "counters",
    "explain",
    "explain_last",
    "fallbacks",
    "last_compile",
    "load",
    "reset",
    "trace_steps",
]
