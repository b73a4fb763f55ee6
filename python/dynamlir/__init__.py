"""dynamlir: a torch.compile stack on MLIR.

``dynamlir.compile(model)`` and ``torch.compile(model, backend="dynamlir")`` compile functions and modules. What cannot
be compiled runs as plain Python: a `PlainRunWarning` says so once, `fallbacks` each time.

To compile: `compile`, which returns something to call like that which it was given (`Compiled`), `reset`, `config`,
`error_on_graph_break`.
To see what became of it: `last_compile`, `compiles`, `counters`, `fallbacks`, `explain_last`.
To check what the cache remembers: `config.audit`, `audits`.
To see how long each kernel takes when it runs: `profile`.
To see what becomes of a call, without compiling it: `explain`, `trace_steps`; what a function is: `disassemble`,
`decompile`.
To have a whole program that can be saved: `export`, whose `ExportedProgram`s `load` reads; for sizes of it that vary
`Dim`, which is torch.export's.
To run a stage that was dumped: `load`, too.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import requirement  # noqa: F401 (before all that imports torch)

# isort: split
from torch.export import Dim

from . import autotune, config, logs, native, parsing, plain, reasons, report
from .backend import dynamlir_backend as backend
from .capture import api as _api
from .capture import audit as _audit
from .capture.api import compile
from .capture.audit import Audits, StaleEntry, StaleEntryWarning, audits
from .capture.explain import explain
from .capture.steps import trace_steps
from .capture.typed import Compiled
from .exported.making import export
from .exported.program import ExportedProgram
from .plain import PlainRunWarning, Unsupported
from .profiling import Profile, profile
from .report import CompileReport
from .strict import error_on_graph_break

if TYPE_CHECKING:
    from ._native import Executable

__version__ = "0.1.0"

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


def decompile(function: Callable[..., Any] | types.CodeType) -> str:
    """The bytecode of a function or code object as Python source; what has none that means the same, as disassembly."""
    return native.module().decompile(function)


def disassemble(function: Callable[..., Any] | types.CodeType) -> str:
    """The instructions of a function or code object, one a line."""
    return native.module().disassemble(function)


def reset(compiled: Any = None) -> None:
    """Forget what was compiled, as if the process had just begun: all of it, or that for one function or module.

    That is the entries of all that `compile` returned, kernels, reports, counters, reasons, and which warnings have
    been given. What lies on the disk stays, and so do settings. ``torch.compiler.reset()`` forgets the entries of
    torch.compile, and the kernels; ``compiled.reset()`` is the same as ``dynamlir.reset(compiled)``.
    """
    if compiled is not None:
        _api.reset(compiled)
        return
    _api.reset_all()
    native.forget_kernels()
    autotune.forget()
    report.reset()
    reasons.reset()
    plain.reset()
    _audit.reset()


def load(
    path: str | os.PathLike[str], stage: str | None = None, *, dump: str | os.PathLike[str] | None = None
) -> Executable | ExportedProgram:
    """Read an exported program, which is a folder; or replay a dumped ``.mlir`` of any stage to an executable.

    The executable is called with the graph's tensors, the program as what it was made of (`ExportedProgram`).

    ``stage`` (``"linalg"``, ``"05-linalg"``) says at which stage the text is. Without it the file's name does, if it is
    a dump's, and else the text itself. ``dump`` is a folder for the stages from there on. `ValueError` where the text
    is not such a program, and where its ``dynamo.target`` is a machine whose code this one cannot run: its stages are
    dumped all the same, down to LLVM IR. A text of several entries is for `load_entries`.

    An entry with ``dynamo.vjp`` trains: where grad mode is on and an input that has a gradient requires one, its
    outputs have a history, of which the entry that it names computes the gradients. The two are one program here. One
    with ``dynamo.vjps`` is several nodes of autograd's graph, and names an entry for each.
    """
    if isinstance(path, (str, os.PathLike)) and os.path.isdir(path):
        from .exported import files

        if stage is not None or dump is not None:
            raise ValueError(f"{os.fspath(path)} is a folder: an exported program, which has no stage and no dump")
        return files.load(os.fspath(path))
    entries = _load(path, stage, dump)
    for vjp in [vjp for executable in entries.values() for vjp in executable.vjps]:
        entries.pop(vjp, None)
    if len(entries) > 1:
        names = ", ".join(entries)
        raise ValueError(f"{os.fspath(path)} has the entries {names}: dynamlir.load_entries gives them by name")
    return next(iter(entries.values()))


def load_entries(
    path: str | os.PathLike[str], stage: str | None = None, *, dump: str | os.PathLike[str] | None = None
) -> dict[str, Executable]:
    """As `load`, for a text with any number of entries: each ``func.func`` with ``dynamo.entry``, by its name.

    Each is called by itself. They share the kernels that they have in common. One with ``dynamo.vjp`` trains, as with
    `load`; the entry that this names can be called as well, with what is saved and the tangents.
    """
    return _load(path, stage, dump)


def _load(
    path: str | os.PathLike[str], stage: str | None, dump: str | os.PathLike[str] | None
) -> dict[str, Executable]:
    """The entries of a text, named in profiles as the file is, and where it has several as the entry is."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"expected the path of a dumped .mlir file, not {path!r}")
    if stage is not None and not isinstance(stage, str):
        raise TypeError(f"expected the name of a stage such as 'linalg', not {stage!r}")
    parsing.check(os.fspath(path))
    options = {} if dump is None else {"dump": os.fspath(dump)}
    entries = dict(native.module().load(os.fspath(path), stage, options))
    for name, executable in entries.items():
        file = os.path.basename(path)
        executable.times(file if len(entries) == 1 else f"{file} @{name}")
    return entries


__all__ = [
    "Audits",
    "CompileReport",
    "Compiled",
    "Dim",
    "ExportedProgram",
    "PlainRunWarning",
    "Profile",
    "StaleEntry",
    "StaleEntryWarning",
    "Unsupported",
    "__version__",
    "audits",
    "backend",
    "compile",
    "compiles",
    "config",
    "counters",
    "decompile",
    "disassemble",
    "error_on_graph_break",
    "explain",
    "explain_last",
    "export",
    "fallbacks",
    "last_compile",
    "load",
    "load_entries",
    "profile",
    "reset",
    "trace_steps",
]
